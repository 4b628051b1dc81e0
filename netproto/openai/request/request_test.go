package request

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzRequests: no request is more than an error.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"user","content":"x"}]}`, `{"prompt":[[1]],"n":2}`, `[`,
		`{"stop":[1]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]}],` +
			`"tools":[{"type":"function","function":{"name":"f"}}],` +
			`"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"logit_bias":{"1":2}}`,
		`{"input":[{"type":"reasoning"}]}`, `{"input":[{"role":"user","content":"x"},{"type":"function_call",` +
			`"call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}],` +
			`"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],"text":{}}`,
		`{"messages":[{"role":"assistant","content":[{"type":"thinking"}]}]}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"y"},` +
			`{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"c","content":"r"}]}],"system":[{"type":"text","text":"s"}],` +
			`"thinking":{"type":"adaptive"},"chat_template_kwargs":{"x":[1]},` +
			`"tools":[{"name":"f","input_schema":{}}],` +
			`"tool_choice":{"type":"tool","name":"f"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range []Defaults{{}, {Thinks: true}} {
			if r, err := ReadChat(b, d); err == nil {
				require.NotEmpty(t, r.Talk.Messages)
				require.LessOrEqual(t, len(r.Settings.Stop), maxStops)
			} else {
				require.NotEmpty(t, err.Message)
			}
			if r, err := ReadMessages(b, d); err == nil {
				require.NotZero(t, len(r.Talk.Messages))
			} else {
				require.NotEmpty(t, err.Message)
			}
			if r, err := ReadResponse(b, d, keeps{}); err == nil {
				require.NotZero(t, len(r.Talk.Messages))
				Encode(r.Echo)
			} else {
				require.NotEmpty(t, err.Message)
			}
		}
		if r, err := ReadCompletion(b, Defaults{}); err == nil {
			require.NotZero(t, len(r.Texts)+len(r.IDs))
		}
	})
}

// TestDescribes: a function whose parameters nobody describes has none; one that takes any object says so.
func TestDescribes(t *testing.T) {
	for parameters, want := range map[string]bool{
		"": false, "{}": false, `{"type":"object"}`: false, `{"type":"object","required":[],"title":"x"}`: false,
		`{"$schema":"http://x/schema#","description":"none","type":"object"}`: false,

		`{"type":"object","properties":{}}`: true, `{"type":"object","additionalProperties":true}`: true,
		`{"type":["object","null"]}`: true, `{"type":"object","required":["a"]}`: true, `{"anyOf":[]}`: true,
		`{"$ref":"#/$defs/x"}`: true,
	} {
		assert.Equal(t, want, describes([]byte(parameters)), parameters)
	}
}
