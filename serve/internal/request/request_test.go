package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// requireIgnored checks what of a request is ignored: names for a header.
func requireIgnored(t *testing.T, r *Request, err *Error) {
	if err != nil {
		return
	}
	require.LessOrEqual(t, len(r.Ignored()), maxIgnored)
	for _, path := range r.Ignored() {
		require.Regexp(t, `^[ -~]{1,300}$`, path)
	}
}

// FuzzRequests: a request gives a result or an error, never a panic.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{`{"messages":[{"role":"user","content":"x"}]}`, `{"prompt":[[1]],"n":2}`, `[`,
		`{"stop":[1]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]}],` +
			`"tools":[{"type":"function","function":{"name":"f"}}],` +
			`"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"logit_bias":{"1":2}}`,
		`{"functions":[{"name":"f"}],"function_call":{"name":"f"},` +
			`"messages":[{"role":"function","content":null,"x":1}]}`,
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"x"}},` +
			`{"type":"a"}]}],"thread":{"type":"create"},"guided_json":"{}","stop":"","mirostat":2,` +
			`"tools":[{"type":"web_search"}]}`,
		`{"input":[{"type":"local_shell_call","call_id":"c","action":{}},{"type":"additional_tools","tools":[{}]}]}`,
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
			r, err := ReadChat(b, d)
			requireIgnored(t, &r.Request, err)
			m, err := ReadMessages(b, d)
			requireIgnored(t, &m.Request, err)
			p, err := ReadResponse(b, d, keeps{})
			requireIgnored(t, &p.Request, err)
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

// TestMostElements: each list of a request may have as many elements as its limit, and not one more.
func TestMostElements(t *testing.T) {
	const user, call = `{"role":"user","content":"x"}`, `{"id":"c%[1]d","function":{"name":"f","arguments":"{}"}}`
	chat := func(b []byte) *Error { _, err := ReadChat(b, Defaults{}); return err }
	messages := func(b []byte) *Error { _, err := ReadMessages(b, Defaults{}); return err }
	response := func(b []byte) *Error { _, err := ReadResponse(b, Defaults{}, keeps{}); return err }
	completion := func(b []byte) *Error { _, err := ReadCompletion(b, Defaults{}); return err }
	infill := func(b []byte) *Error { _, err := ReadInfill(b, Defaults{}); return err }
	for _, c := range []struct {
		name          string
		read          func([]byte) *Error
		limit         int
		before, after string
		element       string // with a number
	}{
		{"messages of a chat", chat, maxMessages, `{"messages":[`, `]}`, user},
		{"tools of a chat", chat, maxTools, `{"messages":[` + user + `],"tools":[`, `]}`,
			`{"type":"function","function":{"name":"f%d"}}`},
		{"calls of a message", chat, maxTools, `{"messages":[{"role":"assistant","tool_calls":[`,
			`]},` + user + `]}`, call},
		{"stops", chat, maxStops, `{"messages":[` + user + `],"stop":[`, `]}`, `"s%d"`},
		{"biases", chat, maxBiases, `{"messages":[` + user + `],"logit_bias":{`, `}}`, `"%d":1`},
		{"messages", messages, maxMessages, `{"max_tokens":1,"messages":[`, `]}`, user},
		{"tools for messages", messages, maxTools, `{"max_tokens":1,"messages":[` + user + `],"tools":[`, `]}`,
			`{"name":"f%d","input_schema":{"type":"object"}}`},
		{"items", response, maxMessages, `{"input":[`, `]}`, user},
		{"tools of a response", response, maxTools, `{"input":"x","tools":[`, `]}`, `{"type":"function","name":"f%d"}`},
		{"tools of a namespace", response, maxTools, `{"input":"x","tools":[{"type":"namespace","name":"n","tools":[`,
			`]}]}`, `{"type":"function","name":"f%d"}`},
		{"prompts", completion, maxAnswers, `{"prompt":[`, `]}`, `"x"`},
		{"prompts of ids", completion, maxAnswers, `{"prompt":[`, `]}`, `[1]`},
		{"files", infill, maxFiles, `{"input_prefix":"x","input_suffix":"","input_extra":[`, `]}`,
			`{"text":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := func(n int) []byte {
				all := make([]string, n)
				for i := range all {
					if all[i] = c.element; strings.Contains(c.element, "%") {
						all[i] = fmt.Sprintf(c.element, i)
					}
				}
				return []byte(c.before + strings.Join(all, ",") + c.after)
			}
			assert.Nil(t, c.read(request(c.limit)))
			if err := c.read(request(c.limit + 1)); assert.NotNil(t, err) {
				assert.Contains(t, err.Message, fmt.Sprintf("at most %d", c.limit))
			}
		})
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
		assert.Equal(t, "ab", r.Talk.Messages[0].Thought)
		assert.Equal(t, second+"-", r.Talk.Messages[2].Thought)
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

// TestErrorForms: the kind of an error in both APIs, by its status.
func TestErrorForms(t *testing.T) {
	for status, want := range map[int]struct{ openAI, anthropic string }{
		400: {"invalid_request_error", "invalid_request_error"},
		401: {"invalid_request_error", "authentication_error"},
		403: {"invalid_request_error", "permission_error"}, 404: {"invalid_request_error", "not_found_error"},
		405: {"invalid_request_error", "invalid_request_error"},
		408: {"invalid_request_error", "invalid_request_error"},
		413: {"invalid_request_error", "request_too_large"},
		415: {"invalid_request_error", "invalid_request_error"},
		429: {"rate_limit_error", "rate_limit_error"}, 500: {"server_error", "api_error"},
		503: {"server_error", "overloaded_error"}, 504: {"server_error", "timeout_error"},
	} {
		e := Refuse(status, "c", "m")
		assert.JSONEq(t, fmt.Sprintf(`{"error":{"message":"m","type":%q,"param":null,"code":"c"}}`, want.openAI),
			string(Encode(e.Object())))
		assert.JSONEq(t, fmt.Sprintf(`{"type":"error","error":{"message":"m","type":%q},"request_id":"r"}`,
			want.anthropic), string(Encode(e.Anthropic("r"))))
	}
	e := Refuse(400, "", "m")
	e.Param = "p"
	assert.JSONEq(t, `{"error":{"message":"m","type":"invalid_request_error","param":"p","code":null}}`,
		string(Encode(e.Object())))
}

// TestBodies: a body that is no JSON object in UTF-8 is refused with the reason.
func TestBodies(t *testing.T) {
	for body, want := range map[string]string{"": "has no content", " \t\r\n": "has no content", "[]": "object",
		"\xef\xbb\xbf{}": "at least one message", "\xff{}": "not UTF-8 from byte 0 on",
		`{"é":"` + "\xc3": "not UTF-8 from byte 7 on", `{"a":"\ufffd"`: "JSON"} {
		_, wrong := ReadChat([]byte(body), Defaults{})
		require.NotNil(t, wrong, "%q", body)
		assert.Contains(t, wrong.Message, want)
	}
}

// TestReplacementCharacter: the character that stands for invalid bytes is valid itself, in texts and names.
func TestReplacementCharacter(t *testing.T) {
	r, wrong := ReadChat([]byte("{\"messages\":[{\"role\":\"developer\",\"content\":\"\ufffd\"}],\"max_tokens\":-1}"),
		Defaults{})
	require.Nil(t, wrong)
	assert.Equal(t, []pilotfish.Message{{Role: "system", Content: "\ufffd"}}, r.Talk.Messages)
	assert.Zero(t, r.Settings.MaxTokens, "-1 is no limit")
}

// TestErrorBody: an error has the form of the API of its request, which its path or its header tells.
func TestErrorBody(t *testing.T) {
	for path, anthropic := range map[string]bool{"/v1/messages": true, "/v1/messages/count_tokens": true,
		"/v1/chat/completions": false, "/v1/models": false} {
		for _, version := range []string{"", "2023-06-01"} {
			r := &http.Request{URL: &url.URL{Path: path}, Header: http.Header{}}
			r.Header.Set("Anthropic-Version", version)
			body := string(Refuse(404, "c", "m").Body(r, "id"))
			assert.Equal(t, anthropic || version != "", strings.Contains(body, `"request_id":"id"`), body)
			assert.Equal(t, !anthropic && version == "", strings.Contains(body, `"code":"c"`), body)
		}
	}
}

// TestErrorOf: what clients get for the causes of an end, also if these are wrapped. Other causes are not shown.
func TestErrorOf(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  Error
	}{
		{ErrNoChat, Error{400, ErrNoChat.Error(), "messages", "no_chat_template", nil}},
		{ErrNoInfill, Error{400, ErrNoInfill.Error(), "suffix", "no_infill", nil}},
		{&ChatError{Err: errDown}, Error{400, "down", "messages", "chat_template", nil}},
		{ErrTimeout, Error{504, ErrTimeout.Error(), "", "timeout", nil}},
		{ErrDrained, Error{503, ErrDrained.Error(), "", "draining", nil}},
		{ErrSlow, Error{StatusGone, ErrSlow.Error(), "", "slow_reader", nil}},
		{ErrGone, Error{StatusGone, ErrGone.Error(), "", "cancelled", nil}},
		{context.Canceled, Error{StatusGone, ErrGone.Error(), "", "cancelled", nil}},
		{Invalid("p", "m"), Error{400, "m", "p", "invalid_value", nil}},
		{errDown, Error{500, "the answer could not be generated: the server's log says why", "", "internal_error",
			nil}},
		{context.DeadlineExceeded, Error{500, "the answer could not be generated: the server's log says why", "",
			"internal_error", nil}},
	} {
		t.Run(c.cause.Error(), func(t *testing.T) {
			assert.Equal(t, c.want, *ErrorOf(fmt.Errorf("wrapped: %w", c.cause)))
		})
	}
}

// TestShown: a field's name from a client is only repeated as it is if it is short and plain.
func TestShown(t *testing.T) {
	for name, plain := range map[string]bool{"": true, "top_k2": true, "AZaz/._-09": true,
		strings.Repeat("x", 40): true,
		strings.Repeat("x", 41): false, "a b": false, "a\nb": false, "\x1b[1m": false, "é": false, "<script>": false} {
		assert.Equal(t, plain, Shown(name) == name, "%q: %s", name, Shown(name))
	}
}

// read parses a request of an API, for a model that thinks or not.
func read(name, body string, d Defaults) (c *Chat, wrong *Error) {
	switch name {
	case "chat":
		return ReadChat([]byte(body), d)
	case "messages":
		return ReadMessages([]byte(body), d)
	}
	r, wrong := ReadResponse([]byte(body), d, keeps{})
	return &r.Chat, wrong
}

// TestInfillTaken: what the fields of an infill set.
func TestInfillTaken(t *testing.T) {
	r, wrong := ReadInfill([]byte(`{"input_prefix":"a","prompt":"b","input_suffix":"c","n_indent":3,"seed":5,`+
		`"t_max_predict_ms":70,"n_predict":9,"input_extra":[{"filename":"f","text":"t","time":1}]}`), Defaults{})
	require.Nil(t, wrong)
	assert.Equal(t, pilotfish.Infill{Prefix: "ab", Suffix: "c", Repo: "myproject", Name: "filename",
		Files: []struct{ Name, Text string }{{"f", "t"}}}, r.Gap)
	assert.Equal(t, answer.Lines{Indent: 3, Time: 70 * time.Millisecond}, r.Lines)
	assert.True(t, r.Seeded)
	assert.EqualValues(t, 5, r.Settings.Seed)
	assert.False(t, r.None)
	assert.Equal(t, 9, r.Settings.MaxTokens)

	r, wrong = ReadInfill([]byte(`{"input_prefix":"a","input_suffix":"c","seed":-1,"t_max_predict_ms":-1,`+
		`"n_predict":0}`), Defaults{})
	require.Nil(t, wrong)
	assert.False(t, r.Seeded)
	assert.Zero(t, r.Settings.Seed)
	assert.Zero(t, r.Lines)
	assert.True(t, r.None)
}

// TestChatTaken: what the fields of a chat set.
func TestChatTaken(t *testing.T) {
	const tool = `{"function" : {"parameters":{"type":"object"},"name":"f"},"type":"function","strict":true}`
	c, wrong := ReadChat([]byte(`{"messages":[{"role":"user","content":"x"}],"tools":[`+tool+`],"logit_bias":{"1":100,`+
		`"2":-100},"chat_template_kwargs":{"a":1,"b":2},"response_format":{"type":"json_schema","json_schema":`+
		`{"name":"s","description":"d","schema":{}}}}`), Defaults{})
	require.Nil(t, wrong)
	assert.Equal(t, tool, string(c.Talk.Tools[0]), "as the client wrote it")
	assert.True(t, c.Tools[0].strict)
	assert.Equal(t, map[int32]float32{1: 100, 2: -100}, c.Settings.LogitBias)
	assert.Len(t, c.Talk.Values, 2)

	for given, want := range map[string]string{`{"a":1}`: `{"a":1}`, `"{\"a\":1}"`: `{"a":1}`, `" "`: "{}"} {
		c, wrong = ReadChat([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f",`+
			`"arguments":`+given+`}}]}]}`), Defaults{})
		require.Nil(t, wrong)
		assert.Equal(t, want, string(c.Talk.Messages[0].Calls[0].Arguments))
	}
}

// TestCompletionTaken: what the fields of a completion set.
func TestCompletionTaken(t *testing.T) {
	b, wrong := ReadCompletion([]byte(`{"prompt":["a","b"],"suffix":"z","logprobs":0,"n":3,"stream":true,"model":"m",`+
		`"stream_options":{"include_usage":true},"pilotfish":{"provenance":true}}`), Defaults{Temperature: 0.5})
	require.Nil(t, wrong)
	b.notes = nil
	assert.Equal(t, &Completion{Request: Request{Model: "m", Settings: terms.Settings{MaxTokens: 16, LogProbs: true,
		Temperature: 0.5, TopP: 1}, N: 3, Stream: true, Usage: true, WantOrigins: true}, Texts: []string{"a", "b"},
		Suffix: "z"}, b)

	b, wrong = ReadCompletion([]byte(`{"prompt":[[1],[2,3]],"echo":true,"max_tokens":0}`), Defaults{})
	require.Nil(t, wrong)
	assert.True(t, b.None)
	assert.True(t, b.Echo)
	assert.False(t, b.WantOrigins)
	assert.False(t, b.Settings.LogProbs)
	assert.Equal(t, [][]int32{{1}, {2, 3}}, b.IDs)
	assert.Nil(t, b.Texts)
}

// TestResponseTaken: what the fields of a response set.
func TestResponseTaken(t *testing.T) {
	p, wrong := ReadResponse([]byte(`{"input":"x","service_tier":"flex","include":["message.output_text.logprobs"],`+
		`"top_logprobs":3}`), Defaults{}, keeps{})
	require.Nil(t, wrong)
	assert.Equal(t, "default", p.Echo["service_tier"])
	assert.True(t, p.Settings.LogProbs)
	assert.Equal(t, 3, p.Settings.Top)
	assert.True(t, p.Store)

	for body, want := range map[string]bool{`{"input":"x","store":true}`: true, `{"input":"x","store":false}`: false} {
		p, wrong = ReadResponse([]byte(body), Defaults{}, keeps{})
		require.Nil(t, wrong)
		assert.Equal(t, want, p.Store, body)
	}
}

// TestOwnFields: what an answer says beyond the other APIs, and the origins of its tokens if they were requested.
func TestOwnFields(t *testing.T) {
	o := (&Request{WantOrigins: true}).Origins([]engine.Token{{At: 1500 * time.Microsecond, Confidence: 0.12345678,
		Local: 7, Asked: true}}, func(id int32) string { return map[int32]string{7: "a"}[id] })
	assert.Equal(t, []provenance{{At: 1.5, Confidence: 0.123457, Local: "a", Asked: true}}, o.Tokens)
	assert.Equal(t, `"<a>&"`, string(Encode("<a>&")))

	plain := &Request{Settings: terms.Settings{Seed: 7}, keywords: []string{"k"}}
	assert.Nil(t, plain.Origins([]engine.Token{{ID: 1}}, nil), "they were not requested")
	assert.Equal(t, &Own{Seed: 7, Ignored: []string{"k"}}, plain.Own())
	assert.Equal(t, &Own{7, []string{"k"}, &Receipt{Bytes: 3}}, plain.Ended(pilotfish.Receipt{Bytes: 3}))
}

// failing is a model that cannot read chats, or texts, or refuses settings.
type failing struct {
	Model
	chat, text error
	check      func(terms.Settings) ([]string, error)
}

func (f failing) Check(_ context.Context, s terms.Settings) ([]string, error) { return f.check(s) }

func (f failing) ChatTokens([]pilotfish.Message, [][]byte, ...pilotfish.TemplateValue) ([]int32, error) {
	return []int32{1}, f.chat
}

func (f failing) Tokenize(string, bool) ([]int32, error) { return []int32{2}, f.text }

// TestPromptErrors: a prompt has the beginning of the answer, and the model's errors are returned.
func TestPromptErrors(t *testing.T) {
	for _, last := range []string{``, `,{"role":"assistant","content":"a"}`} {
		r, wrong := ReadMessages([]byte(`{"messages":[{"role":"user","content":"x"}`+last+`]}`), Defaults{})
		require.Nil(t, wrong)
		ids, err := r.Prompt(failing{})
		require.NoError(t, err)
		assert.Equal(t, []int32{1, 2}[:min(1+len(last), 2)], ids)
		_, err = r.Prompt(failing{chat: pilotfish.ErrUnsupported})
		assert.ErrorIs(t, err, ErrNoChat)
		_, err = r.Prompt(failing{text: errDown})
		assert.Equal(t, last != "", err != nil)
	}
}

var errDown = errors.New("down")

// TestPossible: settings that the model refuses are the client's mistake, in the format if there is one. What the end
// of the request causes is not.
func TestPossible(t *testing.T) {
	refuses := failing{check: func(terms.Settings) ([]string, error) { return nil, errDown }}
	ended, end := context.WithCancel(t.Context())
	end()
	for format, want := range map[string]*Error{
		``: Invalid("", "down"),
		`,"response_format":{"type":"json_object"}`: Invalid("response_format", "response_format: down"),
	} {
		r, wrong := ReadChat([]byte(`{`+hello+format+`}`), Defaults{})
		require.Nil(t, wrong)
		assert.Equal(t, want, r.Possible(t.Context(), refuses), format)
		assert.Equal(t, errDown, r.Possible(ended, refuses), format)
	}
	r, wrong := ReadChat([]byte(`{`+hello+`,"response_format":{"type":"json_schema","json_schema":{"name":"s",`+
		`"schema":{"a":1}}}}`), Defaults{})
	require.Nil(t, wrong)
	ignores := failing{check: func(terms.Settings) ([]string, error) { return []string{"#/a"}, nil }}
	require.NoError(t, r.Possible(t.Context(), ignores))
	assert.Equal(t, []string{"response_format.json_schema.schema#/a"}, r.keywords)
}

// TestCallSchemas: the schemas of the calls that a request allows, and of their parameters those that the model
// supports.
func TestCallSchemas(t *testing.T) {
	const f, g = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":` +
		`{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{}}}}}`, `{"type":"function","strict":%v,"function":{"name":"g",` +
		`"parameters":{"enum":[1]}}}`
	call := func(name, arguments string) string {
		return `{"type":"object","properties":{"name":{"const":"` + name + `"},"arguments":` + arguments +
			`},"required":["name","arguments"],"additionalProperties":false}`
	}
	ofF := func(place string) string {
		return call("f", `{"type":"object","properties":{"x":{"$ref":"#`+place+`/properties/arguments/$defs/n"}},`+
			`"$defs":{"n":{}}}`)
	}
	all := func(enums error) failing {
		return failing{check: func(s terms.Settings) ([]string, error) {
			assert.True(t, s.Closed)
			if strings.Contains(string(s.Schema), "enum") {
				return nil, enums
			}
			return []string{"#/properties/arguments/a"}, nil
		}}
	}
	enum := call("g", `{"allOf":[{"type":"object"},{"enum":[1]}]}`)
	for choice, want := range map[string]struct{ supported, unsupported string }{ // any call, if the model supports g
		`"auto"`: {`{"anyOf":[` + ofF("/anyOf/0") + `,` + enum + `]}`,
			`{"anyOf":[` + ofF("/anyOf/0") + `,` + call("g", `{"type":"object"}`) + `]}`},
		`{"type":"function","function":{"name":"f"}}`: {ofF(""), ofF("")},
		`{"type":"function","function":{"name":"g"}}`: {enum, call("g", `{"type":"object"}`)},
	} {
		for i, enums := range []error{nil, errDown} {
			for _, strict := range []bool{false, true} {
				r, wrong := ReadChat([]byte(`{`+hello+`,"tool_choice":`+choice+`,"tools":[`+f+`,`+
					fmt.Sprintf(g, strict)+`]}`), Defaults{})
				require.Nil(t, wrong)
				got, err := r.CallSchemas(t.Context(), all(enums))
				if strict && i > 0 && !strings.Contains(choice, `"f"`) {
					assert.EqualError(t, err, "tools: parameters of g: down (as arguments are an object)")
					continue
				}
				require.NoError(t, err)
				var without []string
				if choice != `{"type":"function","function":{"name":"g"}}` {
					without = append(without, "tools[0].function.parameters#/a")
				}
				if i > 0 && !strings.Contains(choice, `"f"`) {
					without = append(without, "tools[1].function.parameters")
				}
				assert.Equal(t, without, r.keywords, choice)
				assert.Equal(t, []string{want.supported, want.unsupported}[i], string(got.One), choice)
				for name, one := range got.Each {
					assert.Equal(t, map[string]string{"f": ofF(""), "g": []string{enum,
						call("g", `{"type":"object"}`)}[i]}[name], string(one))
				}
			}
		}
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

// TestRefusedParts: each invalid part is refused by its path, the first one if there are several.
func TestRefusedParts(t *testing.T) {
	const user = `{"role":"user","content":"x"}`
	assistant := func(block string) string {
		return `"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":"y"},` + block + `]}]`
	}
	group := func(name string) string {
		all := make([]string, 65)
		for i := range all {
			all[i] = fmt.Sprintf(`{"type":"function","name":"%s%d"}`, name, i)
		}
		return `{"type":"namespace","name":"` + name + `","tools":[` + strings.Join(all, ",") + `]}`
	}
	for _, c := range []struct{ api, body, param, code string }{
		{"messages", `"messages":[],"system":"s"`, "messages", "missing_required_parameter"},
		{"messages", `"messages":[{"role":"robot","content":"x"}]`, "messages[0].role", "invalid_value"},
		{"messages", `"messages":[{"role":"user"}]`, "messages[0].content", "missing_required_parameter"},
		{"messages", assistant(`{"type":"image"}`), "messages[1].content[1].type", "invalid_value"},
		{"messages", assistant(`{"type":"tool_use","id":"c","name":"f"},{"type":"tool_result","tool_use_id":"c"}`),
			"messages[1].content[2].type", "invalid_value"},
		{"messages", `"messages":[` + user + `],"n":2`, "n", "unsupported_parameter"},
		{"messages", `"messages":[` + user + `],"tools":[{"name":"f"}],"tool_choice":{"type":"some"}`,
			"tool_choice.type", "invalid_value"},
		{"messages", assistant(`{"type":"text","text":"z"}`) + `,"output_config":{"format":{"type":"json_object"}}`,
			"messages[1]", "invalid_value"},
		{"messages", assistant(`{"type":"text","text":"z"}`) + `,"thinking":{"type":"enabled","budget_tokens":9}`,
			"messages[1]", "invalid_value"},
		{"chat", `"messages":[{"role":"user","content":7}],"best_of":2`, "messages[0].content", "invalid_value"},
		{"chat", `"messages":[` + user + `],"logit_bias":{"1":-100.5}`, "logit_bias", "invalid_value"},
		{"chat", `"messages":[` + user + `],"temperature":-1,"tools":[{"type":"function","function":{"name":"f"}}],` +
			`"tool_choice":"required","response_format":{"type":"json_object"}`, "temperature", "invalid_value"},
		{"responses", `"input":[]`, "input", "missing_required_parameter"},
		{"responses", `"input":"x","include":7`, "include", "invalid_value"},
		{"responses", `"input":"x","tools":[` + group("a") + `,` + group("b") + `]`, "tools", "invalid_value"},
	} {
		t.Run(c.api+" "+c.param, func(t *testing.T) {
			_, wrong := read(c.api, `{`+c.body+`}`, Defaults{Thinks: strings.Contains(c.body, "budget_tokens")})
			if assert.NotNil(t, wrong, c.body) {
				assert.Equal(t, c.param, wrong.Param, c.body)
				assert.Equal(t, c.code, wrong.Code, c.body)
			}
		})
	}
}

// TestTurnsOfMessages: the parts of turns in Anthropic's form that have a place in a prompt, and the beginning of the
// answer.
func TestTurnsOfMessages(t *testing.T) {
	const user = `{"role":"user","content":"u"}`
	const call = `{"type":"tool_use","id":"c","name":"f"}`
	for _, c := range []struct {
		name, turns, rest string
		thinks            bool
		want              string // role, thought, text and calls of each turn, and the beginning of the answer
	}{
		{"a question", user, ``, false, "user//u/0 "},
		{"a system message", `{"role":"system","content":"s"},` + user, ``, false, "system//s/0 user//u/0 "},
		{"a beginning", user + `,{"role":"assistant","content":"a"}`, ``, false, "user//u/0 a"},
		{"an empty beginning", user + `,{"role":"assistant","content":""}`, `,"thinking":{"type":"adaptive"}`, true,
			"user//u/0 "},
		{"a beginning without thoughts", user + `,{"role":"assistant","content":"a"}`,
			`,"thinking":{"type":"disabled"}`, true, "user//u/0 a"},
		{"an empty beginning of a format", user + `,{"role":"assistant","content":""}`,
			`,"output_config":{"format":{"type":"json_object"}}`, false, "user//u/0 "},
		{"a call", user + `,{"role":"assistant","content":[{"type":"text","text":"a"},` + call + `]}`, ``, false,
			"user//u/0 assistant//a/1 "},
		{"a thought", user + `,{"role":"assistant","content":[{"type":"text","text":"a"},` +
			`{"type":"thinking","thinking":"t"}]},` + user, ``, false, "user//u/0 assistant/t/a/0 user//u/0 "},
		{"a hidden thought", user + `,{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]},` + user,
			``, false, "user//u/0 user//u/0 "},
		{"a choice of no tools", user, `,"tool_choice":{"type":"auto"}`, false, "user//u/0 "},
		{"tools that are not wanted", user, `,"tools":[{"name":"f"}],"tool_choice":{"type":"none"}`, false,
			"user//u/0 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, wrong := ReadMessages([]byte(`{"messages":[`+c.turns+`]`+c.rest+`}`), Defaults{Thinks: c.thinks})
			require.Nil(t, wrong)
			got := ""
			for _, m := range r.Talk.Messages {
				got += fmt.Sprintf("%s/%s/%s/%d ", m.Role, m.Thought, m.Content, len(m.Calls))
			}
			assert.Equal(t, c.want, got+r.prefix)
		})
	}
}

// TestMessagesTaken: what a request of Anthropic's API asks.
func TestMessagesTaken(t *testing.T) {
	r, wrong := ReadMessages([]byte(`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"u"},`+
		`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f"},`+
		`{"type":"tool_use","id":"d","name":"g","input":{"a":1}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"d","content":"r"},`+
		`{"type":"text","text":"v"}]}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},`+
		`"allowed_callers":["direct"]}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`), Defaults{})
	require.Nil(t, wrong)
	assert.Equal(t, []pilotfish.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}, {
		Role: "assistant",
		Calls: []pilotfish.ToolCall{{ID: "c", Name: "f", Arguments: []byte("{}")},
			{ID: "d", Name: "g", Arguments: []byte(`{"a":1}`)}}},
		{Role: "tool", Content: "r"}, {Role: "user", Content: "v"}}, r.Talk.Messages)
	require.Len(t, r.Talk.Tools, 1)
	assert.Equal(t, `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}`,
		string(r.Talk.Tools[0]))
	assert.Equal(t, "required", r.Choice.Mode)
	assert.True(t, r.Single)
}

// remembers is a server that keeps an answer.
type remembers struct{}

func (remembers) Talk(string) ([]pilotfish.Message, bool) {
	return []pilotfish.Message{{Role: "user", Content: "u"},
		{Role: "assistant", Calls: []pilotfish.ToolCall{{ID: "c", Name: "f"}}}}, true
}

func (remembers) Item(id string) (pilotfish.Message, bool) {
	return pilotfish.Message{Role: "assistant", Calls: []pilotfish.ToolCall{{ID: "d", Name: "f"}}}, id == "i"
}

// TestContinued: a request of OpenAI's newer API continues an answer.
func TestContinued(t *testing.T) {
	before, _ := remembers{}.Talk("")
	r, wrong := ReadResponse([]byte(`{"instructions":"s","previous_response_id":"p","metadata":{"a":"b"},`+
		`"input":[{"type":"function_call_output","call_id":"c","output":"r"}]}`), Defaults{}, remembers{})
	require.Nil(t, wrong)
	assert.Equal(t, []pilotfish.Message{{Role: "system", Content: "s"}, before[0], before[1],
		{Role: "tool", Content: "r"}}, r.Talk.Messages)
	assert.Equal(t, 1, r.From)
	assert.Equal(t, json.RawMessage(`{"a":"b"}`), r.Echo["metadata"])
	assert.Nil(t, r.Echo["user"])
	_, wrong = ReadResponse([]byte(`{"previous_response_id":"p","input":[]}`), Defaults{}, remembers{})
	require.NotNil(t, wrong)
	assert.Equal(t, "input", wrong.Param)

	const reference = `{"input":[{"type":"item_reference","id":%q},` +
		`{"type":"function_call_output","call_id":"d","output":"r"}]}`
	r, wrong = ReadResponse(fmt.Appendf(nil, reference, "i"), Defaults{}, remembers{})
	require.Nil(t, wrong, "the call of an item that is kept can be answered")
	item, _ := remembers{}.Item("i")
	assert.Equal(t, []pilotfish.Message{item, {Role: "tool", Content: "r"}}, r.Talk.Messages)
	_, wrong = ReadResponse(fmt.Appendf(nil, reference, "j"), Defaults{}, remembers{})
	require.NotNil(t, wrong)
	assert.Equal(t, "input[0].id", wrong.Param)
}

// TestThoughtNames: what an assistant thought has two names, of which clients send both, with one of them empty or in
// another form.
func TestThoughtNames(t *testing.T) {
	for fields, want := range map[string]string{`"reasoning":"a"`: "a", `"reasoning_content":"b"`: "b",
		`"reasoning":"a","reasoning_content":""`: "a", `"reasoning":"a","reasoning_content":["b"]`: "a",
		`"reasoning":{"b":1},"reasoning_content":null`: ""} {
		r, wrong := ReadChat([]byte(`{"messages":[{"role":"assistant","content":"x",`+fields+`}]}`), Defaults{})
		require.Nil(t, wrong)
		assert.Equal(t, want, r.Talk.Messages[0].Thought, fields)
	}
}

// TestToolNames: the characters and the length of a function's name.
func TestToolNames(t *testing.T) {
	long := strings.Repeat("a", 128)
	for name, want := range map[string]bool{"a": true, "aZ_09.-": true, long: true, long + "a": false, "": false,
		"a b": false, "é": false, "a\n": false} {
		assert.Equal(t, want, answer.IsToolName(name), name)
	}
}
