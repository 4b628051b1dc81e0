package request

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// refused parses a request and returns its error.
func refused(api, body string) (wrong *Error) {
	switch api {
	case "completions":
		_, wrong = ReadCompletion([]byte(body), Defaults{})
	case "infill":
		_, wrong = ReadInfill([]byte(body), Defaults{})
	default:
		_, wrong = read(api, body, Defaults{})
	}
	return wrong
}

// oneMessage and toolF are fields of a request.
const (
	oneMessage = `"messages":[{"role":"user","content":"x"}]`
	toolF      = `"tools":[{"type":"function","function":{"name":"f"}}]`
)

// refusal is a request, and the error that it gets.
type refusal struct{ api, body, param, code, say string }

var refusedBodies = []refusal{
	{"chat", `[]`, "", "invalid_value", "give a JSON object"},
	{"chat", `{`, "", "invalid_value", "this is not JSON: unexpected end of JSON input, at byte 1: line 1, column 1"},
	{"chat", `hello`, "", "invalid_value", "'h' looking for beginning of value, at byte 1: line 1, column 1"},
	{"chat", "{\"model\": \"ä\",\n \"x\": \"é\",}", "", "invalid_value", "at byte 28: line 2, column 11"},
	{"completions", "{\"prompt\": \"a\nb\"}", "", "invalid_value", "at byte 14: line 1, column 14"},
}

var refusedMessages = []refusal{
	{"chat", `{}`, "messages", "missing_required_parameter", "at least one"},
	{"chat", `{"messages":[]}`, "messages", "missing_required_parameter", "at least one"},
	{"chat", `{"messages":["x"]}`, "messages[0]", "invalid_value", "give a JSON object"},
	{"chat", `{"messages":[{"role":"robot","content":"x"}]}`, "messages[0].role", "invalid_value", "give system"},
	{"chat", `{"messages":[{"role":"user"}]}`, "messages[0].content", "missing_required_parameter", "give a text"},
	{"chat", `{"messages":[{"role":"user","content":7}]}`, "messages[0].content",
		"invalid_value", "parts of type text"},
	{"chat", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
		"messages[0].content[0].type", "invalid_value", "reads text alone"},
	{"chat", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text",
		"missing_required_parameter", ""},
	{"chat", `{"messages":[{"role":"tool","content":"x","tool_call_id":"c"}]}`, "messages[0].tool_call_id",
		"invalid_value", "no call before has this id"},
	{"chat", `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]}`,
		"messages[0].tool_calls[0].id", "missing_required_parameter", ""},
	{"chat", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}`, "messages[0].tool_calls[0].function",
		"missing_required_parameter", ""},
	{"chat", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":[1]}}]}]}`,
		"messages[0].tool_calls[0].function.arguments", "invalid_value", ""},
	{"chat", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}]}`,
		"messages[0].tool_calls[0].function.name", "missing_required_parameter", ""},
	{"chat", `{"messages":[{"role":"assistant","content":"x","audio":{"id":"a"}}]}`, "messages[0].audio",
		"unsupported_parameter", ""},
	{"chat", `{"messages":[{"role":"assistant","content":7,"audio":{}}]}`, "messages[0].content", "invalid_value",
		""},
}

var refusedSettings = []refusal{
	{"chat", `{` + oneMessage + `,"add_special_tokens":true}`, "add_special_tokens", "unsupported_parameter", ""},
	{"chat", `{` + oneMessage + `,"model":7}`, "model", "invalid_value", "give a string"},
	{"chat", `{` + oneMessage + `,"temperature":-0.1}`, "temperature", "invalid_value", "from 0 to 100"},
	{"chat", `{` + oneMessage + `,"top_p":1.1}`, "top_p", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"top_k":-2}`, "top_k", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"seed":1.5}`, "seed", "invalid_value", "whole number"},
	{"chat", `{` + oneMessage + `,"seed":18446744073709551616}`, "seed", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"stop":["a"` + strings.Repeat(`,"b"`, 64) + `]}`, "stop", "invalid_value",
		"at most 64"},
	{"chat", `{` + oneMessage + `,"stop":[1]}`, "stop", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"logit_bias":{"-1":1}}`, "logit_bias", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"logit_bias":{"1":101}}`, "logit_bias", "invalid_value", "out of range"},
	{"chat", `{` + oneMessage + `,"logprobs":true,"top_logprobs":21}`, "top_logprobs", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,"logprobs":1}`, "logprobs", "invalid_value", "true or false"},
	{"chat", `{` + oneMessage + `,"stream_options":{"include_usage":1}}`, "stream_options.include_usage",
		"invalid_value", "true or false"},
	{"chat", `{` + oneMessage + `,"response_format":{"type":"json_schema"}}`, "response_format.json_schema",
		"missing_required_parameter", ""},
	{"chat", `{` + oneMessage + `,"response_format":{"type":"json_schema","json_schema":{"name":"x"}}}`,
		"response_format.json_schema.schema", "missing_required_parameter", ""},
	{"chat", `{` + oneMessage + `,"modalities":["text","audio"]}`, "modalities", "unsupported_parameter", ""},
	{"chat", `{` + oneMessage + `,"pilotfish":{"x":1}}`, "pilotfish.x", "unknown_parameter", ""},
	{"chat", `{` + oneMessage + `,"pilotfish":true}`, "pilotfish", "invalid_value", ""},
}

var refusedTools = []refusal{
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":{"type":"function"}}`, "tool_choice.name",
		"missing_required_parameter", "give the function's name"},
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":{"type":"function","function":{}}}`,
		"tool_choice.name", "missing_required_parameter", "give the function's name"},
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":{"type":"function","function":{"name":"g"}}}`,
		"tool_choice.function.name", "invalid_value", "no tool has this name"},
	{"chat", `{` + oneMessage + `,"tool_choice":"required"}`, "tool_choice", "invalid_value", "there are no tools"},
	{"chat", `{` + oneMessage + `,"tools":[{"type":"function"}]}`, "tools[0].name", "missing_required_parameter", ""},
	{"chat", `{` + oneMessage + `,"tools":[{"type":"function","function":{}}]}`, "tools[0].name",
		"missing_required_parameter", ""},
	{"chat", `{` + oneMessage + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, "tools[0].function.name",
		"invalid_value", "letters"},
	{"chat", `{` + oneMessage +
		`,"tools":[{"type":"function","function":{"name":"f"}},` +
		`{"type":"function","function":{"name":"f","description":"d"}}]}`,
		"tools[1].name", "invalid_value", "two functions are called f"},
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":"sometimes"}`, "tool_choice", "invalid_value", ""},
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":7}`, "tool_choice", "invalid_value",
		"give none, auto, required"},
	{"chat", `{` + oneMessage + `,` + toolF + `,"tool_choice":{"type":"web_search"}}`, "tool_choice.type",
		"invalid_value", ""},
}

// refusedTexts holds completions and infills.
var refusedTexts = []refusal{
	{"completions", `{"prompt":[1,null]}`, "prompt", "invalid_value", "token ids"},
	{"completions", `{"prompt":[null,[1]]}`, "prompt", "invalid_value", "is empty"},
	{"completions", `{"prompt":"x","logit_bias":{"01":1}}`, "logit_bias", "invalid_value", "01 is not a token id"},
	{"completions", `{"prompt":"x","logit_bias":{"+1":1}}`, "logit_bias", "invalid_value", "is not a token id"},
	{"completions", `{"prompt":"x","logit_bias":{"a":1,"b":1,"c":1}}`, "logit_bias", "invalid_value",
		"a is not a token id"},
	{"completions", `{}`, "prompt", "missing_required_parameter", ""},
	{"completions", `{"prompt":[]}`, "prompt", "invalid_value", "none of them empty"},
	{"completions", `{"prompt":["x",7]}`, "prompt", "invalid_value", ""},
	{"completions", `{"prompt":"x","best_of":2}`, "best_of", "invalid_value", "take n"},
	{"completions", `{"prompt":"x","logprobs":6}`, "logprobs", "invalid_value", "from 0 to 5"},
	{"completions", `{"prompt":"x","suffix":"y","echo":true}`, "suffix", "invalid_value", "leave out echo"},
	{"completions", `{"prompt":[1],"suffix":"y"}`, "suffix", "invalid_value", "give texts"},
	{"completions", `{"prompt":"x","max_tokens":-2}`, "max_tokens", "invalid_value", ""},
	{"completions", `{"prompt":"x","add_special_tokens":false}`, "add_special_tokens", "unsupported_parameter", ""},
	{"infill", `[]`, "", "invalid_value", "give a JSON object"},
	{"infill", `{"input_suffix":"y"}`, "input_prefix", "missing_required_parameter", ""},
	{"infill", `{"input_prefix":"y"}`, "input_suffix", "missing_required_parameter", ""},
	{"infill", `{"input_prefix":"x","input_suffix":"y","n":2}`, "n", "invalid_value", "one answer"},
	{"infill", `{"input_prefix":"x","input_suffix":"y","samplers":[1]}`, "samplers", "invalid_value", "names"},
	{"infill", `{"input_prefix":"x","input_suffix":"y","input_extra":[{"filename":"a"}]}`, "input_extra[0].text",
		"missing_required_parameter", ""},
	{"completions", `{"prompt":[` + strings.Repeat(`"x",`, 9) + `"x"],"n":13}`, "prompt", "invalid_value",
		"130 answers"},
}

// TestRefused: an error names the invalid field by its path, with a code and what to do.
func TestRefused(t *testing.T) {
	for _, c := range slices.Concat(refusedBodies, refusedMessages, refusedSettings, refusedTools, refusedTexts) {
		t.Run(c.api+" "+c.param, func(t *testing.T) {
			if wrong := refused(c.api, c.body); assert.NotNil(t, wrong, c.body) {
				assert.Equal(t, 400, wrong.Status, c.body)
				assert.Equal(t, c.param, wrong.Param, c.body)
				assert.Equal(t, c.code, wrong.Code, c.body)
				assert.Contains(t, wrong.Message, c.say, c.body)
			}
		})
	}
}

// TestRefusedByPath: in the other APIs, too, the message of an error begins with the path of the field.
func TestRefusedByPath(t *testing.T) {
	for _, c := range []struct{ api, body, at, say string }{
		{"responses", `{}`, "input", "give a text"},
		{"responses", `{"input":[]}`, "input", "give a text"},
		{"responses", `{"input":[{"type":"reasoning","id":"r","summary":[]}]}`, "input", "give a text"},
		{"responses", `{"input":[{"role":"user"}]}`, "input[0].content", "give a text"},
		{"responses", `{"input":[{"role":"robot","content":"x"}]}`, "input[0].role", "give system"},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`,
			"input[0].content[0].type", "text alone"},
		{"responses", `{"input":[{"type":"function_call_output","call_id":"c","output":"r"}]}`, "input[0].call_id", ""},
		{"responses", `{"input":[{"type":"function_call","name":"f"}]}`, "input[0].call_id", "give the id"},
		{"responses", `{"input":[{"type":"function_call","call_id":"c"}]}`, "input[0].name", "give the name"},
		{"responses", `{"input":[{"type":"item_reference","id":"msg_1"}]}`, "input[0].id", "there is no item msg_1"},
		{"responses", `{"input":"x","previous_response_id":"resp_1"}`, "previous_response_id", "no response resp_1"},
		{"responses", `{"input":"x","n":2}`, "n", "not supported"},
		{"responses", `{"input":"x","conversation":"conv_1"}`, "conversation", "previous_response_id"},
		{"responses", `{"input":"x","prompt":{"id":"p"}}`, "prompt", "instructions"},
		{"responses", `{"input":"x","text":{"format":{"type":"xml"}}}`, "text.format.type", "json_schema"},
		{"responses", `{"input":"x","text":{"format":{"type":"json_schema","name":"n"}}}`,
			"text.format.json_schema", ""},
		{"responses", `{"input":"x","tools":[{"type":"function","name":"f"}],` +
			`"tool_choice":{"type":"function","name":"g"}}`, "tool_choice.name", "no tool"},
		{"responses", `{"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"}}`,
			"tool_choice.type", "functions alone"},
		{"messages", `{}`, "messages", "at least one"},
		{"messages", `{"messages":[]}`, "messages", "at least one"},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}]}`,
			"messages", "at least one"},
		{"messages", `{"messages":[{"role":"assistant","content":"x"}]}`, "messages", "before the assistant's"},
		{"messages", `{"messages":[{"role":"tool","content":"x"}]}`, "messages[0].role", "give user"},
		{"messages", `{"messages":[{"role":"user","content":7}]}`, "messages[0].content", "list of blocks"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`,
			"messages[0].content[0].type", "text"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}]}`,
			"messages[0].content[0].type", "text"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}`,
			"messages[0].content[0].tool_use_id", "no call before has this id"},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]}]}`,
			"messages[0].content[0].id", "give the id"},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f",` +
			`"input":"x"}]}]}`, "messages[0].content[0].input", "JSON object"},
		{"messages", `{` + oneMessage + `,"tool_choice":{"type":"any"}}`, "tool_choice.type", "no tools"},
		{"messages", `{` + oneMessage + `,"tools":[{"name":"f"}],"tool_choice":{"type":"tool"}}`,
			"tool_choice.name", "name"},
		{"messages", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],` +
			`"output_config":{"format":{"type":"json_object"}}}`, "messages[1]", "begins by itself"},
	} {
		t.Run(c.api+" "+c.at, func(t *testing.T) {
			if wrong := refused(c.api, c.body); assert.NotNil(t, wrong, c.body) {
				assert.Equal(t, 400, wrong.Status, c.body)
				assert.Equal(t, c.at, wrong.Param, c.body)
				assert.True(t, strings.HasPrefix(wrong.Message, c.at+": "), "%s: %s", c.body, wrong.Message)
				assert.Contains(t, wrong.Message, c.say, c.body)
			}
		})
	}
}
