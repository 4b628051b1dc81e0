package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// doors are the paths of both kinds of requests, with the least that each needs.
func doors() map[string]string {
	return map[string]string{
		"/v1/chat/completions": hello + `,"seed":7`, "/v1/completions": `"prompt":"hi","seed":7`,
		responses: `"input":"hi","seed":7`, messages: hello,
	}
}

// ownFields are those that a path reads itself.
func ownFields() map[string][]string {
	return map[string][]string{responses: {"store", "include", "reasoning", "max_output_tokens"},
		messages: {"thinking"}}
}

// TestForeign: what other servers know and cannot change an answer is taken with any value, and changes none. What
// could is taken with each value that asks for what is done anyway, and refused by its name with others.
func TestForeign(t *testing.T) {
	for path, body := range doors() {
		m := new(fakeModel)
		s := newTestServer(t, m, nil)
		require.Equal(t, http.StatusOK, ask(t, s, path, `{`+body+`}`).Code)
		same := func(field, value string) {
			w := ask(t, s, path, fmt.Sprintf(`{%s,%q:%s}`, body, field, value))
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", field, w.Body)
			require.Equal(t, m.asked[0], m.asked[len(m.asked)-1], "%s: %s", field, value)
			require.Equal(t, m.prompts[0], m.prompts[len(m.prompts)-1], "%s: %s", field, value)
		}
		for _, name := range ignoredFields {
			if slices.Contains(ownFields()[path], name) {
				continue
			}
			for _, value := range []string{`"x"`, `7`, `{"a":[1]}`, `null`, `[]`, `true`} {
				same(name, value)
			}
		}
		for name, one := range idleFields {
			if slices.Contains(ownFields()[path], name) {
				continue
			}
			for d := json.NewDecoder(strings.NewReader(one.values)); d.More(); {
				var value json.RawMessage
				require.NoError(t, d.Decode(&value))
				same(name, string(value))
			}
			same(name, "null")
			w := ask(t, s, path, fmt.Sprintf(`{%s,%q:"other"}`, body, name))
			assert.Equal(t, http.StatusBadRequest, w.Code, name)
			e := object(t, w.Body.Bytes())
			if path != messages {
				assert.Equal(t, name, at(e, "error", "param"))
				assert.Equal(t, "unsupported_parameter", at(e, "error", "code"))
			}
			assert.Contains(t, at(e, "error", "message"), name+": ")
			assert.Contains(t, at(e, "error", "message"), "leave it out")
		}
		if path == responses || path == messages {
			continue // what follows is of the other two
		}
		for _, pair := range []string{`"max_tokens":-1`, `"top_k":-1`, `"stop":[]`, `"logit_bias":{}`,
			`"stream_options":{"include_usage":false}`, `"repeat_penalty":1`, `"suffix":""`, `"echo":false`,
			`"best_of":1`} {
			if path == "/v1/completions" && strings.HasPrefix(pair, `"max_tokens`) {
				continue // the usual number there is another one
			}
			w := ask(t, s, path, `{`+body+`,`+pair+`}`)
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", pair, w.Body)
			got := m.asked[len(m.asked)-1]
			got.Stop, got.RepeatPenalty = nil, 0
			require.Equal(t, m.asked[0], got, pair)
		}
	}
}

// TestForeignTables: no field is in both tables, and none of them is one that this server follows.
func TestForeignTables(t *testing.T) {
	for _, name := range ignoredFields {
		assert.NotContains(t, idleFields, name)
	}
	followed := []string{"model", "messages", "prompt", "stream", "stream_options", "n", "temperature", "top_p",
		"top_k", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty", "seed", "stop", "logit_bias",
		"pilotfish", "response_format", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "tools",
		"tool_choice",
		"parallel_tool_calls"}
	for _, name := range followed {
		assert.NotContains(t, idleFields, name)
		assert.False(t, slices.Contains(ignoredFields, name), name)
	}
}

// TestForeignParts: what clients send back with messages, parts, calls and tools, and cannot change the answer, leaves
// the prompt as it is.
func TestForeignParts(t *testing.T) {
	const plain = `{"seed":7,"messages":[{"role":"system","content":"s"},` +
		`{"role":"user","content":[{"type":"text","text":"a"}]},` +
		`{"role":"assistant","content":"b","tool_calls":[{"id":"c","type":"function","function":{"name":"f",` +
		`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":"z"}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"d"}}]}`
	with := func(names []string) string {
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, `%q:{"type":"ephemeral"},`, name)
		}
		return b.String()
	}
	m := newToolModel("ok")
	s := newTestServer(t, m, nil)
	require.Equal(t, http.StatusOK, ask(t, s, "/v1/chat/completions", plain).Code)
	for old, add := range map[string]string{
		`{"role":`: with(ignoredInMessages), `{"type":"text"`: with(ignoredInParts),
		`{"id":"c"`: with(ignoredInCalls),
		`{"type":"function","function":{"name":"f","description`: with(ignoredInTools),
		`{"role":"user"`: `"tool_calls":[],"prefix":false,"partial":false,"images":[],"audio":null,`,
	} {
		w := ask(t, s, "/v1/chat/completions", strings.ReplaceAll(plain, old, "{"+add+old[1:]))
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", old, w.Body)
		require.Equal(t, m.prompts[0], m.prompts[len(m.prompts)-1], old)
		require.Equal(t, m.asked[0], m.asked[len(m.asked)-1], old)
	}
	for old, changed := range map[string]string{
		`"type":"text"`: `"type":"input_text"`, `{"type":"text","text":"a"}`: `{"type":"refusal","refusal":"a"}`,
		`"tools":[`: `"tool_choice":"auto","parallel_tool_calls":true,"tools":[`,
	} {
		w := ask(t, s, "/v1/chat/completions", strings.Replace(plain, old, changed, 1))
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", changed, w.Body)
		require.Equal(t, m.prompts[0], m.prompts[len(m.prompts)-1], changed)
	}
	for field, param := range map[string]string{
		`"prefix":true,`: "messages[1].prefix", `"images":["x"],`: "messages[1].images",
		`"weight":0,`: "messages[1].weight",
	} {
		w := ask(t, s, "/v1/chat/completions", strings.Replace(plain, `{"role":"user"`, `{`+field+`"role":"user"`, 1))
		require.Equal(t, http.StatusBadRequest, w.Code, field)
		assert.Equal(t, param, at(object(t, w.Body.Bytes()), "error", "param"))
	}
	w := ask(t, s, "/v1/chat/completions", `{`+hello+`,"tool_choice":"auto","tools":[]}`)
	assert.Equal(t, http.StatusOK, w.Code, "a choice of nothing: %s", w.Body)
}

// TestWithout: fields are taken out, and what stays is as it was written.
func TestWithout(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1, "x": {"a":2},"b":"é\u00e9"}`: `{"a":1,"b":"é\u00e9"}`, `{"x":1}`: `{}`,
		`{ "a" : 1.50 }`: `{ "a" : 1.50 }`, `[1]`: `[1]`, `{"a":`: `{"a":`, ``: ``,
	} {
		assert.Equal(t, want, string(without([]byte(in), []string{"x"})), in)
	}
}
