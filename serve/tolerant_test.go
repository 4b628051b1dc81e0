package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Paths of the APIs, and the beginning of a chat.
const (
	chatPath, textPath = "/v1/chat/completions", "/v1/completions"
	chatHi             = `"messages":[{"role":"user","content":"hi"}]`
)

// rows returns the rows of a table in a file: lines with names and values, and a blank line after each row.
func rows(t testing.TB, file string) (all []map[string]string) {
	b, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		row := map[string]string{}
		for line := range strings.Lines(part) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			require.True(t, ok, line)
			row[name] = value
		}
		all = append(all, row)
	}
	return all
}

// TestFieldsOfClients: each field of a request is obeyed, or ignored and named, or refused because the answer would
// have another meaning. The table has the names that the newest clients of OpenAI and Anthropic declare, by object; @
// is where the field stands. A name that none of them has is ignored in each object.
func TestFieldsOfClients(t *testing.T) {
	s := newTestServer(t, newToolModel("", `{"name": "f", "arguments": {}}`), nil)
	values := strings.Fields(`"x" 7 true {"a":{"b":1}} ["a"] [{"a":1}] null false 0 "" [] {}`)
	for _, o := range rows(t, "fields.txt") {
		ask := func(name, value string) (status int, wrong any, ignored string) {
			w := ask(t, s, o["path"], `{`+strings.Replace(o["body"], "@", fmt.Sprintf("%q:%s", name, value), 1)+`}`)
			if w.Code != http.StatusOK && o["path"] == messages { // its errors begin with the path
				say := at(object(t, w.Body.Bytes()), "error", "message").(string)
				wrong, _, _ = strings.Cut(say, ": ")
			} else if w.Code != http.StatusOK {
				wrong = at(object(t, w.Body.Bytes()), "error", "param")
			}
			return w.Code, wrong, w.Header().Get(ignoredHeader)
		}
		full := func(name string) string { return strings.TrimPrefix(o["at"]+"."+name, ".") }
		for i, value := range values {
			empty := i >= 6
			for _, name := range strings.Fields(o["ignored"] + " of_2030") {
				status, wrong, ignored := ask(name, value)
				require.Equal(t, http.StatusOK, status, "%s %s: %s: %v", o["path"], full(name), value, wrong)
				if !empty {
					require.Contains(t, strings.Split(ignored, ", "), full(name), "%s: %s", o["path"], value)
				}
			}
			for _, name := range strings.Fields(o["refused"]) {
				status, wrong, _ := ask(name, value)
				if empty {
					require.Equal(t, http.StatusOK, status, "%s %s: %s: %v", o["path"], full(name), value, wrong)
				} else {
					require.Equal(t, http.StatusBadRequest, status, "%s %s: %s", o["path"], full(name), value)
					require.Equal(t, full(name), wrong, value)
				}
			}
			for _, name := range strings.Fields(o["obeyed"]) { // an unsuitable value is refused by name
				status, wrong, ignored := ask(name, value)
				require.NotContains(t, strings.Split(ignored, ", "), full(name), "%s: %s", o["path"], value)
				if status != http.StatusOK && status != http.StatusNotFound {
					require.True(t, strings.HasPrefix(fmt.Sprint(wrong), full(name)), "%s: %v", full(name), wrong)
				}
			}
		}
	}
}

// TestTolerance: what changes nothing is accepted, in the form in which clients send it.
func TestTolerance(t *testing.T) {
	for _, c := range rows(t, "tolerance.txt") {
		m := &fakeModel{}
		w := ask(t, newTestServer(t, m, nil), c["path"], "{"+c["body"]+"}")
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", c["body"], w.Body)
		assert.Equal(t, []string{strings.ReplaceAll(c["prompt"], `\n`, "\n")}, m.prompts, c["body"])
		assert.Equal(t, c["ignored"], w.Header().Get(ignoredHeader), c["body"])
	}
}

// TestThreads: a conversation that would continue one of a server is refused with the code on which Anthropic's clients
// send all of it.
func TestThreads(t *testing.T) {
	w := ask(t, newTestServer(t, &fakeModel{}, nil), messages,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}],`+
			`"thread":{"type":"continue","previous_message_id":"msg_1"}}`)
	require.Equal(t, http.StatusNotFound, w.Code)
	assert.Equal(t, map[string]any{"error_code": "thread_not_found"},
		at(object(t, w.Body.Bytes()), "error", "details"))
}

// TestOtherFormats: the schema of an answer may stand where other servers expect it. It has no effect on an answer that
// must be a call.
func TestOtherFormats(t *testing.T) {
	const schema = `{"type":"object"}`
	for _, c := range []struct {
		path, body string
		want       terms.Settings
		ignored    string
	}{
		{chatPath, `"response_format":{"type":"json_object","schema":` + schema + `}`,
			terms.Settings{Schema: []byte(schema)}, ""},
		{chatPath, `"response_format":{"type":"json_schema","schema":` + schema + `,"strict":true}`,
			terms.Settings{Schema: []byte(schema), Closed: true}, ""},
		{textPath, `"json_schema":` + schema, terms.Settings{Schema: []byte(schema), MaxTokens: 16}, ""},
		{chatPath, `"guided_json":` + schema, terms.Settings{Schema: []byte(schema)}, ""},
		{chatPath, `"guided_json":"{\"type\":\"object\"}"`, terms.Settings{Schema: []byte(schema)}, ""},
		{chatPath, `"structured_outputs":{"json":` + schema + `,"whitespace_pattern":"x"}`,
			terms.Settings{Schema: []byte(schema)}, "structured_outputs.whitespace_pattern"},
		{chatPath, `"format":"json"`, terms.Settings{JSON: true}, ""},
		{chatPath, `"response_format":{"type":"json_object"},"json_schema":` + schema, terms.Settings{JSON: true},
			"json_schema"},
		{responses, `"text":{"format":{"type":"json_schema","name":"n","schema":{}}}`,
			terms.Settings{Schema: []byte("{}")}, ""},
	} {
		t.Run(c.path+" "+c.body, func(t *testing.T) {
			m := &fakeModel{answer: func(string, terms.Settings) string { return "{}" }}
			prompt := map[string]string{chatPath: chatHi, textPath: `"prompt":"x"`, responses: `"input":"x"`}[c.path]
			w := ask(t, newTestServer(t, m, nil), c.path, `{"seed":0,`+prompt+","+c.body+"}")
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", c.body, w.Body)
			c.want.Temperature, c.want.TopP = 1, 1
			assert.Equal(t, []terms.Settings{c.want}, m.asked, c.body)
			assert.Equal(t, c.ignored, w.Header().Get(ignoredHeader), c.body)
		})
	}
	for path, body := range map[string]string{
		responses: `"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":"required",` +
			`"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":` + schema + `}}`,
		chatPath: chatHi + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function",` +
			`"function":{"name":"f"}},"response_format":{"type":"json_object"}`,
	} {
		m := newToolModel("", `{"name": "f", "arguments": {}}`)
		w := ask(t, newTestServer(t, m, nil), path, "{"+body+"}")
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", body, w.Body)
		assert.Contains(t, string(m.asked[0].Schema), `"const":"f"`)
		assert.Contains(t, w.Header().Get(ignoredHeader), "format")
		assert.True(t, m.asked[0].Closed, "of calls")
	}
}

// TestFunctions: tools in the older form are answered in that form, with one call at most.
func TestFunctions(t *testing.T) {
	const body = `{` + chatHi + `,"functions":[{"name":"f","parameters":{"type":"object"}},{"name":"g"}],` +
		`"function_call":{"name":"f"}`
	s := newTestServer(t, newToolModel("", `{"name": "f", "arguments": {"a":1}}`), nil)
	o := object(t, ask(t, s, chatPath, body+`}`).Body.Bytes())
	want := map[string]any{"name": "f", "arguments": `{"a":1}`}
	assert.Equal(t, want, at(o, "choices", 0, "message", "function_call"))
	assert.Nil(t, at(o, "choices", 0, "message", "content"))
	assert.Equal(t, "function_call", at(o, "choices", 0, "finish_reason"))
	all, done := events(t, ask(t, s, chatPath, body+`,"stream":true}`).Body.Bytes())
	require.True(t, done)
	got := map[string]any{"name": "", "arguments": ""}
	for _, e := range all {
		for key := range got {
			part, _ := at(e, "choices", 0, "delta", "function_call", key).(string)
			got[key] = got[key].(string) + part
		}
	}
	assert.Equal(t, want, got)
	assert.Equal(t, "function_call", at(all[len(all)-1], "choices", 0, "finish_reason"))
	assert.Equal(t, http.StatusBadRequest, ask(t, s, chatPath, `{`+chatHi+`,"function_call":{"name":"f"}}`).Code)
	const call = `{"name": "f", "arguments": {}}`
	s = newTestServer(t, newToolModel("", call, "", call, ""), nil)
	w := ask(t, s, chatPath, `{`+chatHi+`,"functions":[{"name":"f"}],"parallel_tool_calls":true}`)
	o = object(t, w.Body.Bytes())
	assert.EqualValues(t, len(callMark+"\n"+call), at(o, "usage", "completion_tokens"), "one call")
	o = object(t, ask(t, s, responses, `{"input":"x","background":true,"truncation":"auto","user":"u"}`).Body.Bytes())
	assert.Equal(t, false, o["background"], "what is so")
	assert.Equal(t, "disabled", o["truncation"], "what is so")
	assert.Equal(t, "u", o["user"])
}

// TestIgnoredNamed: a field without effect is in the header of each response, and once in the log for a client. It is
// counted.
func TestIgnoredNamed(t *testing.T) {
	var log bytes.Buffer
	var counted []int
	s := newTestServer(t, &fakeModel{}, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Events = func(e Event) { counted = append(counted, e.Ignored) }
	})
	named := func(path, body string, header ...string) (header1 string, lines int) {
		log.Reset()
		w := ask(t, s, path, body, header...)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Header().Get(ignoredHeader), strings.Count(log.String(), "msg=ignored")
	}
	const body = `{"messages":[{"role":"user","content":"a","x":1},{"role":"user","content":"b","x":1}],"y":2,"z":0}`
	for i, agent := range []string{"a/1", "a/1", "b/2"} {
		for _, path := range []string{chatPath, messages, messages + "/count_tokens"} {
			header, lines := named(path, body, "User-Agent", agent)
			assert.Equal(t, "messages[0].x, y", header)
			assert.Equal(t, i != 1 && path == chatPath, lines == 1, "%s %s: %s", path, agent, log.String())
		}
	}
	header, _ := named(chatPath, `{`+chatHi+`}`)
	assert.Empty(t, header)
	assert.Equal(t, []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 0}, counted)
	header, _ = named(chatPath, `{`+chatHi+`,"secret\r\nX: é":1,"stream":true}`)
	assert.Equal(t, "(a name of 13 bytes)", header)
	many := new(strings.Builder)
	for i := range 200 {
		fmt.Fprintf(many, `,"x%d":1`, i)
	}
	header, lines := named(textPath, `{"prompt":"x"`+many.String()+`}`)
	assert.Regexp(t, `^x0, x1, x10, .*, and 68 more$`, header)
	assert.Equal(t, maxHeader, strings.Count(header, ", "))
	assert.Equal(t, 1, lines, "a line for a request")
	for i := range 100 { // a client with new names cannot fill the log
		_, lines := named(textPath, fmt.Sprintf(`{"prompt":"x","y%d":1}`, i))
		assert.True(t, lines == 1 || i > 15)
	}
	assert.Less(t, strings.Count(log.String(), "msg=ignored"), 30)
}

// takingTurns is a model with a template that refuses two turns of the user in a row.
type takingTurns struct{ *fakeModel }

func (m takingTurns) ChatTokens(turns []pilotfish.Message, tools [][]byte, values ...pilotfish.TemplateValue) ([]int32,
	error) {
	for i := range turns[1:] {
		if turns[i].Role == turns[i+1].Role {
			return nil, fmt.Errorf("%w: roles must alternate", pilotfish.ErrChat)
		}
	}
	return m.fakeModel.ChatTokens(turns, tools, values...)
}

// TestTwoTurns: two turns of the user in a row are one turn, if the template does not accept them otherwise.
func TestTwoTurns(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant",` +
		`"content":"c"},{"role":"user","content":"d"}]}`
	plain, strict := &fakeModel{}, takingTurns{&fakeModel{}}
	for _, path := range []string{chatPath, messages} {
		require.Equal(t, http.StatusOK, ask(t, newTestServer(t, plain, nil), path, body).Code)
		require.Equal(t, http.StatusOK, ask(t, newTestServer(t, strict, nil), path, body).Code)
	}
	assert.Equal(t, "user:a\nuser:b\nassistant:c\nuser:d\nassistant:", plain.prompts[0])
	assert.Equal(t, []string{"user:a\n\nb\nassistant:c\nuser:d\nassistant:"}, strict.prompts[:1])
	w := ask(t, newTestServer(t, strict, nil), chatPath, `{"messages":[{"role":"assistant","content":"a"},{"role":`+
		`"assistant","content":"b"}]}`)
	assert.Contains(t, w.Body.String(), "roles must alternate")
}
