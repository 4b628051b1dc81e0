package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// thinkingModel is a model that thinks before each answer.
func thinkingModel(said string) *fakeModel {
	return &fakeModel{thinks: true, answer: func(prompt string, _ terms.Settings) string {
		_, after, _ := strings.Cut(said, "</think>")
		turn := prompt[strings.LastIndex(prompt, "assistant:"):]
		if !strings.HasPrefix(said, "<think>") || !strings.Contains(turn, "<think>") {
			return said
		}
		return strings.TrimLeft(after, "\n")
	}}
}

// streamOf returns the data of a stream's events.
func streamOf(t *testing.T, body string) (all []any) {
	t.Helper()
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var v any
		require.NoError(t, json.Unmarshal([]byte(data), &v))
		all = append(all, v)
	}
	return all
}

// join joins the texts at a path in all events.
func join(events []any, path ...any) (text string) {
	for _, e := range events {
		s, _ := at(e, path...).(string)
		text += s
	}
	return text
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// TestThoughtsApart: each API returns a thought separately from the answer, without the marks and the blanks around it,
// both whole and streamed a byte at a time.
func TestThoughtsApart(t *testing.T) {
	for _, c := range []struct{ said, thought, text string }{
		{"<think>\nhm,\n\n so é\n\n</think>\n\nYes.", "hm,\n\n so é", "Yes."},
		{"<think>\n\n</think>\n\nYes.", "", "Yes."},
		{"<think>\n  hm</think>Yes.", "hm", "Yes."}, {"<think>\nhm</think>", "hm", ""}, {"<think>\nhm ", "hm", ""},
		{"Yes. <think>\nno</think>", "", "Yes. <think>\nno</think>"},
		{"<think>\nh\x00i</think>\n\n <b>", "h\x00i", " <b>"},
	} {
		t.Run(c.said, func(t *testing.T) {
			s := newTestServer(t, thinkingModel(c.said), nil)
			o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`}`).Body.Bytes())
			assert.Equal(t, c.text, at(o, "choices", 0, "message", "content"), c.said)
			thought, _ := at(o, "choices", 0, "message", "reasoning_content").(string)
			assert.Equal(t, c.thought, thought, c.said)
			tokens := at(o, "usage", "completion_tokens_details", "reasoning_tokens").(float64)
			assert.EqualValues(t, len(c.said)-len(c.text), tokens, c.said)
			events := streamOf(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,"stream":true}`).Body.String())
			assert.Equal(t, c.thought, join(events, "choices", 0, "delta", "reasoning_content"), c.said)
			assert.Equal(t, c.text, join(events, "choices", 0, "delta", "content"), c.said)

			responseApart(t, s, c.thought, c.text)
			messageApart(t, s, c.thought, c.text)
		})
	}
}

func responseApart(t *testing.T, s *Server, thought, text string) {
	t.Helper()
	output := at(object(t, ask(t, s, responses, `{"input":"hi"}`).Body.Bytes()), "output").([]any)
	var got, said string
	for _, item := range output {
		switch at(item, "type") {
		case "reasoning":
			got += at(item, "content", 0, "text").(string)
			assert.Equal(t, []any{}, at(item, "summary"))
			assert.True(t, strings.HasPrefix(at(item, "id").(string), "rs_"))
			assert.Equal(t, map[string]any{"type": "reasoning_text", "text": got}, at(item, "content", 0))
		case "message":
			said += at(item, "content", 0, "text").(string)
		}
	}
	assert.Equal(t, thought, got)
	assert.Equal(t, text, said)
	events := streamOf(t, ask(t, s, responses, `{"input":"hi","stream":true}`).Body.String())
	got, said = "", ""
	for _, e := range events {
		switch at(e, "type") {
		case "response.reasoning_text.delta":
			got += at(e, "delta").(string)
		case "response.reasoning_text.done":
			assert.Equal(t, thought, at(e, "text"))
		case "response.output_text.delta":
			said += at(e, "delta").(string)
		}
	}
	assert.Equal(t, thought, got)
	assert.Equal(t, text, said)
}

func messageApart(t *testing.T, s *Server, thought, text string) {
	t.Helper()
	const thinking = `{` + hi + `,"max_tokens":99,"thinking":{"type":"adaptive"}`
	blocks := at(object(t, ask(t, s, messages, thinking+`}`).Body.Bytes()), "content").([]any)
	var got, said string
	for _, b := range blocks {
		switch at(b, "type") {
		case "thinking":
			got += at(b, "thinking").(string)
			assert.Equal(t, "", at(b, "signature"))
		case "text":
			said += at(b, "text").(string)
		}
	}
	assert.Equal(t, thought, got)
	assert.Equal(t, text, said)
	events := streamOf(t, ask(t, s, messages, thinking+`,"stream":true}`).Body.String())
	if thought != "" {
		assert.Equal(t, map[string]any{"type": "thinking", "thinking": "", "signature": ""},
			at(events[1], "content_block"), "clients add to these fields")
	}
	assert.Equal(t, thought, join(events, "delta", "thinking"))
	assert.Equal(t, text, join(events, "delta", "text"))
}

// TestThoughtCut: an answer that ends within its thought has no text.
func TestThoughtCut(t *testing.T) {
	s := newTestServer(t, thinkingModel("<think>\nhm, so\n</think>\n\nYes."), nil)
	for _, format := range []string{"", `,"response_format":{"type":"json_object"}`} {
		o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,"max_tokens":10`+format+`}`).Body.Bytes())
		assert.Equal(t, "", at(o, "choices", 0, "message", "content"), format)
		assert.Equal(t, "hm", at(o, "choices", 0, "message", "reasoning_content"), format)
		assert.Equal(t, "length", at(o, "choices", 0, "finish_reason"), format)
	}
	o := object(t, ask(t, s, responses, `{"input":"hi","max_output_tokens":10}`).Body.Bytes())
	assert.Equal(t, "incomplete", at(o, "status"))
	assert.Equal(t, "incomplete", at(o, "output", 0, "status"))
	assert.Equal(t, "reasoning", at(o, "output", 0, "type"))
}

// TestThoughtThenFormat: a format, or a call that is required, applies after the thought, which is free text.
func TestThoughtThenFormat(t *testing.T) {
	const thought, end = "<think>\nhm\n</think>\n\n", "assistant:<think>\nhm\n</think>\n\n"
	m := thinkingModel(thought + `{"a":1}`)
	s := newTestServer(t, m, nil)
	o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,"stop":"hm","response_format":{"type":"json_object"}}`).
		Body.Bytes())
	assert.Equal(t, `{"a":1}`, at(o, "choices", 0, "message", "content"))
	assert.Equal(t, "hm", at(o, "choices", 0, "message", "reasoning_content"))
	assert.EqualValues(t, len(thought)+7, at(o, "usage", "completion_tokens"))
	require.Len(t, m.asked, 2)
	assert.False(t, m.asked[0].JSON)
	assert.Empty(t, m.asked[0].Stop)
	assert.True(t, m.asked[1].JSON)
	assert.True(t, strings.HasSuffix(m.prompts[1], end), m.prompts[1])

	for _, choice := range []string{`"auto"`, `"required"`} {
		m = thinkingModel("")
		m.answer = func(prompt string, o terms.Settings) string {
			switch {
			case strings.HasSuffix(prompt, callMark+"\n"):
				assert.NotNil(t, o.Schema)
				return `{"name":"f","arguments":{"x":1}}`
			case strings.HasSuffix(prompt, "assistant:"):
				return thought + "Let me.\n" + callMark
			}
			return ""
		}
		s = newTestServer(t, m, nil)
		o = object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,`+twoTools+`,"tool_choice":`+choice+`}`).Body.Bytes())
		assert.Equal(t, []string{`f({"x":1})`}, callsOf(o), choice)
		assert.Equal(t, "hm", at(o, "choices", 0, "message", "reasoning_content"), choice)
		assert.Equal(t, "tool_calls", at(o, "choices", 0, "finish_reason"), choice)
		prompt := strings.TrimSuffix(m.prompts[1], callMark+"\n")
		assert.True(t, strings.HasSuffix(strings.TrimSuffix(prompt, "Let me.\n"), end), prompt)
	}
}

// TestThoughtBudget: a thought of more tokens than the budget is ended, and the answer follows.
func TestThoughtBudget(t *testing.T) {
	m := thinkingModel("<think>\nhm, so\n</think>\n\nYes.")
	s := newTestServer(t, m, nil)
	const ended = "<think>\nhm,\n</think>\n\n"
	for _, budget := range []string{`"thinking_budget":11`, `"reasoning":{"max_tokens":11}`,
		`"thinking":{"type":"enabled","budget_tokens":11}`} {
		o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,`+budget+`}`).Body.Bytes())
		assert.Equal(t, "Yes.", at(o, "choices", 0, "message", "content"), budget)
		assert.Equal(t, "hm,", at(o, "choices", 0, "message", "reasoning_content"), budget)
		assert.True(t, strings.HasSuffix(m.prompts[len(m.prompts)-1], ended), m.prompts)
		assert.EqualValues(t, len(ended), at(o, "usage", "completion_tokens_details", "reasoning_tokens"))
	}
	o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,"thinking_budget":11,"max_tokens":20}`).Body.Bytes())
	assert.Equal(t, "length", at(o, "choices", 0, "finish_reason"), "the end does not fit")
	m.fail = func(string) error { return errors.New("broken") }
	w := ask(t, s, "/v1/chat/completions", `{`+hi+`,"thinking_budget":99}`)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	m.fail = nil
	o = object(t, ask(t, s, messages, `{`+hi+`,"max_tokens":99,"thinking":{"type":"enabled","budget_tokens":9000}}`).
		Body.Bytes())
	assert.Equal(t, "hm, so", at(o, "content", 0, "thinking"))
	assert.Equal(t, "Yes.", at(o, "content", 1, "text"))
}

// TestThinkingAsked: a request turns thinking on or off, and shows or hides it.
func TestThinkingAsked(t *testing.T) {
	m := thinkingModel("Yes.")
	s := newTestServer(t, m, nil)
	for field, want := range map[string]string{"": "assistant:",
		`,"think":false`:            "thinking:false\nassistant:<think></think>",
		`,"reasoning_effort":"low"`: "thinking:true\nassistant:"} {
		w := ask(t, s, "/v1/chat/completions", `{`+hi+field+`}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		assert.Equal(t, "user:hi\n"+want, m.prompts[len(m.prompts)-1])
	}
	for _, hide := range []string{`"reasoning":{"exclude":true}`, `"include_reasoning":false`,
		`"reasoning":{"exclude":true},"include_reasoning":true`} {
		s := newTestServer(t, thinkingModel("<think>\nhm\n</think>\n\nYes."), nil)
		o := object(t, ask(t, s, "/v1/chat/completions", `{`+hi+`,`+hide+`}`).Body.Bytes())
		assert.Equal(t, "Yes.", at(o, "choices", 0, "message", "content"), hide)
		assert.Nil(t, at(o, "choices", 0, "message", "reasoning_content"), hide)
		assert.NotZero(t, at(o, "usage", "completion_tokens_details", "reasoning_tokens"), hide)
	}
}

// TestThinkingRefused: the beginning of an answer cannot be given to a model that thinks before.
func TestThinkingRefused(t *testing.T) {
	w := ask(t, newTestServer(t, thinkingModel(""), nil), messages, `{"max_tokens":9,"thinking":{"type":"enabled"},`+
		`"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"I"}]}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "begins with that")
}

// TestThoughtsBack: the template gets the thoughts that clients send back, and decides whether to show them.
func TestThoughtsBack(t *testing.T) {
	m := thinkingModel("Yes.")
	s := newTestServer(t, m, nil)
	const want = "user:a\nassistant:(h)b\nuser:c\n"
	for path, body := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",` +
			`"reasoning_content":"h"},{"role":"user","content":"c"}]`,
		"/v1/chat/completions?": `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",` +
			`"reasoning":"h","reasoning_details":[{}]},{"role":"user","content":"c"}]`,
		messages: `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
			`{"type":"thinking","thinking":"h","signature":"x"},{"type":"text","text":"b"}]},` +
			`{"role":"user","content":"c"}]`,
		responses: `"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[],"content":[` +
			`{"type":"reasoning_text","text":"h"}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
	} {
		w := ask(t, s, path, `{`+body+`}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		assert.True(t, strings.HasPrefix(m.prompts[len(m.prompts)-1], want), m.prompts[len(m.prompts)-1])
	}

	ask(t, s, responses, `{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},`+
		`{"type":"reasoning","content":[{"type":"reasoning_text","text":"h"}]},`+
		`{"type":"function_call","call_id":"c","name":"f"},`+
		`{"type":"function_call_output","call_id":"c","output":"r"}]}`)
	assert.True(t, strings.HasPrefix(m.prompts[len(m.prompts)-1], "user:a\nassistant:(h)b[f{}]\ntool:r\n"))

	m = thinkingModel("<think>\nhm\n</think>\n\nYes.")
	s = newTestServer(t, m, nil)
	first := object(t, ask(t, s, responses, `{"input":"a"}`).Body.Bytes())
	ask(t, s, responses, fmt.Sprintf(`{"input":"b","previous_response_id":%q}`, at(first, "id")))
	assert.True(t, strings.HasPrefix(m.prompts[len(m.prompts)-1], "user:a\nassistant:(hm)Yes.\nuser:b\n"))
}

// TestChatRefused: a chat that the model's template refuses is the client's mistake.
func TestChatRefused(t *testing.T) {
	s := newTestServer(t, refusingModel{new(fakeModel)}, nil)
	w := ask(t, s, "/v1/chat/completions", `{`+hi+`}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "roles must alternate")
	assert.Contains(t, w.Body.String(), "chat_template")
}

type refusingModel struct{ *fakeModel }

func (refusingModel) ChatTokens([]pilotfish.Message, [][]byte, ...pilotfish.TemplateValue) ([]int32, error) {
	return nil, fmt.Errorf("%w: roles must alternate", pilotfish.ErrChat)
}
