package request

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
)

// keeps is an empty [Kept].
type keeps struct{}

func (keeps) Talk(string) ([]pilotfish.Message, bool)    { return nil, false }
func (keeps) Item(string) (m pilotfish.Message, ok bool) { return m, false }

// api is an API with a minimal request.
type api struct {
	body string   // the minimal request, without the braces
	own  []string // fields of the tables that it reads itself
	read func(body string, d Defaults) (any, *Request, *Error)
}

func apis() map[string]api {
	const hello = `"messages":[{"role":"user","content":"hi"}]`
	chat := func(r *Chat, err *Error) (any, *Request, *Error) { return r, &r.Request, err }
	return map[string]api{
		"chat": {hello, nil, func(s string, d Defaults) (any, *Request, *Error) {
			return chat(ReadChat([]byte(s), d))
		}},
		"completion": {`"prompt":"hi"`, nil, func(s string, d Defaults) (any, *Request, *Error) {
			r, err := ReadCompletion([]byte(s), d)
			return r, &r.Request, err
		}},
		"infill": {`"input_prefix":"a","input_suffix":"b"`, nil, func(s string, d Defaults) (any, *Request, *Error) {
			r, err := ReadInfill([]byte(s), d)
			return r, &r.Request, err
		}},
		"response": {`"input":"hi"`, []string{"store", "include"}, func(s string, d Defaults) (any, *Request, *Error) {
			r, err := ReadResponse([]byte(s), d, keeps{})
			return chat(&r.Chat, err)
		}},
		"message": {hello, nil, func(s string, d Defaults) (any, *Request, *Error) {
			return chat(ReadMessages([]byte(s), d))
		}},
	}
}

// with parses the minimal request with one more field, and returns what of it is ignored.
func (a api) with(field, value string, d Defaults) (got any, ignored []string, wrong *Error) {
	got, r, wrong := a.read(fmt.Sprintf(`{%s,%q:%s}`, a.body, field, value), d)
	if r.notes != nil {
		ignored, r.notes = r.Ignored(), nil
	}
	return got, ignored, wrong
}

// TestForeign: a field of another server, or one that nobody knows, does not change the request, and is named if its
// value is not empty. Only fields that would give the answer another meaning are refused by name.
func TestForeign(t *testing.T) {
	values := []string{`"x"`, `7`, `{"a":[1]}`, `["a"]`, `true`, `-0.5`}
	empty := []string{`null`, `false`, `0`, `""`, `[]`, `{}`}
	for name, a := range apis() {
		plain, _, wrong := a.with("seed", "null", Defaults{})
		require.Nil(t, wrong)
		ignores := func(field, value string, named []string) {
			got, ignored, wrong := a.with(field, value, Defaults{})
			require.Nil(t, wrong, "%s: %s", field, value)
			require.Equal(t, plain, got, "%s: %s: %s", name, field, value)
			require.Equal(t, named, ignored, "%s: %s: %s", name, field, value)
		}
		refuses := func(field, value string) *Error {
			_, _, wrong := a.with(field, value, Defaults{})
			require.NotNil(t, wrong, "%s: %s: %s", name, field, value)
			require.Equal(t, field, wrong.Param)
			require.Equal(t, "unsupported_parameter", wrong.Code)
			require.Contains(t, wrong.Message, field+": ")
			require.Contains(t, wrong.Message, "leave it out")
			return wrong
		}
		for _, field := range append(ignoredFields, "mirostat", "Temperature", "of_2030") {
			if slices.Contains(a.own, field) {
				continue
			}
			for _, value := range values {
				ignores(field, value, []string{field})
			}
			for _, value := range empty {
				ignores(field, value, nil)
			}
		}
		for field, one := range unsupportedFields {
			for d := json.NewDecoder(strings.NewReader(one.values)); d.More(); {
				var value json.RawMessage
				require.NoError(t, d.Decode(&value))
				ignores(field, string(value), nil)
			}
			ignores(field, "null", nil)
			if !one.alters {
				ignores(field, `"other"`, []string{field})
				continue
			}
			wrong := refuses(field, `"other"`)
			assert.Equal(t, one.values != "", strings.Contains(wrong.Message, ", or give "+one.values))
			assert.Equal(t, one.hint != "", strings.Contains(wrong.Message, ": "+one.hint+", and leave"))
		}
	}
}

// withFields returns members of an object, each followed by a comma.
func withFields(names []string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, `%q:{"type":"ephemeral"},`, name)
	}
	return b.String()
}

// TestForeignParts: fields that clients send back with messages, parts, calls and tools, and that cannot change the
// answer, do not change the request.
func TestForeignParts(t *testing.T) {
	const plain = `{"seed":7,"messages":[{"role":"system","content":"s"},` +
		`{"role":"user","content":[{"type":"text","text":"a"}]},` +
		`{"role":"assistant","content":"b","tool_calls":[{"id":"c","type":"function","function":{"name":"f",` +
		`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"},{"role":"user","content":"z"}],` +
		`"tools":[{"type":"function","function":{"name":"f","description":"d"}}]}`
	read := func(body string) (any, *Error) {
		r, wrong := ReadChat([]byte(body), Defaults{})
		r.notes = nil
		return r, wrong
	}
	want, wrong := read(plain)
	require.Nil(t, wrong)
	for old, changed := range map[string]string{
		`{"role":`:       "{" + withFields(ignoredInMessages) + `"role":`,
		`{"type":"text"`: "{" + withFields(ignoredInParts) + `"type":"text"`,
		`{"id":"c"`:      "{" + withFields(ignoredInCalls) + `"id":"c"`,
		`{"type":"function","function":{"name":"f","description`: "{" + withFields(ignoredInTools) +
			`"type":"function","function":{"name":"f","description`,
		`{"role":"user"`: `{"tool_calls":[],"weight":1,"prefix":false,"partial":false,"images":[],"audio":null,` +
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
	} {
		_, wrong := read(strings.Replace(plain, `{"role":"user"`, `{`+field+`"role":"user"`, 1))
		require.NotNil(t, wrong, field)
		assert.Equal(t, param, wrong.Param)
	}
	_, wrong = read(`{"messages":[{"role":"user","content":"hi"}],"tool_choice":"auto","tools":[]}`)
	assert.Nil(t, wrong, "a choice of nothing")
}

// TestForeignPartsElsewhere: the same in the other APIs with messages.
func TestForeignPartsElsewhere(t *testing.T) {
	const messages = `{"seed":7,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f"}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"c","content":"r"}]}],"n":1,"tools":[{"name":"f"}]}`
	const response = `{"seed":7,"input":[{"type":"message","role":"user","content":"a"},{"type":"function_call",` +
		`"call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}],` +
		`"tools":[{"type":"function","name":"f"}]}`
	for _, c := range []struct {
		api, plain, old string
		names           []string
	}{
		{"messages", messages, `{"role":`, ignoredInMessages},
		{"messages", messages, `{"type":"text",`, ignoredInParts},
		{"messages", messages, `{"type":"tool_result",`, ignoredInParts},
		{"messages", messages, `{"name":"f"`, ignoredInTools},
		{"responses", response, `{"type":"message",`, ignoredInMessages},
		{"responses", response, `{"type":"function_call",`,
			append(slices.Clone(ignoredInMessages), "caller", "namespace")},
		{"responses", response, `{"type":"function_call_output",`, ignoredInMessages},
		{"responses", response, `{"type":"function",`, ignoredInTools},
	} {
		t.Run(c.api+" "+c.old, func(t *testing.T) {
			want, wrong := read(c.api, c.plain, Defaults{})
			require.Nil(t, wrong)
			got, wrong := read(c.api, strings.ReplaceAll(c.plain, c.old, "{"+withFields(c.names)+c.old[1:]), Defaults{})
			require.Nil(t, wrong)
			want.notes, got.notes = nil, nil
			assert.Equal(t, want, got)
		})
	}
}

// TestWithout: fields are removed, and the rest is unchanged.
func TestWithout(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1, "x": {"a":2},"b":"é\u00e9"}`: `{"a":1,"b":"é\u00e9"}`, `{"x":1}`: `{}`,
		`{ "a" : 1.50 }`: `{ "a" : 1.50 }`, `[1]`: `[1]`, `{"a":`: `{"a":`, ``: ``,
		`["x",1]`: `["x",1]`, `{"x":1,"b":}`: `{"x":1,"b":}`,
	} {
		assert.Equal(t, want, string(withoutFields([]byte(in), []string{"x"})), in)
	}
}
