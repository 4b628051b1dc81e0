package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const responses, messages = "/v1/responses", "/v1/messages"

// namedEvents returns the events of a stream. The name of each is its type.
func namedEvents(t testing.TB, body []byte) (all []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		if strings.HasPrefix(part, ":") {
			continue
		}
		name, data, ok := strings.Cut(part, "\ndata: ")
		require.True(t, ok, part)
		e := object(t, []byte(data))
		require.Equal(t, "event: "+e["type"].(string), name)
		all = append(all, e)
	}
	return all
}

const schemaOfX = `{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}`

// sameRequests holds requests that mean the same in each API.
var sameRequests = map[string]struct{ chat, response, message string }{
	"text": {
		`"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"max_tokens":5,"stop":["x"]`,
		`"instructions":"s","input":"u","max_output_tokens":5,"stop":["x"]`,
		`"system":"s","messages":[{"role":"user","content":"u"}],"max_tokens":5,"stop_sequences":["x"]`,
	},
	"settings": {
		`"messages":[{"role":"user","content":"u"}],"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.1`,
		`"input":"u","temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.1`,
		`"messages":[{"role":"user","content":"u"}],"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.1`,
	},
	"parts": {
		`"messages":[{"role":"system","content":"st"},{"role":"user","content":"ab"},{"role":"assistant",` +
			`"content":"c"},{"role":"user","content":"d"}]`,
		`"input":[{"role":"developer","content":"st"},{"type":"message","role":"user","content":[` +
			`{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},{"type":"reasoning","id":"r",` +
			`"summary":[]},{"type":"message","id":"m","status":"completed","role":"assistant",` +
			`"phase":"commentary","content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},` +
			`{"role":"user","content":"d"}]`,
		`"system":[{"type":"text","text":"s"},{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}],` +
			`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},` +
			`{"role":"assistant","content":[{"type":"redacted_thinking","data":"g"},` +
			`{"type":"text","text":"c","citations":null}]},{"role":"user","content":"d"}]`,
	},
	"calls": {
		`"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a","tool_calls":[{"id":"1",` +
			`"type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"2","type":"function",` +
			`"function":{"name":"f","arguments":"{\"x\":2}"}}]},{"role":"tool","tool_call_id":"1","content":"r"},` +
			`{"role":"tool","tool_call_id":"2","content":"s"},{"role":"user","content":"v"}],` +
			`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":` + schemaOfX + `}}]`,
		`"input":[{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"type":"function_call",` +
			`"id":"fc","call_id":"1","name":"f","arguments":"{\"x\":1}","status":"completed"},` +
			`{"type":"function_call","call_id":"2","name":"f","arguments":"{\"x\":2}"},{"type":` +
			`"function_call_output","call_id":"1","output":"r"},{"type":"function_call_output","call_id":"2",` +
			`"output":[{"type":"input_text","text":"s"}]},{"role":"user","content":"v"}],` +
			`"tools":[{"type":"function","name":"f","description":"d","parameters":` + schemaOfX + `}]`,
		`"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"text","text":"a"},` +
			`{"type":"tool_use","id":"1","name":"f","input":{"x":1}},{"type":"tool_use","id":"2","name":"f",` +
			`"input":{"x":2},"caller":{"type":"direct"}}]},{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"1","content":"r"},{"type":"tool_result","tool_use_id":"2","is_error":true,"content":` +
			`[{"type":"text","text":"s"}]},{"type":"text","text":"v"}]}],` +
			`"tools":[{"name":"f","description":"d","input_schema":` + schemaOfX + `}]`,
	},
	"required": {
		`"messages":[{"role":"user","content":"u"}],"tool_choice":{"type":"function","function":{"name":"g"}},` +
			`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`,
		`"input":"u","tool_choice":{"type":"function","name":"g"},` +
			`"tools":[{"type":"function","name":"f"},{"type":"namespace","name":"n","tools":[` +
			`{"type":"function","name":"g"}]}]`,
		`"messages":[{"role":"user","content":"u"}],"tool_choice":{"type":"tool","name":"g"},` +
			`"tools":[{"name":"f"},{"type":"custom","name":"g"}]`,
	},
	"none": {
		`"messages":[{"role":"user","content":"u"}]`,
		`"input":"u","tool_choice":"none","tools":[{"type":"function","name":"f"}]`,
		`"messages":[{"role":"user","content":"u"}],"tool_choice":{"type":"none"},"tools":[{"name":"f"}]`,
	},
	"format": {
		`"messages":[{"role":"user","content":"u"}],"response_format":{"type":"json_schema","json_schema":` +
			`{"name":"n","strict":true,"schema":` + schemaOfX + `}}`,
		`"input":"u","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":` + schemaOfX + `}}`,
		`"messages":[{"role":"user","content":"u"}],"output_config":{"effort":"high","format":{"type":` +
			`"json_schema","strict":true,"schema":` + schemaOfX + `}}`,
	},
}

// TestDoorsAskTheSame: requests that mean the same give the same prompt and settings in each API.
func TestDoorsAskTheSame(t *testing.T) {
	for name, c := range sameRequests {
		t.Run(name, func(t *testing.T) {
			m := &fakeModel{answer: func(_ string, s terms.Settings) string {
				if strings.Contains(string(s.Schema), `"arguments"`) {
					return `{"name":"g","arguments":{}}`
				}
				return "{}"
			}}
			s := newTestServer(t, m, nil)
			for path, body := range map[string]string{
				"/v1/chat/completions": c.chat, responses: c.response, messages: c.message} {
				w := ask(t, s, path, `{"seed":7,`+body+`}`)
				require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
			}
			require.Len(t, m.prompts, 3)
			for i := range m.prompts {
				assert.Equal(t, m.prompts[0], m.prompts[i])
				assert.Equal(t, m.asked[0], m.asked[i])
			}
		})
	}
}

// doorAnswer is an answer as a client sees it, whole or streamed: "text" or "NAME(ARGUMENTS)" for each part, and why it
// ended.
type doorAnswer struct {
	parts []string
	end   string
}

// ofResponse parses a complete answer of /v1/responses.
func ofResponse(v any) (a doorAnswer) {
	for _, o := range at(v, "output").([]any) {
		if at(o, "type") == "message" {
			a.parts = append(a.parts, at(o, "content", 0, "text").(string))
		} else {
			a.parts = append(a.parts, at(o, "name").(string)+"("+at(o, "arguments").(string)+")")
		}
		a.end = at(o, "status").(string)
	}
	if why := at(v, "incomplete_details", "reason"); why != nil {
		a.end = why.(string) + " " + a.end
	}
	a.end = at(v, "status").(string) + " " + a.end
	return a
}

// streamedResponse assembles a stream of /v1/responses as clients do, and checks the order of its events.
func streamedResponse(t testing.TB, body []byte) (a doorAnswer, last any) {
	t.Helper()
	all := namedEvents(t, body)
	require.Equal(t, "response.created", at(all[0], "type"))
	require.Equal(t, "response.in_progress", at(all[1], "type"))
	open := ""
	for i, e := range all {
		require.EqualValues(t, i, e["sequence_number"])
		n := len(a.parts) - 1
		if index, ok := e["output_index"].(float64); ok && e["type"] != "response.output_item.added" {
			require.EqualValues(t, n, index)
			require.NotEmpty(t, open)
			if id, ok := e["item_id"]; ok {
				require.Equal(t, open, id)
			}
		}
		switch e["type"] {
		case "response.output_item.added":
			require.Empty(t, open, "one part at a time")
			open = at(e, "item", "id").(string)
			require.EqualValues(t, n+1, e["output_index"])
			name, _ := at(e, "item", "name").(string)
			if name != "" {
				require.Empty(t, at(e, "item", "arguments"))
				name += "("
			}
			a.parts = append(a.parts, name)
		case "response.output_text.delta", "response.function_call_arguments.delta":
			a.parts[n] += e["delta"].(string)
		case "response.output_text.done":
			require.Equal(t, a.parts[n], e["text"])
		case "response.content_part.done":
			require.Equal(t, a.parts[n], at(e, "part", "text"))
		case "response.function_call_arguments.done":
			a.parts[n] += ")"
			require.Equal(t, a.parts[n], e["name"].(string)+"("+e["arguments"].(string)+")")
		case "response.output_item.done":
			require.Equal(t, open, at(e, "item", "id"))
			open = ""
		}
	}
	last = all[len(all)-1]
	require.Empty(t, open)
	whole := at(last, "response")
	require.Equal(t, "response."+at(whole, "status").(string), at(last, "type"))
	require.Equal(t, a.parts, ofResponse(whole).parts)
	return ofResponse(whole), whole
}

// ofMessage parses a complete answer of /v1/messages.
func ofMessage(t testing.TB, v any) (a doorAnswer) {
	for _, o := range at(v, "content").([]any) {
		if at(o, "type") == "text" {
			a.parts = append(a.parts, at(o, "text").(string))
			continue
		}
		b, err := json.Marshal(at(o, "input"))
		require.NoError(t, err)
		a.parts = append(a.parts, at(o, "name").(string)+"("+string(b)+")")
	}
	a.end = fmt.Sprint(at(v, "stop_reason"), at(v, "stop_sequence"))
	return a
}

// streamedMessage assembles a stream of /v1/messages as clients do, and checks the order of its events. A call with an
// input that is not an object is left out.
func streamedMessage(t testing.TB, body []byte) (a doorAnswer, usage any) {
	t.Helper()
	all := namedEvents(t, body)
	require.Equal(t, "message_start", at(all[0], "type"))
	require.Empty(t, at(all[0], "message", "content"))
	require.Equal(t, "message_delta", at(all[len(all)-2], "type"))
	require.Equal(t, "message_stop", at(all[len(all)-1], "type"))
	open, index, name, text := false, -1, "", ""
	for _, e := range all[1 : len(all)-2] {
		switch e["type"] {
		case "content_block_start":
			require.False(t, open, "one part at a time")
			open, text = true, ""
			index++
			name, _ = at(e, "content_block", "name").(string)
			if name != "" {
				require.Empty(t, at(e, "content_block", "input"))
			}
		case "content_block_delta":
			require.True(t, open)
			part, ok := at(e, "delta", "text").(string)
			if name != "" {
				part, ok = at(e, "delta", "partial_json").(string)
			}
			require.True(t, ok)
			text += part
		case "content_block_stop":
			open = false
			var input map[string]any
			if name == "" {
				a.parts = append(a.parts, text)
			} else if json.Unmarshal([]byte(text), &input) == nil {
				b, err := json.Marshal(input)
				require.NoError(t, err)
				a.parts = append(a.parts, name+"("+string(b)+")")
			}
		}
		require.EqualValues(t, index, e["index"])
	}
	require.False(t, open)
	end := all[len(all)-2]
	a.end = fmt.Sprint(at(end, "delta", "stop_reason"), at(end, "delta", "stop_sequence"))
	return a, at(end, "usage")
}

// TestDoorsStream: a stream gives the same answer as a complete response, wherever the limit cuts it. A cut answer says
// so in the words of the API, and nothing is closed that the model did not close.
func TestDoorsStream(t *testing.T) {
	const f, input = `"tools":[{"type":"function","name":"f"}]`, `"tools":[{"name":"f"}]`
	steps := []string{"Sure. ", `{"name": "f", "arguments": {"x": [1, "é"]}}`, "\n", `{"name": "f", "arguments": {}}`,
		"done"}
	whole := strings.Join(steps, "")
	ends := map[string]bool{}
	for limit := 1; limit < len(whole)+4*len(callMark+callOver); limit++ {
		s := newTestServer(t, newToolModel(steps...), nil)
		body := fmt.Sprintf(`{"input":"u","seed":7,%s,"max_output_tokens":%d`, f, limit)
		r := object(t, ask(t, s, responses, body+`}`).Body.Bytes())
		got, last := streamedResponse(t, ask(t, s, responses, body+`,"stream":true}`).Body.Bytes())
		assert.Equal(t, ofResponse(r), got, limit)
		assert.Equal(t, at(r, "usage", "output_tokens"), at(last, "usage", "output_tokens"))
		for i, part := range got.parts {
			name, arguments, _ := strings.Cut(strings.TrimSuffix(part, ")"), "(")
			if name == "f" && (i < len(got.parts)-1 || strings.HasSuffix(got.end, completed)) {
				assert.Contains(t, []string{`{"x": [1, "é"]}`, `{}`}, arguments, limit)
			}
		}
		ends[got.end] = true

		body = fmt.Sprintf(`{%s,%s,"max_tokens":%d`, hello, input, limit)
		m := object(t, ask(t, s, messages, body+`}`).Body.Bytes())
		streamed, usage := streamedMessage(t, ask(t, s, messages, body+`,"stream":true}`).Body.Bytes())
		assert.Equal(t, ofMessage(t, m), streamed, limit)
		assert.Equal(t, at(m, "usage", "output_tokens"), at(usage, "output_tokens"))
		assert.Equal(t, got.end[:3] == "inc", strings.HasPrefix(streamed.end, "max_tokens"), limit)
		ends[streamed.end] = true
	}
	assert.Equal(t, map[string]bool{"completed completed": true, "incomplete max_output_tokens incomplete": true,
		"incomplete max_output_tokens completed": true, "max_tokens<nil>": true, "tool_use<nil>": true}, ends)
}

// TestDoorsShortened: an answer says if a value was shortened, and only then, whole and at the end of a stream.
func TestDoorsShortened(t *testing.T) {
	for said, want := range map[string]any{"{}": true, "[]": nil} {
		s := newTestServer(t, &fakeModel{answer: func(string, terms.Settings) string { return said }}, nil)
		const own = `"pilotfish":{"complete":true}`
		format := `{"format":{"type":"json_object"}}`
		response := `{"input":"u","text":` + format + `,` + own
		message := `{` + hello + `,"output_config":` + format + `,` + own
		whole := []any{any(object(t, ask(t, s, responses, response+`}`).Body.Bytes())),
			any(object(t, ask(t, s, messages, message+`}`).Body.Bytes()))}
		_, last := streamedResponse(t, ask(t, s, responses, response+`,"stream":true}`).Body.Bytes())
		events := namedEvents(t, ask(t, s, messages, message+`,"stream":true}`).Body.Bytes())
		for _, v := range append(whole, last, any(events[len(events)-2])) {
			assert.Equal(t, want, at(v, "pilotfish", "shortened"), "%v", v)
			assert.NotNil(t, at(v, "pilotfish", "receipt"))
		}
	}
}

// TestResponseRepeats: an answer repeats the fields of its request, or what stands for those that are absent.
func TestResponseRepeats(t *testing.T) {
	const usual = `{"background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,` +
		`"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,` +
		`"reasoning":{"effort":null,"summary":null},"safety_identifier":null,` +
		`"service_tier":"default","text":{"format":{"type":"text"}},` +
		`"tool_choice":"auto","tools":[],"top_logprobs":0,"truncation":"disabled","user":null,"temperature":0.75,` +
		`"top_p":1,"store":true}`
	const given = `{"background":false,"instructions":"i","max_output_tokens":9,"max_tool_calls":3,` +
		`"metadata":{"a":"b"},"parallel_tool_calls":false,"prompt_cache_key":"k","reasoning":{"effort":"none"},` +
		`"safety_identifier":"s","text":{"verbosity":"medium"},"tool_choice":"none",` +
		`"tools":[{"type":"function","name":"f"}],"top_logprobs":2,"truncation":"disabled",` +
		`"user":"u","temperature":0.5,"top_p":0.25,"store":false}`
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Temperature = 0.75 })
	for body, want := range map[string]string{`{`: usual, given[:len(given)-1] + `,"service_tier":"flex",`: given} {
		w := ask(t, s, responses, body+`"input":"u"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		got := object(t, w.Body.Bytes())
		for name, value := range object(t, []byte(want)) {
			assert.Equal(t, value, got[name], name)
		}
		assert.Equal(t, "default", got["service_tier"])
	}
}

// TestDoorsEmpty: an answer without tokens has one empty text.
func TestDoorsEmpty(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(string, terms.Settings) string { return "" }}, nil)
	a, _ := streamedResponse(t, ask(t, s, responses, `{"input":"u","stream":true}`).Body.Bytes())
	assert.Equal(t, doorAnswer{[]string{""}, "completed completed"}, a)
	assert.Equal(t, a, ofResponse(object(t, ask(t, s, responses, `{"input":"u"}`).Body.Bytes())))
	a, _ = streamedMessage(t, ask(t, s, messages, `{`+hello+`,"stream":true}`).Body.Bytes())
	assert.Equal(t, doorAnswer{[]string{""}, "end_turn<nil>"}, a)
	assert.Equal(t, a, ofMessage(t, object(t, ask(t, s, messages, `{`+hello+`}`).Body.Bytes())))
}

// chatless is a model without a chat template.
type chatless struct{ *fakeModel }

func (chatless) ChatTokens([]pilotfish.Message, [][]byte, ...pilotfish.TemplateValue) ([]int32, error) {
	return nil, pilotfish.ErrUnsupported
}

// TestDoorsWithoutChat: a model without a chat template answers no chats, and counts no tokens of them.
func TestDoorsWithoutChat(t *testing.T) {
	for path, body := range map[string]string{"/v1/chat/completions": hello, messages: hello, responses: `"input":"u"`,
		messages + "/count_tokens": hello, responses + "/input_tokens": `"input":"u"`} {
		w := ask(t, newTestServer(t, chatless{new(fakeModel)}, nil), path, `{`+body+`}`)
		assert.Equal(t, http.StatusBadRequest, w.Code, path)
		assert.Contains(t, w.Body.String(), "send a text to /v1/completions", path)
	}
}

// TestCountBeyondContext: the tokens of a prompt are counted even if it is too long to be answered, and the count gives
// its place back.
func TestCountBeyondContext(t *testing.T) {
	long := strings.Repeat("x", 300)
	for path, body := range map[string]string{
		messages + "/count_tokens":  `"messages":[{"role":"user","content":"` + long + `"}]`,
		responses + "/input_tokens": `"input":"` + long + `"`,
	} {
		s := newTestServer(t, &fakeModel{context: 100}, func(o *Options) { o.Parallel, o.Queue = 1, -1 })
		for range 2 {
			w := ask(t, s, path, `{`+body+`}`)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.EqualValues(t, len("user:"+long+"\nassistant:"), object(t, w.Body.Bytes())["input_tokens"])
		}
	}
}

// TestDoorsAccept: fields that clients of these APIs send, and that do not change the answer.
func TestDoorsAccept(t *testing.T) {
	for path, c := range map[string]struct{ plain, more string }{
		responses: {`"input":"u"`, `"n":1,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"none",` +
			`"summary":"auto"},"client_metadata":{"a":"b"},"prompt_cache_key":"k","text":{"verbosity":"medium",` +
			`"format":{"type":"text"}},"truncation":"disabled","background":false,"max_tool_calls":3,"tools":[],` +
			`"tool_choice":"auto","context_management":[],"stream_options":{"include_obfuscation":false},"user":"u",` +
			`"metadata":{"a":"b"},"service_tier":"auto","store":false,"top_logprobs":0,"conversation":null`},
		messages: {`"messages":[{"role":"user","content":"u"}]`, `"thinking":{"type":"adaptive","display":"omitted"},` +
			`"output_config":{"effort":"high"},"context_management":{"edits":[{"type":"clear_thinking_20251015",` +
			`"keep":"all"}]},"metadata":{"user_id":"u"},"service_tier":"auto","cache_control":{"type":"ephemeral"},` +
			`"tools":[],"stop_sequences":[],"mcp_servers":[],"speed":"standard","inference_geo":"x","container":null`},
	} {
		m := new(fakeModel)
		s := newTestServer(t, m, nil)
		for _, body := range []string{c.plain, c.plain + "," + c.more} {
			w := ask(t, s, path, `{"seed":7,`+body+`}`)
			require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		}
		m.asked[1].Stop = nil
		assert.Equal(t, m.asked[0], m.asked[1])
		assert.Equal(t, m.prompts[0], m.prompts[1])
	}
}

// TestBegun: a last message of the assistant is the beginning of the answer of /v1/messages, and is not repeated.
func TestBegun(t *testing.T) {
	m := new(fakeModel)
	s := newTestServer(t, m, nil)
	w := ask(t, s, messages, `{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[`+
		`{"type":"text","text":"{\"a\": "}]}]}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Equal(t, []string{`user:u` + "\n" + `assistant:{"a": `}, m.prompts)
	assert.Equal(t, []string{"ok"}, ofMessage(t, object(t, w.Body.Bytes())).parts)
}

// TestMessagesAccess: Anthropic's clients send their key in a different header, and get errors in their format, also
// for lists of models.
func TestMessagesAccess(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Keys = []string{"one-key"} })
	for _, path := range []string{messages, messages + "/count_tokens"} {
		assert.Equal(t, 200, ask(t, s, path, `{`+hello+`}`, "X-Api-Key", "one-key").Code)
		assert.Equal(t, 200, ask(t, s, path, `{`+hello+`}`, "Authorization", "Bearer one-key").Code)
		for _, key := range []string{"other", ""} {
			w := ask(t, s, path, `{`+hello+`}`, "X-Api-Key", key)
			assert.Equal(t, 401, w.Code)
			assert.Equal(t, "authentication_error", at(object(t, w.Body.Bytes()), "error", "type"))
			assert.NotContains(t, w.Body.String(), "one-key")
		}
	}
	w := ask(t, s, "/v1/models/none", "", "X-Api-Key", "one-key", "Anthropic-Version", "2023-06-01")
	assert.Equal(t, "not_found_error", at(object(t, w.Body.Bytes()), "error", "type"))
	assert.Equal(t, 401, ask(t, s, responses, `{"input":"x"}`, "X-Api-Key", "").Code)
	w = ask(t, s, messages+"/batches", `{}`, "X-Api-Key", "one-key")
	assert.Equal(t, "not_found_error", at(object(t, w.Body.Bytes()), "error", "type"))
}

// TestMessageOrder: text of a user before and after the result of a tool keeps its place in the prompt.
func TestMessageOrder(t *testing.T) {
	m := new(fakeModel)
	w := ask(t, newTestServer(t, m, nil), messages, `{"messages":[{"role":"user","content":"u"},{"role":"assistant",`+
		`"content":[{"type":"tool_use","id":"c","name":"f"},{"type":"tool_use","id":"d","name":"g","input":{"x":1}}]},`+
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"c"},`+
		`{"type":"tool_result","tool_use_id":"d"},{"type":"text","text":"b"}]}]}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Equal(t, []string{"user:u\nassistant:[f{}][g{\"x\":1}]\nuser:a\ntool:\ntool:\nuser:b\nassistant:"},
		m.prompts)
}

// TestOneCall: clients may limit an answer to one call, in the words of each API.
func TestOneCall(t *testing.T) {
	const one = `{"name": "f", "arguments": {}}`
	for path, body := range map[string]string{
		responses: `"input":"u","tools":[{"type":"function","name":"f"}],"parallel_tool_calls":`,
		messages:  hello + `,"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":`,
	} {
		for single, want := range map[bool]int{true: 1, false: 2} {
			value := fmt.Sprint(single == (path == messages))
			if path == messages {
				value += "}"
			}
			w := ask(t, newTestServer(t, newToolModel("", one, "", one), nil), path, `{`+body+value+`}`)
			require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
			answer := object(t, w.Body.Bytes())
			if path == responses {
				assert.Len(t, ofResponse(answer).parts, want)
			} else {
				assert.Len(t, ofMessage(t, answer).parts, want)
			}
		}
	}
}

// TestNamespace: a call names the group of its function.
func TestNamespace(t *testing.T) {
	m := newToolModel("", `{"name": "f", "arguments": {}}`, "", `{"name": "g", "arguments": {}}`)
	_, answer := respondTo(t, newTestServer(t, m, nil), `"input":"u","tools":[{"type":"function","name":"f"},`+
		`{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"g",`+
		`"allowed_callers":["direct"],"output_schema":{"type":"string"}}]}]`)
	assert.Nil(t, at(answer, "output", 0, "namespace"))
	assert.Equal(t, "n", at(answer, "output", 1, "namespace"))
}

// TestMessageUsage: reused tokens of the prompt are counted separately.
func TestMessageUsage(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	count := at(object(t, ask(t, s, messages+"/count_tokens", `{`+hello+`}`).Body.Bytes()), "input_tokens").(float64)
	for _, cached := range []float64{0, count - 1} {
		u := at(object(t, ask(t, s, messages, `{`+hello+`}`).Body.Bytes()), "usage")
		assert.Equal(t, cached, at(u, "cache_read_input_tokens"))
		assert.Equal(t, count-cached, at(u, "input_tokens"))
	}
}
