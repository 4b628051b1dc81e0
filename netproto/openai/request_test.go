package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRefused: an error names the invalid field by its path, with a status and a code, and nothing is generated.
func TestRefused(t *testing.T) {
	const chat, text = "/v1/chat/completions", "/v1/completions"
	user := `"messages":[{"role":"user","content":"x"}]`
	tool := `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, c := range []struct{ path, body, param, code, say string }{
		{chat, `[]`, "", "invalid_value", "give a JSON object"},
		{chat, `{`, "", "invalid_value", "this is not JSON: unexpected end of JSON input, at byte 1: line 1, column 1"},
		{chat, `hello`, "", "invalid_value", "'h' looking for beginning of value, at byte 1: line 1, column 1"},
		{chat, "{\"model\": \"ä\",\n \"x\": \"é\",}", "", "invalid_value", "at byte 28: line 2, column 11"},
		{text, "{\"prompt\": \"a\nb\"}", "", "invalid_value", "at byte 14: line 1, column 14"},
		{chat, `{}`, "messages", "missing_required_parameter", "at least one"},
		{chat, `{"messages":[]}`, "messages", "missing_required_parameter", "at least one"},
		{chat, `{"messages":{}}`, "messages", "invalid_value", "give a list"},
		{chat, `{"messages":["x"]}`, "messages[0]", "invalid_value", "give a JSON object"},
		{chat, `{"messages":[{"role":"robot","content":"x"}]}`, "messages[0].role", "invalid_value", "give system"},
		{chat, `{"messages":[{"role":"user"}]}`, "messages[0].content", "missing_required_parameter", "give a text"},
		{chat, `{"messages":[{"role":"user","content":null}]}`, "messages[0].content",
			"missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"user","content":7}]}`, "messages[0].content",
			"invalid_value", "parts of type text"},
		{chat, `{"messages":[{"role":"assistant"}]}`, "messages[0].content", "missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"user","content":"x","extra":1}]}`, "messages[0].extra", "unknown_parameter", ""},
		{chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
			"messages[0].content[0].type", "invalid_value", "reads text alone"},
		{chat, `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text",
			"missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"x","y":1}]}]}`,
			"messages[0].content[0].y", "unknown_parameter", ""},
		{chat, `{"messages":[{"role":"tool","content":"x"}]}`, "messages[0].tool_call_id",
			"missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"tool","content":"x","tool_call_id":"c"}]}`, "messages[0].tool_call_id",
			"invalid_value", "no call before has this id"},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]}`,
			"messages[0].tool_calls[0].id", "missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}`, "messages[0].tool_calls[0].function",
			"missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","function":{"name":"f"}}]}]}`,
			"messages[0].tool_calls[0].type", "invalid_value", ""},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":[1]}}]}]}`,
			"messages[0].tool_calls[0].function.arguments", "invalid_value", ""},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}]}`,
			"messages[0].tool_calls[0].function.name", "missing_required_parameter", ""},
		{chat, `{"messages":[{"role":"assistant","content":"x","audio":{"id":"a"}}]}`, "messages[0].audio",
			"unsupported_parameter", ""},
		{chat, `{"messages":[{"role":"assistant","content":"x","function_call":{}}]}`, "messages[0].function_call",
			"unsupported_parameter", "give tool_calls"},
		{chat, `{"messages":[{"role":"assistant","content":7,"audio":{}}]}`, "messages[0].content", "invalid_value",
			""},
		{chat, `{` + user + `,"add_special_tokens":true}`, "add_special_tokens", "unsupported_parameter", ""},
		{chat, `{` + user + `,"model":"big"}`, "model", "model_not_found",
			"there is no model big: this server has fish, small"},
		{chat, `{` + user + `,"response_format":{"type":"json_object","schema":{}}}`, "response_format.schema",
			"unsupported_parameter", "json_schema.schema"},
		{text, `{"prompt":[1,null]}`, "prompt", "invalid_value", "token ids"},
		{text, `{"prompt":[[1,null]]}`, "prompt", "invalid_value", "token ids"},
		{text, `{"prompt":[null,[1]]}`, "prompt", "invalid_value", "is empty"},
		{text, `{"prompt":[1.5]}`, "prompt", "invalid_value", "token ids"},
		{text, `{"prompt":"x","logit_bias":{"01":1}}`, "logit_bias", "invalid_value", "01 is not a token id"},
		{text, `{"prompt":"x","logit_bias":{"+1":1}}`, "logit_bias", "invalid_value", "is not a token id"},
		{text, `{"prompt":"x","logit_bias":{"300":1,"400":1,"500":1}}`, "logit_bias", "invalid_value", "no token 300"},
		{text, `{"prompt":"x","logit_bias":{"a":1,"b":1,"c":1}}`, "logit_bias", "invalid_value", "a is not a token id"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":{"type":"function"}}`, "tool_choice.function",
			"missing_required_parameter", "give the function's name"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":{"type":"function","function":{}}}`,
			"tool_choice.function.name", "missing_required_parameter", "give the function's name"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":{"type":"function","function":{"name":"g"}}}`,
			"tool_choice.function.name", "invalid_value", "no tool has this name"},
		{chat, `{` + user + `,"model":7}`, "model", "invalid_value", "give a string"},
		{chat, `{` + user + `,"temperature":-0.1}`, "temperature", "invalid_value", "from 0 to 100"},
		{chat, `{` + user + `,"temperature":"1"}`, "temperature", "invalid_value", ""},
		{chat, `{` + user + `,"Temperature":1}`, "Temperature", "unknown_parameter", ""},
		{chat, `{` + user + `,"top_p":1.1}`, "top_p", "invalid_value", ""},
		{chat, `{` + user + `,"top_k":-2}`, "top_k", "invalid_value", ""},
		{chat, `{` + user + `,"n":0}`, "n", "invalid_value", "from 1 to 16"},
		{chat, `{` + user + `,"n":17}`, "n", "invalid_value", ""},
		{chat, `{` + user + `,"n":1.5}`, "n", "invalid_value", ""},
		{chat, `{` + user + `,"seed":1.5}`, "seed", "invalid_value", "whole number"},
		{chat, `{` + user + `,"seed":18446744073709551616}`, "seed", "invalid_value", ""},
		{chat, `{` + user + `,"stop":["a"` + strings.Repeat(`,"b"`, 64) + `]}`, "stop", "invalid_value", "at most 64"},
		{chat, `{` + user + `,"stop":""}`, "stop", "invalid_value", "empty"},
		{chat, `{` + user + `,"stop":[1]}`, "stop", "invalid_value", ""},
		{chat, `{` + user + `,"max_tokens":0}`, "max_tokens", "invalid_value", ""},
		{chat, `{` + user + `,"max_tokens":1,"max_completion_tokens":2}`, "max_tokens", "invalid_value", "differs"},
		{chat, `{` + user + `,"logit_bias":{"x":1}}`, "logit_bias", "invalid_value", "x is not a token id"},
		{chat, `{` + user + `,"logit_bias":{"-1":1}}`, "logit_bias", "invalid_value", ""},
		{chat, `{` + user + `,"logit_bias":{"1":101}}`, "logit_bias", "invalid_value", "out of range"},
		{chat, `{` + user + `,"logit_bias":{"257":1}}`, "logit_bias", "invalid_value", "no token 257"},
		{chat, `{` + user + `,"logit_bias":[]}`, "logit_bias", "invalid_value", ""},
		{chat, `{` + user + `,"top_logprobs":2}`, "top_logprobs", "invalid_value", "set logprobs"},
		{chat, `{` + user + `,"logprobs":true,"top_logprobs":21}`, "top_logprobs", "invalid_value", ""},
		{chat, `{` + user + `,"logprobs":1}`, "logprobs", "invalid_value", "true or false"},
		{chat, `{` + user + `,"stream_options":{"include_usage":1}}`, "stream_options.include_usage",
			"invalid_value", "true or false"},
		{chat, `{` + user + `,"stream":true,"stream_options":{"x":1}}`, "stream_options.x", "unknown_parameter", ""},
		{chat, `{` + user + `,"response_format":{}}`, "response_format.type", "invalid_value", ""},
		{chat, `{` + user + `,"response_format":{"type":"json_schema"}}`, "response_format.json_schema",
			"missing_required_parameter", ""},
		{chat, `{` + user + `,"response_format":{"type":"json_schema","json_schema":{"name":"x"}}}`,
			"response_format.json_schema.schema", "missing_required_parameter", ""},
		{chat, `{` + user + `,"response_format":{"type":"json_object","x":1}}`, "response_format.x",
			"unknown_parameter", ""},
		{chat, `{` + user + `,"functions":[{"name":"f"}]}`, "functions", "unsupported_parameter",
			"give functions as tools, and leave it out, or give []"},
		{chat, `{` + user + `,"function_call":{"name":"f"}}`, "function_call", "unsupported_parameter", ""},
		{chat, `{` + user + `,"audio":{}}`, "audio", "unsupported_parameter", ""},
		{chat, `{` + user + `,"modalities":["text","audio"]}`, "modalities", "unsupported_parameter", ""},
		{chat, `{` + user + `,"web_search_options":{}}`, "web_search_options", "unsupported_parameter", ""},
		{chat, `{` + user + `,"reasoning_effort":"high"}`, "reasoning_effort", "unsupported_parameter",
			`or give "none" "minimal"`},
		{chat, `{` + user + `,"verbosity":"low"}`, "verbosity", "unsupported_parameter", ""},
		{chat, `{` + user + `,"pilotfish":{"x":1}}`, "pilotfish.x", "unknown_parameter", ""},
		{chat, `{` + user + `,"pilotfish":true}`, "pilotfish", "invalid_value", ""},
		{chat, `{` + user + `,"tool_choice":"required"}`, "tool_choice", "invalid_value", "there are no tools"},
		{chat, `{` + user + `,"tools":[{"type":"web_search"}]}`, "tools[0].type", "invalid_value", ""},
		{chat, `{` + user + `,"tools":[{"type":"function"}]}`, "tools[0].function", "missing_required_parameter", ""},
		{chat, `{` + user + `,"tools":[{"type":"function","function":{}}]}`, "tools[0].function.name",
			"missing_required_parameter", ""},
		{chat, `{` + user + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, "tools[0].function.name",
			"invalid_value", "letters"},
		{chat, `{` + user + `,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]}`,
			"tools[0].function.parameters", "invalid_value", ""},
		{chat, `{` + user +
			`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]}`,
			"tools", "invalid_value", "two functions are called f"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":"sometimes"}`, "tool_choice", "invalid_value", ""},
		{chat, `{` + user + `,` + tool + `,"tool_choice":7}`, "tool_choice", "invalid_value",
			"give none, auto, required"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":{"type":"function","function":{"name":"g"}}}`,
			"tool_choice.function.name", "invalid_value", "no tool"},
		{chat, `{` + user + `,` + tool + `,"tool_choice":{"type":"allowed_tools"}}`, "tool_choice.type",
			"invalid_value", ""},
		{chat, `{` + user + `,` + tool + `,"tool_choice":"required","response_format":{"type":"json_object"}}`,
			"response_format", "invalid_value", ""},
		{text, `{}`, "prompt", "missing_required_parameter", ""},
		{text, `{"prompt":""}`, "prompt", "invalid_value", "empty"},
		{text, `{"prompt":[]}`, "prompt", "invalid_value", "none of them empty"},
		{text, `{"prompt":[[]]}`, "prompt", "invalid_value", "empty"},
		{text, `{"prompt":["x",7]}`, "prompt", "invalid_value", ""},
		{text, `{"prompt":[257]}`, "prompt", "invalid_value", "no token 257"},
		{text, `{"prompt":[-1]}`, "prompt", "invalid_value", "no token -1"},
		{text, `{"prompt":"x","best_of":2}`, "best_of", "invalid_value", "take n"},
		{text, `{"prompt":"x","logprobs":6}`, "logprobs", "invalid_value", "from 0 to 5"},
		{text, `{"prompt":"x","suffix":"y","echo":true}`, "suffix", "invalid_value", "leave out echo"},
		{text, `{"prompt":[1],"suffix":"y"}`, "suffix", "invalid_value", "give texts"},
		{text, `{"prompt":"x","max_tokens":-2}`, "max_tokens", "invalid_value", ""},
		{chat, `{` + user + `,"max_tokens":0}`, "max_tokens", "invalid_value", ""},
		{text, `{"prompt":"x","add_special_tokens":false}`, "add_special_tokens", "unsupported_parameter", ""},
		{"/infill", `[]`, "", "invalid_value", "give a JSON object"},
		{"/infill", `{"input_suffix":"y"}`, "input_prefix", "missing_required_parameter", ""},
		{"/infill", `{"input_prefix":"y"}`, "input_suffix", "missing_required_parameter", ""},
		{"/infill", `{"input_prefix":"x","input_suffix":"y","n":2}`, "n", "invalid_value", "one answer"},
		{"/infill", `{"input_prefix":"x","input_suffix":"y","samplers":[1]}`, "samplers", "invalid_value", "names"},
		{"/infill", `{"input_prefix":"x","input_suffix":"y","input_extra":[{"filename":"a"}]}`, "input_extra[0].text",
			"missing_required_parameter", ""},
		{"/infill", `{"input_prefix":"x","input_suffix":"y","mirostat":2}`, "mirostat", "unsupported_parameter", ""},
		{text, `{"prompt":"x","messages":[]}`, "messages", "unknown_parameter", ""},
		{text, `{"prompt":[` + strings.Repeat(`"x",`, 9) + `"x"],"n":13}`, "prompt", "invalid_value", "130 answers"},
	} {
		t.Run(c.body, func(t *testing.T) {
			m := &fakeModel{}
			w := ask(t, newTestServer(t, m, nil), c.path, c.body)
			want := http.StatusBadRequest
			if c.code == "model_not_found" {
				want = http.StatusNotFound
			}
			assert.Equal(t, want, w.Code)
			e := object(t, w.Body.Bytes())
			param, _ := at(e, "error", "param").(string)
			assert.Equal(t, c.param, param)
			assert.Equal(t, c.code, at(e, "error", "code"))
			assert.Equal(t, "invalid_request_error", at(e, "error", "type"))
			assert.Contains(t, at(e, "error", "message"), c.say)
			assert.Empty(t, m.asked)
		})
	}
}

// TestPrompts: prompts have four forms, and a best_of without effect is accepted.
func TestPrompts(t *testing.T) {
	for prompt, want := range map[string][]string{
		`"ab"`: {"ab"}, `["a","bc"]`: {"a", "bc"}, `[97,98]`: {"ab"}, `[[97],[98,99]]`: {"a", "bc"},
	} {
		m := &fakeModel{}
		w := ask(t, newTestServer(t, m, nil), "/v1/completions", `{"prompt":`+prompt+`,"best_of":1}`)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		assert.Equal(t, want, m.prompts)
		for _, s := range m.asked {
			assert.Equal(t, 16, s.MaxTokens, "OpenAI's default")
		}
	}
}

// TestSpecialTokens: names of special tokens are these tokens in a prompt of a completion, and text in the beginning of
// an answer, as in chats.
func TestSpecialTokens(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	for path, body := range map[string]string{"/v1/completions": `{"prompt":"a<end>b"}`,
		messages: `{"messages":[{"role":"user","content":"a<end>"},{"role":"assistant","content":"b<end>"}]}`} {
		require.Equal(t, http.StatusOK, ask(t, s, path, body).Code)
		want := "user:a<end>\nassistant:b<end>"
		if path != messages {
			want = textOf([]int32{'a', 256, 'b'})
		}
		assert.Equal(t, want, m.prompts[len(m.prompts)-1])
	}
}

// TestContents: parts of text are joined, a developer is the system, and null is absent.
func TestContents(t *testing.T) {
	m := &fakeModel{}
	w := ask(t, newTestServer(t, m, nil), "/v1/chat/completions", `{"messages":[
		{"role":"developer","content":"be","name":"n"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"refusal":null,"tool_calls":[
			{"id":"c","type":"function","function":{"name":"f","arguments":" "}},
			{"id":"d","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]},
		{"role":"tool","content":"r","tool_call_id":"d"},
		{"role":"tool","content":[{"type":"text","text":"s"}],"tool_call_id":"c"}],"tools":null,"stop":null}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Equal(t, []string{"system:be\nuser:ab\nassistant:[f{}][g{\"x\":1}]\ntool:r\ntool:s\nassistant:"}, m.prompts)
}

// TestPromptTooLong: the longest prompt leaves room for an answer.
func TestPromptTooLong(t *testing.T) {
	for _, c := range []struct{ limit, length, status int }{
		{0, 99, 200}, {0, 100, 400}, {50, 50, 200}, {50, 51, 400}, {500, 100, 400},
	} {
		s := newTestServer(t, &fakeModel{context: 100}, func(o *Options) { o.MaxPrompt = c.limit })
		w := ask(t, s, "/v1/completions", `{"prompt":"`+strings.Repeat("x", c.length)+`","stream":true}`)
		assert.Equal(t, c.status, w.Code, "%v", c)
		if c.status != 200 {
			assert.Contains(t, w.Body.String(), fmt.Sprintf("the prompt has %d tokens", c.length))
			assert.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
		}
		assert.Zero(t, s.Load().Active)
	}
}
