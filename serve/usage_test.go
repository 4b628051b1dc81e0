package serve

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// costs are the tokens of an answer in the words of any API.
type costs struct{ prompt, cached, completion, total, thought int }

// costsOf returns the costs in a response, or in the last event of a stream that has some.
func costsOf(t testing.TB, path string, last map[string]any) (c costs) {
	t.Helper()
	usage := at(last, "usage")
	if path == responses && usage == nil {
		usage = at(last, "response", "usage")
	}
	if path == "/infill" {
		usage = last
	}
	n := func(path ...any) int {
		v, ok := at(usage, path...).(float64)
		require.True(t, ok, "%v in %v", path, last)
		return int(v)
	}
	switch path {
	case responses:
		return costs{n("input_tokens"), n("input_tokens_details", "cached_tokens"), n("output_tokens"),
			n("total_tokens"), n("output_tokens_details", "reasoning_tokens")}
	case messages: // it has no total and no thoughts
		c.cached, c.completion = n("cache_read_input_tokens"), n("output_tokens")
		c.prompt = n("input_tokens") + c.cached
		require.GreaterOrEqual(t, n("input_tokens"), 0)
		c.total = c.prompt + c.completion
		return c
	case "/infill":
		c = costs{prompt: n("tokens_evaluated"), cached: n("timings", "cache_n"), completion: n("tokens_predicted")}
		assert.Equal(t, c.prompt, c.cached+n("timings", "prompt_n"))
		assert.Equal(t, c.completion, n("timings", "predicted_n"))
		c.total = c.prompt + c.completion
		return c
	}
	return costs{n("prompt_tokens"), n("prompt_tokens_details", "cached_tokens"), n("completion_tokens"),
		n("total_tokens"), n("completion_tokens_details", "reasoning_tokens")}
}

func randomWord(r *rand.Rand) string { return []string{"a", "bc", "hello", "é", "x y"}[r.IntN(5)] }

func oneOf(r *rand.Rand, all ...any) any { return all[r.IntN(len(all))] }

// randomRequest returns a request, with a path. previous is the id of a stored answer; "": none.
func randomRequest(r *rand.Rand, previous string) (path string, body map[string]any) {
	path = oneOf(r, chatPath, textPath, responses, messages, "/infill").(string)
	body = map[string]any{"seed": r.IntN(3)}
	if r.IntN(2) == 0 {
		body["max_tokens"] = 1 + r.IntN(40)
	}
	if r.IntN(4) == 0 {
		body["stop"] = randomWord(r)
	}
	if path == textPath || path == "/infill" {
		addRandomTexts(r, path, body)
	} else {
		addRandomTurns(r, path, body, previous)
	}
	return path, body
}

// addRandomTexts adds the fields of a completion or an infill.
func addRandomTexts(r *rand.Rand, path string, body map[string]any) {
	body["prompt"] = strings.Repeat(randomWord(r), 1+r.IntN(3))
	if path == textPath {
		body["n"], body["echo"], body["logprobs"] = 1+r.IntN(3), r.IntN(3) == 0, oneOf(r, nil, 2)
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	body["input_prefix"], body["input_suffix"] = randomWord(r), randomWord(r)
}

// addRandomTurns adds the fields of an API with messages.
func addRandomTurns(r *rand.Rand, path string, body map[string]any, previous string) {
	turns := []any{map[string]any{"role": "user", "content": randomWord(r)}}
	for range r.IntN(3) {
		turns = append(turns, map[string]any{"role": "assistant", "content": randomWord(r)},
			map[string]any{"role": "user", "content": randomWord(r)})
	}
	body["messages"] = turns
	body["reasoning_effort"] = oneOf(r, nil, "none", "high")
	tool := map[string]any{"name": "f", "parameters": map[string]any{"type": "object"}}
	format := map[string]any{"type": "json_object"}
	tools, formatted := r.IntN(2) == 0, r.IntN(4) == 0
	choice := oneOf(r, nil, "auto", "required", "none")
	switch path {
	case chatPath:
		body["n"], body["stream_options"] = 1+r.IntN(2), map[string]any{"include_usage": true}
		body["logprobs"] = oneOf(r, nil, true)
		if tools {
			body["tools"] = []any{map[string]any{"type": "function", "function": tool}}
		}
		if formatted {
			body["response_format"] = format
		}
	case responses:
		delete(body, "messages")
		body["input"], body["store"] = turns, true
		if previous != "" && r.IntN(2) == 0 {
			body["previous_response_id"] = previous
		}
		if formatted {
			body["text"] = map[string]any{"format": format}
		}
		tool["type"] = "function"
		body["tools"] = oneOf(r, []any{}, []any{tool})
		tools = len(body["tools"].([]any)) > 0
	case messages:
		if r.IntN(4) == 0 && !tools && body["reasoning_effort"] != "high" {
			body["messages"] = append(turns, map[string]any{"role": "assistant", "content": randomWord(r)})
		}
		if tools {
			body["tools"] = []any{map[string]any{"name": "f"}}
		}
		if choice != nil {
			choice = map[string]any{"type": strings.Replace(choice.(string), "required", "any", 1)}
		}
	}
	if tools {
		body["tool_choice"], body["parallel_tool_calls"] = choice, r.IntN(2) == 0
	}
}

// variousAnswers is a model with texts, calls, thoughts and formats as answers.
func variousAnswers(thinks bool) *fakeModel {
	return &fakeModel{thinks: thinks, answer: func(prompt string, s terms.Settings) string {
		begin := strings.LastIndex(prompt, "assistant:")
		kind := (len(prompt) + int(s.Seed)) % 4
		switch {
		case strings.HasSuffix(prompt, callMark+"\n"):
			return fmt.Sprintf(`{"name": "f", "arguments": {"x":%d}}`, len(prompt))
		case s.Structured():
			return `{"a":1}`
		case thinks && begin >= 0 && !strings.Contains(prompt[begin:], "<think>"):
			return "<think>\nhm é\n</think>\n\n" + []string{"Yes.", "", "hello x y", "né"}[kind]
		case strings.Contains(prompt, "tool {") && strings.Count(prompt[max(begin, 0):], callMark) < kind:
			return "Wait. " + callMark + "\n{"
		}
		return []string{"Yes.", "", "hello x y", "né"}[kind]
	}}
}

// TestUsage: in each API, of random requests and their repetitions, the cached tokens are a part of the prompt, and the
// prompt and the completion are the total. A stream has the same numbers, and the tokens of a prompt that are counted
// are those of its answer. The completion is what the model generated and the server wrote.
func TestUsage(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := variousAnswers(seed%2 == 1)
		var e Event
		s := newTestServer(t, m, func(o *Options) { o.Events = func(got Event) { e = got } })
		previous := ""
		for range 12 {
			path, body := randomRequest(r, previous)
			text, err := json.Marshal(body)
			require.NoError(t, err)
			w := ask(t, s, path, string(text))
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", text, w.Body)
			o := object(t, w.Body.Bytes())
			if path == responses {
				previous = o["id"].(string)
			}
			whole := costsOf(t, path, o)
			check := func(c costs) {
				require.True(t, 0 <= c.cached && c.cached <= c.prompt && 0 <= c.thought && c.thought <= c.completion,
					"%s: %+v", text, c)
				require.Equal(t, costs{prompt: e.Prompt, cached: e.Cached, completion: e.Tokens,
					total: e.Prompt + e.Tokens, thought: c.thought}, c)
			}
			check(whole)
			requireSent(t, path, body, o, whole)
			if again := costsOf(t, path, object(t, ask(t, s, path, string(text)).Body.Bytes())); whole.completion > 0 &&
				body["echo"] != true {
				require.GreaterOrEqual(t, again.cached, again.prompt-1, "%s: all but the last token is cached", text)
			}
			body["stream"] = true
			text, err = json.Marshal(body)
			require.NoError(t, err)
			streamed := costsOf(t, path, lastUsage(t, path, ask(t, s, path, string(text)).Body.String()))
			check(streamed)
			streamed.cached = whole.cached // the second time more is known
			require.Equal(t, whole, streamed, "%s", text)
			if counts := map[string]string{responses: "/input_tokens", messages: "/count_tokens"}[path]; counts != "" {
				o := object(t, ask(t, s, path+counts, string(text)).Body.Bytes())
				require.EqualValues(t, whole.prompt, o["input_tokens"], "%s", text)
			}
		}
	}
}

// lastUsage returns the last object of a stream that has a usage.
func lastUsage(t testing.TB, path, stream string) (last map[string]any) {
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		o := object(t, []byte("{"+data))
		if path == "/infill" || o["usage"] != nil || at(o, "response", "usage") != nil {
			last = o
		}
	}
	return last
}

// shownOf returns the texts of an answer, one after the other, and the arguments of its calls.
func shownOf(path string, o map[string]any) (text string, calls []string) {
	add := func(v any) { s, _ := v.(string); text += s }
	call := func(v any) {
		s, is := v.(string)
		if !is {
			s = string(request.Encode(v))
		}
		calls = append(calls, s)
	}
	add(o["content"])
	list := func(v any) []any { l, _ := v.([]any); return l }
	for _, c := range append(list(o["choices"]), append(list(o["output"]), list(o["content"])...)...) {
		add(at(c, "text"))
		add(at(c, "message", "content"))
		if at(c, "type") == "message" {
			add(at(c, "content", 0, "text"))
		}
		for _, v := range []any{at(c, "arguments"), at(c, "input")} {
			if v != nil {
				call(v)
			}
		}
		for _, v := range list(at(c, "message", "tool_calls")) {
			call(at(v, "function", "arguments"))
		}
	}
	return text, calls
}

// requireSent compares the completion with what was sent: its texts, and the calls with their marks. A byte is a token.
// An answer may be cut within a character.
func requireSent(t testing.TB, path string, body, o map[string]any, c costs) {
	t.Helper()
	text, calls := shownOf(path, o)
	n := 1
	if is, ok := body["n"].(int); ok {
		n = is
	}
	if body["echo"] == true {
		c.completion += n * c.prompt
	}
	switch {
	case body["tools"] == nil && path != messages: // its thoughts are not counted
		require.InDelta(t, c.completion-c.thought, len(text), float64(n), "%v: %v", body, o)
	case len(calls) == 1 && text == "" && n == 1 && c.thought == 0 && json.Valid([]byte(calls[0])):
		want := len(callMark + "\n" + `{"name": "f", "arguments": ` + calls[0] + "}")
		require.Contains(t, []int{want, want + len("\n"+callOver)}, c.completion, "%v: %v", body, o)
	}
}
