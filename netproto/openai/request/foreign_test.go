package request

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
)

// keeps is an empty [Kept].
type keeps struct{}

func (keeps) Talk(string) ([]answer.Message, bool)    { return nil, false }
func (keeps) Item(string) (m answer.Message, ok bool) { return m, false }

// api is an API with a minimal request.
type api struct {
	body string   // the minimal request, without the braces
	own  []string // fields of the tables that it reads itself
	read func(body string) (any, *Error)
}

func apis() map[string]api {
	const hello = `"messages":[{"role":"user","content":"hi"}]`
	chat := func(r *Chat, err *Error) (any, *Error) { return r, err }
	return map[string]api{
		"chat": {hello, nil, func(s string) (any, *Error) { return chat(ReadChat([]byte(s), Defaults{})) }},
		"completion": {`"prompt":"hi"`, nil, func(s string) (any, *Error) {
			return ReadCompletion([]byte(s), Defaults{})
		}},
		"response": {`"input":"hi"`, []string{"store", "include", "reasoning", "max_output_tokens"},
			func(s string) (any, *Error) {
				r, err := ReadResponse([]byte(s), Defaults{}, keeps{})
				return &r.Chat, err
			}},
		"message": {hello, []string{"thinking"}, func(s string) (any, *Error) {
			return chat(ReadMessages([]byte(s), Defaults{}))
		}},
	}
}

// TestForeign: a field of other servers that cannot change an answer is accepted with any value, and does not change
// the request. A field that could is accepted with values that request the default behavior, and refused by name with
// others.
func TestForeign(t *testing.T) {
	for name, a := range apis() {
		plain, wrong := a.read(`{` + a.body + `}`)
		require.Nil(t, wrong)
		same := func(field, value string) {
			got, wrong := a.read(fmt.Sprintf(`{%s,%q:%s}`, a.body, field, value))
			require.Nil(t, wrong, "%s: %s", field, value)
			require.Equal(t, plain, got, "%s: %s: %s", name, field, value)
		}
		for _, field := range ignoredFields {
			for _, value := range []string{`"x"`, `7`, `{"a":[1]}`, `null`, `[]`, `true`} {
				if !slices.Contains(a.own, field) {
					same(field, value)
				}
			}
		}
		for _, value := range []string{`null`, `false`, `0`, `""`, `[]`, `{}`} {
			same("mirostat", value)
		}
		_, wrong = a.read(`{` + a.body + `,"mirostat":1}`)
		require.NotNil(t, wrong)
		assert.Equal(t, []string{"mirostat", "unknown_parameter"}, []string{wrong.Param, wrong.Code})
		for field, one := range idleFields {
			if slices.Contains(a.own, field) || field == "chat_template_kwargs" { // an object, for the template
				continue
			}
			for d := json.NewDecoder(strings.NewReader(one.values)); d.More(); {
				var value json.RawMessage
				require.NoError(t, d.Decode(&value))
				same(field, string(value))
			}
			same(field, "null")
			_, wrong := a.read(fmt.Sprintf(`{%s,%q:"other"}`, a.body, field))
			require.NotNil(t, wrong, field)
			assert.Equal(t, []string{field, "unsupported_parameter"}, []string{wrong.Param, wrong.Code})
			assert.Contains(t, wrong.Message, field+": ")
			assert.Contains(t, wrong.Message, "leave it out")
			assert.Equal(t, one.values != "", strings.Contains(wrong.Message, ", or give "+one.values))
			assert.Equal(t, one.hint != "", strings.Contains(wrong.Message, ": "+one.hint+", and leave"))
		}
	}
}

// TestForeignParts: fields that clients send back with messages, parts, calls and tools, and that cannot change the
// answer, do not change the request.
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
	read := func(body string) (any, *Error) { return ReadChat([]byte(body), Defaults{}) }
	want, wrong := read(plain)
	require.Nil(t, wrong)
	for old, changed := range map[string]string{
		`{"role":`:       "{" + with(ignoredInMessages) + `"role":`,
		`{"type":"text"`: "{" + with(ignoredInParts) + `"type":"text"`,
		`{"id":"c"`:      "{" + with(ignoredInCalls) + `"id":"c"`,
		`{"type":"function","function":{"name":"f","description`: "{" + with(ignoredInTools) +
			`"type":"function","function":{"name":"f","description`,
		`{"role":"user"`: `{"tool_calls":[],"prefix":false,"partial":false,"images":[],"audio":null,` +
			`"role":"user"`,
		`"type":"text"`:              `"type":"input_text"`,
		`{"type":"text","text":"a"}`: `{"type":"refusal","refusal":"a"}`,
		`"tools":[`:                  `"tool_choice":"auto","parallel_tool_calls":true,"tools":[`,
	} {
		got, wrong := read(strings.ReplaceAll(plain, old, changed))
		require.Nil(t, wrong, changed)
		require.Equal(t, want, got, changed)
	}
	for field, param := range map[string]string{
		`"prefix":true,`: "messages[1].prefix", `"images":["x"],`: "messages[1].images",
		`"weight":0,`: "messages[1].weight",
	} {
		_, wrong := read(strings.Replace(plain, `{"role":"user"`, `{`+field+`"role":"user"`, 1))
		require.NotNil(t, wrong, field)
		assert.Equal(t, param, wrong.Param)
	}
	_, wrong = read(`{"messages":[{"role":"user","content":"hi"}],"tool_choice":"auto","tools":[]}`)
	assert.Nil(t, wrong, "a choice of nothing")

	const messages = `{"seed":7,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f"}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"c","content":"r"}]}],"n":1,"tools":[{"name":"f"}]}`
	const response = `{"seed":7,"input":[{"type":"message","role":"user","content":"a"},{"type":"function_call",` +
		`"call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}],` +
		`"tools":[{"type":"function","name":"f"}]}`
	for _, c := range []struct {
		plain, old string
		names      []string
	}{
		{messages, `{"role":`, ignoredInMessages},
		{messages, `{"type":"text",`, ignoredInParts}, {messages, `{"type":"tool_result",`, ignoredInParts},
		{messages, `{"name":"f"`, ignoredInTools}, {response, `{"type":"message",`, ignoredInMessages},
		{response, `{"type":"function_call",`, append(slices.Clone(ignoredInMessages), "caller", "namespace")},
		{response, `{"type":"function_call_output",`, ignoredInMessages},
		{response, `{"type":"function",`, append(slices.Clone(ignoredInTools), "output_schema")},
	} {
		read := func(body string) (any, *Error) {
			if c.plain == messages {
				return ReadMessages([]byte(body), Defaults{})
			}
			r, err := ReadResponse([]byte(body), Defaults{}, keeps{})
			return &r.Chat, err
		}
		want, wrong := read(c.plain)
		require.Nil(t, wrong)
		got, wrong := read(strings.ReplaceAll(c.plain, c.old, "{"+with(c.names)+c.old[1:]))
		require.Nil(t, wrong, c.old)
		assert.Equal(t, want, got, c.old)
	}
}

// TestWithout: fields are removed, and the rest is unchanged.
func TestWithout(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1, "x": {"a":2},"b":"é\u00e9"}`: `{"a":1,"b":"é\u00e9"}`, `{"x":1}`: `{}`,
		`{ "a" : 1.50 }`: `{ "a" : 1.50 }`, `[1]`: `[1]`, `{"a":`: `{"a":`, ``: ``,
		`["x",1]`: `["x",1]`, `{"x":1,"b":}`: `{"x":1,"b":}`,
	} {
		assert.Equal(t, want, string(without([]byte(in), []string{"x"})), in)
	}
}
