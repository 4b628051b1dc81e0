package serve

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares answers with a file.
func golden(t *testing.T, name string, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

const hello = `"messages":[{"role":"user","content":"hi"}],"seed":7`

type shapedRequest struct{ path, body string }

// shapedRequests returns requests by the name of the golden file of their answer.
func shapedRequests() map[string]shapedRequest {
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	const said = `"input":"hi","seed":7`
	const flat = `"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`
	const input = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
	return map[string]shapedRequest{
		"chat.json": {"/v1/chat/completions", `{` + hello + `,"pilotfish":{"provenance":true}}`},
		"chat-logprobs.json": {"/v1/chat/completions",
			`{` + hello + `,"max_tokens":2,"logprobs":true,"top_logprobs":2,"n":2}`},
		"chat-call.json": {"/v1/chat/completions", `{` + hello + `,"model":"small",` + tools + `}`},
		"chat-stream.txt": {"/v1/chat/completions",
			`{` + hello + `,"stream":true,"stream_options":{"include_usage":true},"n":2,"max_completion_tokens":3}`},
		"chat-call-stream.txt": {"/v1/chat/completions", `{` + hello + `,"stream":true,` + tools + `}`},
		"chat-logprobs-stream.txt": {"/v1/chat/completions",
			`{` + hello + `,"stream":true,"max_tokens":2,"logprobs":true,"pilotfish":{"provenance":true}}`},
		"text.json": {"/v1/completions", `{"prompt":["a","b"],"seed":7,"n":2,"echo":true,"max_tokens":2}`},
		"text-logprobs.json": {"/v1/completions",
			`{"prompt":[104,105],"seed":7,"logprobs":2,"max_tokens":2,"pilotfish":{"provenance":true}}`},
		"text-stream.txt": {"/v1/completions",
			`{"prompt":"a","seed":7,"echo":true,"stream":true,"stream_options":{"include_usage":true},"max_tokens":2}`},
		"text-logprobs-stream.txt": {"/v1/completions",
			`{"prompt":[[97],[98]],"seed":7,"stream":true,"logprobs":1,"max_tokens":2}`},
		"response.json": {"/v1/responses", `{` + said + `,"max_output_tokens":2,"top_logprobs":1,` +
			`"metadata":{"a":"b"},"pilotfish":{"provenance":true}}`},
		"response-call.json":       {"/v1/responses", `{` + said + `,` + flat + `}`},
		"response-stream.txt":      {"/v1/responses", `{` + said + `,"stream":true,"max_output_tokens":3}`},
		"response-call-stream.txt": {"/v1/responses", `{` + said + `,"stream":true,` + flat + `}`},
		"response-broken.txt":      {"/v1/responses", `{"input":"break","stream":true}`},
		"message.json": {"/v1/messages",
			`{` + hello + `,"max_tokens":2,"system":"s","pilotfish":{"provenance":true}}`},
		"message-call.json":       {"/v1/messages", `{` + hello + `,` + input + `}`},
		"message-stream.txt":      {"/v1/messages", `{` + hello + `,"stream":true,"stop_sequences":["x","é"]}`},
		"message-call-stream.txt": {"/v1/messages", `{` + hello + `,"stream":true,` + input + `}`},
		"message-broken.txt":      {"/v1/messages", `{"messages":[{"role":"user","content":"break"}],"stream":true}`},
		"message-bad.json":        {"/v1/messages", `{` + hello + `,"temperature":101}`},
		"message-model.json":      {"/v1/messages", `{` + hello + `,"model":"big"}`},
		"message-tokens.json":     {"/v1/messages/count_tokens", `{` + hello + `}`},
		"response-tokens.json":    {"/v1/responses/input_tokens", `{` + said + `}`},
		"models.json":             {"/v1/models", ""},
		"model.json":              {"/v1/models/small", ""},
		"health.json":             {"/health", ""},
		"no-model.json":           {"/v1/models/big", ""},
		"unknown.json":            {"/v1/audio/speech", `{}`},
		"bad-field.json":          {"/v1/chat/completions", `{` + hello + `,"temperature":101}`},
		"bad-json.json":           {"/v1/chat/completions", `{"messages":`},
		"other-model.json":        {"/v1/completions", `{"prompt":"x","model":"gpt-9"}`},
		"too-long.json":           {"/v1/completions", `{"prompt":"` + strings.Repeat("x", 400) + `"}`},
		"bad-schema.json": {"/v1/chat/completions", `{` + hello +
			`,"response_format":{"type":"json_schema","json_schema":{"schema":{"not":{}}}}}`},
		"broken-model.json": {"/v1/completions", `{"prompt":"break"}`},
	}
}

// newShapedModel returns a model that answers with a text or a call, and fails or refuses if it is asked to.
func newShapedModel() *fakeModel {
	return &fakeModel{context: 400, answer: func(prompt string, s terms.Settings) string {
		if strings.Contains(prompt, "tool {") && s.Schema == nil && !strings.Contains(prompt, callOver) {
			return "Sure. " + callMark + "\nnever mind"
		}
		if s.Schema != nil {
			return `{"name": "f", "arguments": {"x": [1, "é"]}}`
		}
		return "aCé!"
	}, fail: func(prompt string) error {
		if strings.HasPrefix(strings.TrimPrefix(prompt, "user:"), "break") {
			return errors.New("the file /secret/place is broken")
		}
		return nil
	}, refuse: func(s terms.Settings) error {
		if strings.Contains(string(s.Schema), `"not"`) {
			return errors.New("not: this keyword cannot be decided")
		}
		return nil
	}}
}

// TestShapes: the exact bytes that clients get, at the beginning of virtual time. go test -update writes the files.
func TestShapes(t *testing.T) {
	for name, c := range shapedRequests() {
		inVirtualTime(t, name, func(t *testing.T) {
			s := newTestServer(t, newShapedModel(), nil)
			w := ask(t, s, c.path, c.body)
			assert.NotContains(t, w.Body.String(), "secret")
			status := ""
			if w.Code != http.StatusOK {
				status = http.StatusText(w.Code) + "\n"
			}
			golden(t, name, status+w.Body.String())
		})
	}
}

// inVirtualTime runs a test that starts at midnight on 1 January 2000.
func inVirtualTime(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { bubble.Test(t, test) })
}

// TestSeeds: a given seed is used and shown, also a negative or a 64-bit one. Otherwise a new one is drawn each time
// and shown; each of several answers has its own.
func TestSeeds(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "-1": 1<<64 - 1, "18446744073709551615": 1<<64 - 1, "9223372036854775807": 1<<63 - 1,
	} {
		m := &fakeModel{}
		w := ask(t, newTestServer(t, m, nil), "/v1/completions", `{"prompt":"x","n":2,"seed":`+text+`}`)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, want, m.asked[0].Seed)
		assert.Equal(t, want+1, m.asked[1].Seed)
		assert.Contains(t, w.Body.String(), `"pilotfish":{"seed":`)
	}
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	seeds := map[uint64]bool{}
	for range 3 {
		w := ask(t, s, "/v1/completions", `{"prompt":"x"}`)
		var shown struct {
			Own struct{ Seed uint64 } `json:"pilotfish"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &shown))
		assert.Equal(t, m.asked[len(m.asked)-1].Seed, shown.Own.Seed)
		seeds[shown.Own.Seed] = true
	}
	assert.Len(t, seeds, 3)
}

// TestSeedsFit: a drawn seed is a number that every client can repeat.
func TestSeedsFit(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Random = func() uint64 { return math.MaxUint64 } })
	w := ask(t, s, "/v1/completions", `{"prompt":"x"}`)
	assert.Contains(t, w.Body.String(), `{"seed":9007199254740991,`)
}

// TestProvenance: off by default, on by the request.
func TestProvenance(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "aC" }}
	s := newTestServer(t, m, nil)
	for field, want := range map[string][]any{"": {nil, nil}, `,"pilotfish":{}`: {nil, nil},
		`,"pilotfish":{"provenance":false}`: {nil, nil}, `,"pilotfish":{"provenance":true}`: {"edge", "cloud"}} {
		answer := object(t, ask(t, s, "/v1/chat/completions", `{`+hello+field+`}`).Body.Bytes())
		assert.Equal(t, want, []any{at(answer, "choices", 0, "pilotfish", "tokens", 0, "origin"),
			at(answer, "choices", 0, "pilotfish", "tokens", 1, "origin")}, field)
	}
}

// TestProvenanceOfPieces: a stream says which model chose each token, also of those that do not end a character.
func TestProvenanceOfPieces(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "aéC" }}
	w := ask(t, newTestServer(t, m, nil), responses, `{"input":"u","stream":true,"pilotfish":{"provenance":true}}`)
	var origins []any
	for _, e := range namedEvents(t, w.Body.Bytes()) {
		if at(e, "type") == "response.output_text.delta" {
			tokens, _ := at(e, "pilotfish", "tokens").([]any)
			for _, token := range tokens {
				origins = append(origins, at(token, "origin"))
			}
		}
	}
	assert.Equal(t, []any{"edge", "edge", "edge", "cloud"}, origins)
	m.answer = func(string, terms.Settings) string { return "C\xc3" } // it ends within a character
	w = ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,"tools":[{"type":"function","function":{"name":"f"}}],"pilotfish":{"provenance":true}}`)
	assert.Len(t, at(object(t, w.Body.Bytes()), "choices", 0, "pilotfish", "tokens"), 2)
}

// TestProvenanceOfText: in a stream the origins of tokens are with pieces of text, and not with those of thoughts and
// calls, which have none.
func TestProvenanceOfText(t *testing.T) {
	m := newToolModel("<think>\nhm</think>\n\naC", `{"name":"f","arguments":{"x":1}}`, "")
	m.thinks = true
	s := newTestServer(t, m, nil)
	const own = `"stream":true,"pilotfish":{"provenance":true}`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{` + hi + `,` + twoTools + `,` + own + `}`,
		responses:              `{"input":"hi","tools":[{"type":"function","name":"f"}],` + own + `}`,
		messages: `{` + hi + `,"max_tokens":99,"thinking":{"type":"adaptive"},"tools":[{"name":"f"}],` +
			own + `}`,
	} {
		kinds := map[bool]int{}
		for _, e := range streamOf(t, ask(t, s, path, body).Body.String()) {
			delta := at(e, "choices", 0, "delta")
			text := at(delta, "content") != nil || at(e, "delta", "text") != nil ||
				at(e, "type") == "response.output_text.delta"
			other := at(delta, "reasoning_content") != nil || at(delta, "tool_calls") != nil ||
				at(e, "delta", "thinking") != nil || at(e, "delta", "partial_json") != nil ||
				at(e, "type") == "response.reasoning_text.delta" ||
				at(e, "type") == "response.function_call_arguments.delta"
			origins := at(e, "pilotfish")
			if path == "/v1/chat/completions" {
				origins = at(e, "choices", 0, "pilotfish")
			}
			if other {
				assert.Nil(t, origins, "%s: %v", path, e)
			}
			if text && at(delta, "role") == nil {
				assert.NotNil(t, at(origins, "tokens"), "%s: %v", path, e)
			}
			if text || other {
				kinds[text]++
			}
		}
		assert.Greater(t, min(kinds[true], kinds[false]), 1, path)
	}
}

// TestLogProbsOfPieces: in a stream each token has its log-probability, also those that do not end a character.
func TestLogProbsOfPieces(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(string, terms.Settings) string { return "aé€" }}, nil)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{` + hi + `,"stream":true,"logprobs":true}`,
		"/v1/completions":      `{"prompt":"x","stream":true,"logprobs":0}`,
		responses:              `{"input":"hi","stream":true,"include":["message.output_text.logprobs"]}`,
	} {
		n := 0
		for _, e := range streamOf(t, ask(t, s, path, body).Body.String()) {
			for _, name := range []string{"content", "tokens"} {
				list, _ := at(e, "choices", 0, "logprobs", name).([]any)
				n += len(list)
			}
			if list, ok := at(e, "logprobs").([]any); ok && at(e, "type") == "response.output_text.delta" {
				n += len(list)
			}
		}
		assert.Equal(t, len("aé€"), n, path)
	}
}

// TestStop: the finish reason of an answer that ends at a stop string.
func TestStop(t *testing.T) {
	m := &fakeModel{answer: func(string, terms.Settings) string { return "one\ntwo" }}
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,"stop":"\n"}`)
	answer := object(t, w.Body.Bytes())
	assert.Equal(t, "one", at(answer, "choices", 0, "message", "content"))
	assert.Equal(t, "stop", at(answer, "choices", 0, "finish_reason"))
}

// TestHeldBack: text that belongs to no token is shown at the end.
func TestHeldBack(t *testing.T) {
	for _, tools := range []string{"", `,"tools":[{"type":"function","function":{"name":"f"}}]`} {
		m := &fakeModel{answer: func(string, terms.Settings) string { return "ab" }}
		s := newTestServer(t, heldModel{m}, nil)
		for _, stream := range []bool{false, true} {
			body := `{` + hello + tools + `}`
			if stream {
				body = `{` + hello + tools + `,"stream":true}`
			}
			w := ask(t, s, "/v1/chat/completions", body)
			text := ""
			if stream {
				all, done := events(t, w.Body.Bytes())
				require.True(t, done)
				for _, e := range all {
					part, _ := at(e, "choices", 0, "delta", "content").(string)
					text += part
				}
			} else {
				text, _ = at(object(t, w.Body.Bytes()), "choices", 0, "message", "content").(string)
			}
			assert.Equal(t, "ab<too", text, body)
		}
	}
}

// heldModel has sessions with more text at the end than their tokens have.
type heldModel struct{ *fakeModel }

func (m heldModel) NewSession() session { return heldSession{m.fakeModel.NewSession()} }

type heldSession struct{ session }

func (s heldSession) Summary() engine.Summary {
	sum := s.session.Summary()
	if sum.Stop != "" {
		sum.Text += "<too"
	}
	return sum
}

// TestShortened: an answer reports that a value was shortened, in its own choice, in chats, completions and streams.
func TestShortened(t *testing.T) {
	m := &fakeModel{answer: func(_ string, o terms.Settings) string {
		if o.Seed == 7 {
			return "[]"
		}
		return "{}"
	}}
	s := newTestServer(t, m, nil)
	const format = `,"n":2,"response_format":{"type":"json_object"},"pilotfish":{"complete":true}`
	for path, body := range map[string]string{
		"/v1/chat/completions": hello, "/v1/completions": `"prompt":"a","seed":7`,
	} {
		answer := object(t, ask(t, s, path, `{`+body+format+`}`).Body.Bytes())
		assert.Nil(t, at(answer, "choices", 0, "pilotfish"), path)
		assert.Equal(t, true, at(answer, "choices", 1, "pilotfish", "shortened"), path)
		assert.Equal(t, "length", at(answer, "choices", 1, "finish_reason"))
		all, done := events(t, ask(t, s, path, `{`+body+format+`,"stream":true}`).Body.Bytes())
		require.True(t, done)
		var shortened []any
		for _, e := range all {
			if at(e, "choices", 0, "pilotfish", "shortened") != nil {
				shortened = append(shortened, at(e, "choices", 0))
			}
		}
		require.Len(t, shortened, 1, path)
		assert.Equal(t, 1.0, at(shortened[0], "index"), path)
		assert.Equal(t, "length", at(shortened[0], "finish_reason"), path)
	}
}
