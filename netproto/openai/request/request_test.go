package request

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzRequests: a request gives a result or an error, never a panic.
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

// TestDescribes: a function without a schema of parameters has none; one that accepts any object says so.
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

// TestMostElements: each list of a request may have as many elements as its limit, and not one more.
func TestMostElements(t *testing.T) {
	const user, call = `{"role":"user","content":"x"}`, `{"id":"c%[1]d","function":{"name":"f","arguments":"{}"}}`
	chat := func(b []byte) *Error { _, err := ReadChat(b, Defaults{}); return err }
	messages := func(b []byte) *Error { _, err := ReadMessages(b, Defaults{}); return err }
	response := func(b []byte) *Error { _, err := ReadResponse(b, Defaults{}, keeps{}); return err }
	completion := func(b []byte) *Error { _, err := ReadCompletion(b, Defaults{}); return err }
	infill := func(b []byte) *Error { _, err := ReadInfill(b, Defaults{}); return err }
	for i, c := range []struct {
		read          func([]byte) *Error
		limit         int
		before, after string
		element       string // with a number
	}{
		{chat, maxMessages, `{"messages":[`, `]}`, user},
		{chat, maxTools, `{"messages":[` + user + `],"tools":[`, `]}`, `{"type":"function","function":{"name":"f%d"}}`},
		{chat, maxTools, `{"messages":[{"role":"assistant","tool_calls":[`, `]},` + user + `]}`, call},
		{chat, maxStops, `{"messages":[` + user + `],"stop":[`, `]}`, `"s%d"`},
		{chat, maxBiases, `{"messages":[` + user + `],"logit_bias":{`, `}}`, `"%d":1`},
		{messages, maxMessages, `{"max_tokens":1,"messages":[`, `]}`, user},
		{messages, maxTools, `{"max_tokens":1,"messages":[` + user + `],"tools":[`, `]}`,
			`{"name":"f%d","input_schema":{"type":"object"}}`},
		{messages, maxMessages, `{"max_tokens":1,"messages":[` + user + `],"context_management":{"edits":[`, `]}}`,
			`{"type":"clear_thinking_%d"}`},
		{response, maxMessages, `{"input":[`, `]}`, user},
		{response, maxTools, `{"input":"x","tools":[`, `]}`, `{"type":"function","name":"f%d"}`},
		{response, maxTools, `{"input":"x","tools":[{"type":"namespace","name":"n","tools":[`, `]}]}`,
			`{"type":"function","name":"f%d"}`},
		{completion, maxAnswers, `{"prompt":[`, `]}`, `"x"`},
		{infill, maxFiles, `{"input_prefix":"x","input_suffix":"","input_extra":[`, `]}`, `{"text":"x"}`},
	} {
		request := func(n int) []byte {
			all := make([]string, n)
			for i := range all {
				if all[i] = c.element; strings.Contains(c.element, "%") {
					all[i] = fmt.Sprintf(c.element, i)
				}
			}
			return []byte(c.before + strings.Join(all, ",") + c.after)
		}
		assert.Nil(t, c.read(request(c.limit)), "%d: %s", i, c.before)
		if err := c.read(request(c.limit + 1)); assert.NotNil(t, err, "%d: %s", i, c.before) {
			assert.Contains(t, err.Message, fmt.Sprintf("at most %d", c.limit), c.before)
		}
	}
}

// TestThoughtsOfTurns: a thought in several items is that of its own turn, of whatever length those before are.
func TestThoughtsOfTurns(t *testing.T) {
	item := func(thought string) string {
		return fmt.Sprintf(`{"type":"reasoning","content":[{"type":"reasoning_text","text":%q}]},`, thought)
	}
	const says, asks = `{"role":"assistant","content":"a"},`, `{"role":"user","content":"u"}`
	for _, second := range []string{"x", "xy", "xyz"} {
		r, wrong := ReadResponse([]byte(`{"input":[`+item("a")+item("b")+says+asks+`,`+item(second)+item("-")+says+asks+
			`]}`), Defaults{}, keeps{})
		require.Nil(t, wrong)
		require.Len(t, r.Talk.Messages, 4)
		assert.Equal(t, []string{"ab", second + "-"}, []string{r.Talk.Messages[0].Thought, r.Talk.Messages[2].Thought})
	}
}

// TestJoinedTurns: parts of a turn are one message, which stays on this device if one of them does.
func TestJoinedTurns(t *testing.T) {
	const local, user = `,"pilotfish":{"local":true}`, `{"role":"user","content":"u"}`
	for _, marks := range [][3]string{{"", "", ""}, {local, "", ""}, {"", local, ""}, {"", "", local}} {
		r, wrong := ReadMessages([]byte(fmt.Sprintf(`{"messages":[`+user+`,{"role":"assistant","content":"a"%s},`+
			`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f"}]%s},`+
			`{"role":"assistant","content":[{"type":"tool_use","id":"d","name":"g"}]%s},`+user+`]}`, marks[0], marks[1],
			marks[2])), Defaults{})
		require.Nil(t, wrong)
		require.Len(t, r.Talk.Messages, 3)
		turn := r.Talk.Messages[1]
		assert.Equal(t, "a", turn.Content)
		assert.Len(t, turn.Calls, 2)
		assert.Equal(t, strings.Join(marks[:], "") != "", turn.Local, marks)
		assert.False(t, r.Talk.Messages[0].Local || r.Talk.Messages[2].Local)
	}
}

// TestShown: a field's name from a client is only repeated as it is if it is short and plain.
func TestShown(t *testing.T) {
	for name, plain := range map[string]bool{"": true, "top_k2": true, "A.z/0-9": true, strings.Repeat("x", 40): true,
		strings.Repeat("x", 41): false, "a b": false, "a\nb": false, "\x1b[1m": false, "é": false, "<script>": false} {
		assert.Equal(t, plain, Shown(name) == name, "%q: %s", name, Shown(name))
	}
}

// TestManyThoughts: a thought in many parts, items or blocks is one text, and takes memory for its bytes once.
func TestManyThoughts(t *testing.T) {
	const n = 4000
	text := strings.Repeat("x", 200)
	list := func(part string) string { return strings.Repeat(part+",", n-1) + part }
	part := fmt.Sprintf(`{"type":"reasoning_text","text":%q}`, text)
	for name, read := range map[string]func() (*Chat, *Error){
		"parts": func() (*Chat, *Error) {
			item := `{"type":"reasoning","content":[` + list(part) + `]}`
			r, err := ReadResponse([]byte(`{"input":[`+item+`]}`), Defaults{}, keeps{})
			return &r.Chat, err
		},
		"items": func() (*Chat, *Error) {
			item := `{"type":"reasoning","content":[` + part + `]}`
			r, err := ReadResponse([]byte(`{"input":[`+list(item)+`]}`), Defaults{}, keeps{})
			return &r.Chat, err
		},
		"blocks": func() (*Chat, *Error) {
			block := fmt.Sprintf(`{"type":"thinking","thinking":%q}`, text)
			return ReadMessages([]byte(`{"max_tokens":9,`+
				`"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[`+list(block)+
				`,{"type":"text","text":"a"}]},{"role":"user","content":"v"}]}`), Defaults{})
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, wrong := read()
		runtime.ReadMemStats(&after)
		require.Nil(t, wrong, name)
		thoughts := ""
		for _, m := range r.Talk.Messages {
			thoughts += m.Thought
		}
		assert.True(t, thoughts == strings.Repeat(text, n), name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), name)
	}
}
