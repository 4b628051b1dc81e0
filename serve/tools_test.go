package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// toolModel answers like a model that calls tools: the script is a sequence of texts and calls.
type toolModel struct {
	*fakeModel
	schemas []string
}

// newToolModel returns a model that writes the steps in order: JSON steps as calls.
func newToolModel(steps ...string) *toolModel {
	m := &toolModel{fakeModel: new(fakeModel)}
	m.answer = func(prompt string, s terms.Settings) string {
		step := strings.Count(prompt, callOver)*2 + 0
		if s.Schema != nil && strings.HasSuffix(prompt, callMark+"\n") {
			m.schemas = append(m.schemas, string(s.Schema))
			return steps[step+1]
		}
		if step >= len(steps) {
			return ""
		}
		if step+1 < len(steps) {
			return steps[step] + callMark + "\n{"
		}
		return steps[step]
	}
	return m
}

const twoTools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
	"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}}},
	{"type":"function","function":{"name":"g","description":"d","strict":false}}]`

// callsOf returns the calls of an answer, as NAME(ARGUMENTS).
func callsOf(answer any) (all []string) {
	list, _ := at(answer, "choices", 0, "message", "tool_calls").([]any)
	for _, c := range list {
		all = append(all, at(c, "function", "name").(string)+"("+at(c, "function", "arguments").(string)+")")
	}
	return all
}

// streamedCalls assembles the calls of a stream.
func streamedCalls(t *testing.T, body []byte) (text string, all []string, finish string) {
	t.Helper()
	list, done := events(t, body)
	require.True(t, done)
	ids := map[string]bool{}
	for _, e := range list {
		part, _ := at(e, "choices", 0, "delta", "content").(string)
		text += part
		if f, ok := at(e, "choices", 0, "finish_reason").(string); ok {
			finish = f
		}
		calls, _ := at(e, "choices", 0, "delta", "tool_calls").([]any)
		for _, c := range calls {
			i := int(at(c, "index").(float64))
			arguments, _ := at(c, "function", "arguments").(string)
			if i == len(all) {
				ids[at(c, "id").(string)] = true
				all = append(all, at(c, "function", "name").(string)+"(")
			}
			all[i] += arguments
		}
	}
	for i := range all {
		all[i] += ")"
	}
	require.Len(t, ids, len(all))
	return text, all, finish
}

// TestToolCalls: text and calls of one answer, complete and streamed, one or several.
func TestToolCalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		steps  []string
		extra  string
		text   string
		calls  []string
		finish string
	}{
		{"none", []string{"Hello <b>"}, "", "Hello <b>", nil, "stop"},
		{"one", []string{"", `{"name": "f", "arguments": {"x": 1}}`}, "", "", []string{`f({"x": 1})`}, "tool_calls"},
		{"after text", []string{"Let me see.\n\n", `{"name":"g","arguments":{}}`, "\n"}, "", "Let me see.",
			[]string{"g({})"}, "tool_calls"},
		{"two", []string{"", `{"name":"f","arguments":{"x":1}}`, "\n", `{"name":"g","arguments":{}}`, ""}, "", "",
			[]string{`f({"x":1})`, "g({})"}, "tool_calls"},
		{"in tags", []string{"So:\n\n", "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n", "\n",
			"<function=g>\n<parameter=a>\nb\n</parameter>\n</function>\n", ""}, "", "So:",
			[]string{`f({"x": 1})`, `g({"a": "b"})`}, "tool_calls"},
		{"a tag of a function", []string{"<function=g>", "<function=g>\n</function>\n", ""}, "", "", []string{"g({})"},
			"tool_calls"},
		{"not in parallel", []string{"", `{"name":"f","arguments":{"x":1}}`, "\n", `{"name":"g","arguments":{}}`},
			`,"parallel_tool_calls":false`, "",
			[]string{`f({"x":1})`}, "tool_calls"},
		{"required", []string{"unused", `{"name":"g","arguments":{}}`, "more"}, `,"tool_choice":"required"`, "",
			[]string{"g({})"}, "tool_calls"},
		{"named", []string{"unused", `{"name":"g","arguments":{"é":"\""}}`},
			`,"tool_choice":{"type":"function","function":{"name":"g"}}`, "",
			[]string{`g({"é":"\""})`}, "tool_calls"},
		{"none wanted", []string{"text"}, `,"tool_choice":"none"`, "text", nil, "stop"},
		{"bare", []string{"{\n\"name\": \"g\", \"x\": 1", `{"name":"g","arguments":{}}`, ""}, "", "", []string{"g({})"},
			"tool_calls"},
		{"in a fence", []string{"Well:\n\n```json\n{\"name\":\"f\"}\n```", `{"name":"f","arguments":{"x":2}}`, ""}, "",
			"Well:", []string{`f({"x":2})`}, "tool_calls"},
		{"of no tool", []string{"```json\n{\"name\":\"h\"}\n```"}, "", "```json\n{\"name\":\"h\"}\n```", nil, "stop"},
		{"bare, none wanted", []string{`{"name":"f","arguments":{}}`}, `,"tool_choice":"none"`,
			`{"name":"f","arguments":{}}`, nil, "stop"},
		{"text after it", []string{"", `{"name":"g","arguments":{}}`, "\nDone."}, "", "\nDone.", []string{"g({})"},
			"tool_calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newToolModel(c.steps...)
			s := newTestServer(t, m, nil)
			w := ask(t, s, "/v1/chat/completions", `{`+hello+`,`+twoTools+c.extra+`}`)
			require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
			answer := object(t, w.Body.Bytes())
			content, _ := at(answer, "choices", 0, "message", "content").(string)
			assert.Equal(t, c.text, content)
			assert.Equal(t, c.text == "" && c.calls != nil, at(answer, "choices", 0, "message", "content") == nil)
			assert.Equal(t, c.calls, callsOf(answer))
			assert.Equal(t, c.finish, at(answer, "choices", 0, "finish_reason"))

			w = ask(t, s, "/v1/chat/completions", `{`+hello+`,"stream":true,`+twoTools+c.extra+`}`)
			text, calls, finish := streamedCalls(t, w.Body.Bytes())
			assert.Equal(t, c.text, text)
			assert.Equal(t, c.calls, calls)
			assert.Equal(t, c.finish, finish)
			for _, p := range m.prompts {
				assert.Equal(t, !strings.Contains(c.extra, `"none"`), strings.Contains(p, "tool {"),
					"the prompt has the tools, unless the choice is none")
				assert.Zero(t, strings.Count(p, callMark+"\n{"+callMark))
			}
		})
	}
}

// TestToolsTogether: tools that the model supports one by one, but not all together, are refused.
func TestToolsTogether(t *testing.T) {
	m := &fakeModel{refuse: func(s terms.Settings) error {
		if strings.Contains(string(s.Schema), `"anyOf"`) {
			return errors.New("too large")
		}
		return nil
	}}
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,`+twoTools+`}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "tools: all of them together: too large")
}

// TestCallCut: a call without room to end ends the answer by length, and counts completely.
func TestCallCut(t *testing.T) {
	m := newToolModel("", `{"name":"f","arguments":{"x":1}}`)
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,"max_tokens":20,`+twoTools+`}`)
	answer := object(t, w.Body.Bytes())
	assert.Equal(t, "length", at(answer, "choices", 0, "finish_reason"))
	assert.EqualValues(t, 20, at(answer, "usage", "completion_tokens"))
}

// TestBrokenCall: a model that does not follow the grammar is an error of the server.
func TestBrokenCall(t *testing.T) {
	s := newTestServer(t, newToolModel("", `{"name":"f"`), nil)
	w := ask(t, s, "/v1/chat/completions", `{`+hello+`,`+twoTools+`}`)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
}

// TestToolsAndFormat: with both, an answer is a call, or follows the format from its start.
func TestToolsAndFormat(t *testing.T) {
	const format = `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`
	m := newToolModel("Well", "")
	m.answer = func(prompt string, s terms.Settings) string {
		if string(s.Schema) == `{"type":"object"}` {
			return `{"a":1}`
		}
		return "Well, no"
	}
	o := object(t, ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,`+twoTools+format+`}`).Body.Bytes())
	assert.Equal(t, `{"a":1}`, at(o, "choices", 0, "message", "content"))
	assert.Equal(t, "stop", at(o, "choices", 0, "finish_reason"))

	const call = `{"name":"f","arguments":{}}`
	m = newToolModel("\n", call, "\n", call, "")
	free := m.answer
	m.answer = func(prompt string, s terms.Settings) string {
		if string(s.Schema) == `{"type":"object"}` {
			return "{}" // in the format it can call nothing
		}
		return free(prompt, s)
	}
	o = object(t, ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,`+twoTools+format+`}`).Body.Bytes())
	assert.Equal(t, []string{"f({})", "f({})"}, callsOf(o))
	assert.Equal(t, "tool_calls", at(o, "choices", 0, "finish_reason"))
}

// TestLogProbsOfCalls: log-probabilities of the text before a call are shown, and none of the call's marks.
func TestLogProbsOfCalls(t *testing.T) {
	m := newToolModel("ab\n", `{"name":"f","arguments":{}}`, "")
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,"logprobs":true,`+twoTools+`}`)
	answer := object(t, w.Body.Bytes())
	content, _ := at(answer, "choices", 0, "logprobs", "content").([]any)
	text := ""
	for _, one := range content {
		text += at(one, "token").(string)
	}
	assert.Equal(t, "ab", text)
	b, err := json.Marshal(answer)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "tool_call>")
}

// TestCostsOfCalls: the costs of an answer are those of its text, its call and the text after the call together. The
// cache is that of the first part.
func TestCostsOfCalls(t *testing.T) {
	m := newToolModel("C ", `{"name": "f", "arguments": {"x":"CC"}}`, "CCC")
	var got []Event
	s := newTestServer(t, m, func(o *Options) { o.Events = func(e Event) { got = append(got, e) } })
	for i, more := range []string{"", `,"stream":true`} {
		w := ask(t, s, "/v1/chat/completions", `{`+hi+`,`+twoTools+more+`}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		e := got[i]
		assert.Equal(t, pilotfish.Receipt{Tokens: 6 * 3, Bytes: 6 * 7, To: "gw:1"}, e.Left)
		assert.Equal(t, []int{6, 6, i * (e.Prompt - 1)}, []int{e.Cloud, e.Asks, e.Cached})
	}
}

// TestManyCalls: the number of calls in an answer is limited.
func TestManyCalls(t *testing.T) {
	var steps []string
	for range 128 + 1 {
		steps = append(steps, "\n", `{"name":"f","arguments":{}}`)
	}
	m := newToolModel(steps...)
	m.context = 1 << 20
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,`+twoTools+`}`)
	answer := object(t, w.Body.Bytes())
	assert.Len(t, callsOf(answer), 128)
	assert.Equal(t, "tool_calls", at(answer, "choices", 0, "finish_reason"))
}

// TestCallsThenLength: an answer that runs out of tokens after a call ends by length.
func TestCallsThenLength(t *testing.T) {
	m := newToolModel("", `{"name":"f","arguments":{}}`, "\nand so on and so on")
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{`+hello+`,"max_tokens":60,`+twoTools+`}`)
	answer := object(t, w.Body.Bytes())
	assert.Equal(t, []string{"f({})"}, callsOf(answer))
	assert.Equal(t, "length", at(answer, "choices", 0, "finish_reason"))
	assert.EqualValues(t, 60, at(answer, "usage", "completion_tokens"))
}

// TestContextInCall: if the context has no room after the mark of a call, nothing is generated.
func TestContextInCall(t *testing.T) {
	m := newToolModel("", `{"name":"f","arguments":{}}`)
	m.context = len("tool ") + 1<<12
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	require.Equal(t, http.StatusOK, w.Code)
	full := len(m.prompts[0])
	m = newToolModel("", `{"name":"f","arguments":{}}`)
	m.context = full
	w = ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	answer := object(t, w.Body.Bytes())
	assert.Equal(t, "length", at(answer, "choices", 0, "finish_reason"))
	assert.Empty(t, m.prompts)
}

// TestUsageOfWrittenMarks: the mark of a forced call, which the server writes, is no part of the prompt, and so no
// cached part of it when the request is repeated.
func TestUsageOfWrittenMarks(t *testing.T) {
	s := newTestServer(t, newToolModel("", `{"name":"f","arguments":{}}`), nil)
	for range 3 {
		u := at(object(t, ask(t, s, "/v1/chat/completions", `{`+hello+`,"tools":[{"type":"function",`+
			`"function":{"name":"f"}}],"tool_choice":"required"}`).Body.Bytes()), "usage")
		assert.LessOrEqual(t, at(u, "prompt_tokens_details", "cached_tokens"), at(u, "prompt_tokens"))
		m := object(t, ask(t, s, "/v1/messages", `{`+hello+`,"max_tokens":50,"tools":[{"name":"f","input_schema":{}}],`+
			`"tool_choice":{"type":"any"}}`).Body.Bytes())
		assert.GreaterOrEqual(t, at(m, "usage", "input_tokens"), 0.)
	}
}

// TestStopAndCalls: stop strings apply to texts, and do not end a call that contains them.
func TestStopAndCalls(t *testing.T) {
	m := newToolModel("a", `{"name":"f","arguments":{"x":"stop"}}`, "b stop c")
	answer := object(t, ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,"stop":"stop",`+twoTools+`}`).Body.Bytes())
	assert.Equal(t, []string{`f({"x":"stop"})`}, callsOf(answer))
	assert.Equal(t, "ab ", at(answer, "choices", 0, "message", "content"))
}

// TestShortenedCall: an answer reports that a call was shortened, whatever follows it.
func TestShortenedCall(t *testing.T) {
	m := newToolModel("", `{"name":"f","arguments":{}}`, "")
	m.short = func(text string) bool { return strings.Contains(text, "arguments") }
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
		`{`+hello+`,`+twoTools+`,"pilotfish":{"complete":true}}`)
	answer := object(t, w.Body.Bytes())
	assert.Equal(t, true, at(answer, "choices", 0, "pilotfish", "shortened"))
	assert.Equal(t, "length", at(answer, "choices", 0, "finish_reason"), "the model did not end it")
}

// TestCalledWith: a chat continues with any arguments of an earlier call, as a string or as an object.
func TestCalledWith(t *testing.T) {
	for arguments, want := range map[string]string{
		`"{\"city\": \"Par"`: `{"city": "Par`, `"no JSON"`: "no JSON", `""`: "{}", `" "`: "{}", `"[1]"`: "[1]",
		`{"a": 1}`: `{"a": 1}`, `null`: "{}", `"{\"a\":1}"`: `{"a":1}`,
	} {
		m := new(fakeModel)
		w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"},
			{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":`+arguments+`}}]},
			{"role":"tool","tool_call_id":"c","content":"no"}]}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		assert.Contains(t, m.prompts[0], "[f"+want+"]", arguments)
	}
}

// TestCutIsLength: an answer that max_tokens cuts is shown up to the cut and marked as cut, wherever that is: in a
// format, in a chat or completion, in a call that may or must be made, in one of several, streamed or not. Nothing is
// added.
func TestCutIsLength(t *testing.T) {
	const call = `{"name":"f","arguments":{"x":"ab"}}`
	const marked = len(callMark + "\n" + call + "\n" + callOver)
	format := `"response_format":{"type":"json_object"}`
	for name, c := range map[string]struct {
		path, body string
		texts      []string
		whole      int // bytes of the model's answer
	}{
		"chat":       {"/v1/chat/completions", hello + "," + format, []string{`{"a":"bcd"}`}, 11},
		"completion": {"/v1/completions", `"prompt":"a",` + format, []string{`{"a":"bcd"}`}, 11},
		"auto":       {"/v1/chat/completions", hello + "," + twoTools, []string{"", call, ""}, marked},
		"required": {"/v1/chat/completions", hello + "," + twoTools + `,"tool_choice":"required"`,
			[]string{"", call}, len(callMark) + 1 + len(call)},
		"second": {"/v1/chat/completions", hello + "," + twoTools, []string{"", call, "", call, ""}, 2 * marked},
	} {
		for limit := 1; limit < c.whole; limit++ {
			for _, stream := range []string{"", `,"stream":true`} {
				s := newTestServer(t, newToolModel(c.texts...), nil)
				w := ask(t, s, c.path, fmt.Sprintf(`{%s,"max_tokens":%d%s}`, c.body, limit, stream))
				finish, text, arguments := ending(t, w.Body.Bytes(), stream != "")
				require.Equal(t, "length", finish, "%s, %d tokens%s", name, limit, stream)
				if !strings.HasPrefix(callMark, text) { // it might have become something else
					require.True(t, strings.HasPrefix(`{"a":"bcd"}`, text), text)
				}
				for _, a := range arguments {
					require.True(t, strings.HasPrefix(`{"x":"ab"}`, a), a)
				}
			}
		}
	}
}

// ending returns the finish reason of an answer, its text, and the arguments of its calls.
func ending(t *testing.T, body []byte, stream bool) (finish, text string, arguments []string) {
	t.Helper()
	all, message := []map[string]any{nil}, "delta"
	if stream {
		var done bool
		all, done = events(t, body)
		require.True(t, done)
	} else {
		all[0], message = object(t, body), "message"
	}
	for _, e := range all {
		if why, ok := at(e, "choices", 0, "finish_reason").(string); ok {
			finish = why
		}
		for _, of := range [][]any{{"choices", 0, message, "content"}, {"choices", 0, "text"}} {
			part, _ := at(e, of...).(string)
			text += part
		}
		calls, _ := at(e, "choices", 0, message, "tool_calls").([]any)
		for i, call := range calls {
			if number, ok := at(call, "index").(float64); ok {
				i = int(number)
			}
			for len(arguments) <= i {
				arguments = append(arguments, "")
			}
			part, _ := at(call, "function", "arguments").(string)
			arguments[i] += part
		}
	}
	return finish, text, arguments
}

// TestFormatBegins: with tools and a format, the first tokens of the model, or an immediate end, leave no trace.
func TestFormatBegins(t *testing.T) {
	for _, begins := range []string{"", "Well, no"} {
		m := newToolModel()
		m.answer = func(_ string, s terms.Settings) string {
			if s.JSON {
				return `{"a":1}`
			}
			return begins
		}
		answer := object(t, ask(t, newTestServer(t, m, nil), "/v1/chat/completions",
			`{`+hello+`,`+twoTools+`,"response_format":{"type":"json_object"}}`).Body.Bytes())
		assert.Equal(t, `{"a":1}`, at(answer, "choices", 0, "message", "content"))
		assert.Equal(t, "stop", at(answer, "choices", 0, "finish_reason"))
		require.Len(t, m.prompts, 2)
		assert.False(t, m.asked[0].JSON, "a call is not in the format")
		assert.True(t, m.asked[1].JSON)
		assert.Equal(t, m.prompts[0], m.prompts[1])
		assert.EqualValues(t, len(`{"a":1}`), at(answer, "usage", "completion_tokens"))
	}
}

// TestToolsOfNobody: checking the schemas of tools ends when the client disconnects.
func TestToolsOfNobody(t *testing.T) {
	r, wrong := request.ReadChat([]byte(`{"messages":[{"role":"user","content":"x"}],"tools":[`+
		`{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]}`),
		request.Defaults{})
	require.Nil(t, wrong)
	ctx, leave := context.WithCancelCause(t.Context())
	gone, checked := errors.New("gone"), 0
	m := &fakeModel{refuse: func(terms.Settings) error {
		checked++
		leave(gone)
		return nil
	}}
	_, err := r.CallSchemas(ctx, m)
	assert.ErrorIs(t, err, gone)
	assert.Equal(t, 1, checked)
}

// TestCallOfRealModel: a model calls the tool that it must call, with arguments that follow the schema.
func TestCallOfRealModel(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 1)
	spec.Thinks = true // with a template for tools
	var file bytes.Buffer
	require.NoError(t, spec.Write(&file, nil))
	m, err := pilotfish.Load(file.Bytes(), "tiny", pilotfish.Options{Context: 512})
	require.NoError(t, err)
	defer m.Close()
	s := New(m, Options{})
	w := ask(t, s, chatPath, `{`+hello+`,"max_tokens":100,"chat_template_kwargs":{"enable_thinking":false},
		"tool_choice":"required","tools":[{"type":"function","function":{"name":"go","parameters":{"type":"object",
		"properties":{"way":{"enum":["up","down"]}},"required":["way"],"additionalProperties":false}}}]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	call := at(object(t, w.Body.Bytes()), "choices", 0, "message", "tool_calls", 0, "function")
	assert.Equal(t, "go", at(call, "name"))
	var arguments struct{ Way string }
	require.NoError(t, json.Unmarshal([]byte(at(call, "arguments").(string)), &arguments))
	assert.Contains(t, []string{"up", "down"}, arguments.Way)
	require.NoError(t, s.Close())
}
