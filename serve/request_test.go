package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRefused: an error names the invalid field by its path, with a status and a code, and nothing is generated. Those
// that depend on the request alone are in package request.
func TestRefused(t *testing.T) {
	const chat, text = "/v1/chat/completions", "/v1/completions"
	user := `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct{ path, body, param, code, say string }{
		{chat, `[]`, "", "invalid_value", "give a JSON object"},
		{chat, `{` + user + `,"model":"big"}`, "model", "model_not_found",
			"there is no model big: this server has fish, small"},
		{text, `{"prompt":"x","logit_bias":{"300":1,"400":1,"500":1}}`, "logit_bias", "invalid_value", "no token 300"},
		{text, `{"prompt":""}`, "prompt", "invalid_value", "empty"},
		{text, `{"prompt":[257]}`, "prompt", "invalid_value", "no token 257"},
		{text, `{"prompt":[-1]}`, "prompt", "invalid_value", "no token -1"},
		{"/infill", `{"input_prefix":"x","input_suffix":"y","n":2}`, "n", "invalid_value", "one answer"},
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
	for _, c := range []struct{ length, status int }{{99, 200}, {100, 400}, {1000, 400}} {
		t.Run(fmt.Sprint(c.length), func(t *testing.T) {
			s := newTestServer(t, &fakeModel{context: 100}, nil)
			w := ask(t, s, "/v1/completions", `{"prompt":"`+strings.Repeat("x", c.length)+`","stream":true}`)
			assert.Equal(t, c.status, w.Code)
			if c.status != 200 {
				assert.Contains(t, w.Body.String(), fmt.Sprintf("the prompt is too long: %d tokens", c.length))
				assert.Equal(t, "application/json; charset=utf-8", w.Header().Get("Content-Type"))
			}
			assert.Zero(t, s.Load().Active)
		})
	}
}
