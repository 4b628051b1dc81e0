package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const (
	publicMessage = `{"role":"user","content":"public"}`
	localMark     = `,"pilotfish":{"local":true}`
)

// askedLocally answers a request, and returns whether the model must stay on the device.
func askedLocally(t *testing.T, s *Server, m *fakeModel, path, body string) bool {
	t.Helper()
	m.asked = nil
	w := ask(t, s, path, body)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return m.asked[0].Local
}

// TestLocalRequest: a request is local if it says so, and later ones with the same messages are not.
func TestLocalRequest(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	assert.False(t, askedLocally(t, s, m, chatPath, `{"messages":[`+publicMessage+`]}`))
	assert.True(t, askedLocally(t, s, m, chatPath, `{"messages":[`+publicMessage+`]`+localMark+`}`))
	assert.False(t, askedLocally(t, s, m, chatPath, `{"messages":[`+publicMessage+`]}`), "requests are not remembered")
	assert.True(t, askedLocally(t, s, m, textPath, `{"prompt":"x"`+localMark+`}`))
	assert.True(t, askedLocally(t, s, m, "/infill", `{"input_prefix":"x","input_suffix":""`+localMark+`}`))
}

// TestLocalMessage: a request is local if one of its messages says so; so is each later request with that message,
// whatever else it contains, even if the message is no longer marked.
func TestLocalMessage(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	local := func(body string) bool { t.Helper(); return askedLocally(t, s, m, chatPath, body) }
	const secret = `{"role":"user","content":"secret"%s}`
	plain, mark := fmt.Sprintf(secret, ""), fmt.Sprintf(secret, localMark)
	assert.False(t, local(`{"messages":[`+plain+`]}`))
	assert.True(t, local(`{"messages":[`+publicMessage+`,`+mark+`]}`))
	assert.True(t, local(`{"messages":[`+plain+`]}`))
	assert.True(t, local(`{"messages":[{"role":"system","content":"s"},`+plain+`,`+publicMessage+
		`],"pilotfish":{"local":false}}`))
	assert.True(t, local(`{"messages":[{"role":"user","content":[{"type":"text","text":"secret"}]}]}`))
	assert.False(t, local(`{"messages":[{"role":"system","content":"secret"}]}`), "another message")
	assert.False(t, local(`{"messages":[`+publicMessage+`]}`))
	const another = `{"role":"user","content":"another"%s}`
	assert.True(t, local(`{"messages":[`+fmt.Sprintf(another, localMark)+`]`+localMark+`}`))
	assert.True(t, local(`{"messages":[`+fmt.Sprintf(another, "")+`]}`), "the message was marked, too")
	const calls = `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":%q}}]%s}`
	assert.True(t, local(`{"messages":[`+publicMessage+`,`+fmt.Sprintf(calls, "f", localMark)+`]}`))
	assert.True(t, local(`{"messages":[`+publicMessage+`,`+fmt.Sprintf(calls, "f", "")+`]}`))
	assert.False(t, local(`{"messages":[`+publicMessage+`,`+fmt.Sprintf(calls, "g", "")+`]}`), "another call")
	const answered = `{"role":"assistant","content":"a","pilotfish":{"tokens":[],"receipt":{}}}`
	assert.False(t, local(`{"messages":[`+publicMessage+`,`+answered+`,`+publicMessage+`]}`))
}

// TestLocalValue: a value that changes in each request is not pinned from a local one to one that is not.
func TestLocalValue(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	local := func(body string) bool { t.Helper(); return askedLocally(t, s, m, chatPath, body) }
	const left = `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"%d tokens left"}]%s}`
	assert.True(t, local(fmt.Sprintf(left, 111, localMark)))
	assert.False(t, local(fmt.Sprintf(left, 222, "")))
	assert.NotContains(t, m.prompts[len(m.prompts)-1], "111", "a value that was pinned")
	assert.True(t, local(fmt.Sprintf(left, 333, localMark)))
	assert.Contains(t, m.prompts[len(m.prompts)-1], "111")
}

// TestLocalStored: an answer that continues a stored one is local if that one was.
func TestLocalStored(t *testing.T) {
	m := &fakeModel{}
	s := newTestServer(t, m, nil)
	respond := func(more string) (id string, isLocal bool) {
		t.Helper()
		m.asked = nil
		w := ask(t, s, responses, `{"input":"public"`+more+`}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var o struct {
			ID     string
			Output []struct{ ID string }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &o))
		return o.ID, m.asked[0].Local
	}
	id, _ := respond(localMark)
	for range 3 { // and those that continue it
		var isLocal bool
		id, isLocal = respond(`,"previous_response_id":"` + id + `","pilotfish":{"local":false}`)
		assert.True(t, isLocal, "a stored answer that was local stays so")
	}
	id, isLocal := respond("")
	assert.False(t, isLocal, "like messages of another conversation")
	_, isLocal = respond(`,"previous_response_id":"` + id + `"`)
	assert.False(t, isLocal)
}

// TestLocalRefused: an invalid mark is refused by its path.
func TestLocalRefused(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	for body, param := range map[string]string{
		`{"messages":[{"role":"user","content":"x","pilotfish":"local"}]}`:         "messages[0].pilotfish",
		`{"messages":[{"role":"user","content":"x","pilotfish":{"local":1}}]}`:     "messages[0].pilotfish.local",
		`{"messages":[{"role":"user","content":"x","pilotfish":{"lokal":true}}]}`:  "messages[0].pilotfish.lokal",
		`{"messages":[` + publicMessage + `],"pilotfish":{"local":"yes"}}`:         "pilotfish.local",
		`{"messages":[{"role":"user","content":"x","pilotfish":{"locals":true}}]}`: "messages[0].pilotfish.locals",
	} {
		w := ask(t, s, chatPath, body)
		assert.Equal(t, http.StatusBadRequest, w.Code, body)
		assert.Equal(t, param, at(object(t, w.Body.Bytes()), "error", "param"))
	}
}

// TestKept: a limited number of local messages is remembered, the latest ones.
func TestKept(t *testing.T) {
	racing.Spare(t)
	k := newLocalMessages()
	message := func(i int, local bool) []pilotfish.Message {
		return []pilotfish.Message{{Role: "user", Content: fmt.Sprint(i), Local: local}}
	}
	for i := range maxKept + 10 {
		require.True(t, k.hasLocal(message(i, true)))
		require.True(t, k.hasLocal(message(i, true)), "a repeated message counts once")
	}
	assert.Equal(t, maxKept, k.Len())
	for i, want := range map[int]bool{0: false, 9: false, 10: true, maxKept + 9: true, maxKept + 10: false} {
		assert.Equal(t, want, k.hasLocal(message(i, false)), i)
	}
	both := append(message(-1, true), message(-2, true)...)
	assert.True(t, k.hasLocal(both))
	assert.True(t, k.hasLocal(message(-2, false)), "each of several is known")
}

// TestReceipt: the receipt at the end of a request counts what left the device for all its answers, also if that is
// nothing.
func TestReceipt(t *testing.T) {
	s := newTestServer(t, &fakeModel{answer: func(prompt string, s terms.Settings) string {
		if s.Local {
			return "a"
		}
		return "aCC"
	}}, nil)
	none, some := map[string]any{"tokens": 0.0, "bytes": 0.0, "to": ""},
		map[string]any{"tokens": 12.0, "bytes": 28.0, "to": "gw:1"}
	for path, prompt := range map[string]string{"/v1/chat/completions": `"messages":[{"role":"user","content":"x"}]`,
		"/v1/completions": `"prompt":"x"`} {
		for more, want := range map[string]any{`,"n":2`: some, `,"n":2,"pilotfish":{"local":true}`: none} {
			o := object(t, ask(t, s, path, "{"+prompt+more+"}").Body.Bytes())
			assert.Equal(t, want, at(o, "pilotfish", "receipt"), path)
			all, _ := events(t, ask(t, s, path, "{"+prompt+more+`,"stream":true}`).Body.Bytes())
			assert.Equal(t, want, at(all[len(all)-1], "pilotfish", "receipt"), path)
			assert.Nil(t, at(all[0], "pilotfish", "receipt"), "no receipt at the beginning")
		}
	}
	o := object(t, ask(t, s, "/infill", `{"input_prefix":"x","input_suffix":"y"}`).Body.Bytes())
	assert.Equal(t, 14.0, at(o, "pilotfish", "receipt", "bytes"))
}
