package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// respondTo requests an answer of /v1/responses.
func respondTo(t testing.TB, s *Server, body string) (id string, answer map[string]any) {
	t.Helper()
	w := ask(t, s, responses, `{"seed":7,`+body+`}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	answer = object(t, w.Body.Bytes())
	return answer["id"].(string), answer
}

// erase deletes an answer.
func erase(s *Server, id string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, responses+"/"+id, nil))
	return w
}

// TestGoesOn: an answer that continues another one has the whole conversation with the results of tools, but not the
// earlier instructions; also after the earlier answers are deleted, and also if it was streamed.
func TestGoesOn(t *testing.T) {
	m := newToolModel("Sure. ", `{"name": "f", "arguments": {"x":1}}`, "fine")
	s := newTestServer(t, m, nil)
	const tools = `"tools":[{"type":"function","name":"f"}]`
	first, whole := respondTo(t, s, `"instructions":"be","input":"u",`+tools)
	call := at(whole, "output", 1, "call_id").(string)
	text, called := at(whole, "output", 0, "id").(string), at(whole, "output", 1, "id").(string)
	m.answer = func(string, terms.Settings) string { return "so" }
	want := "user:u\nassistant:Sure.[f{\"x\":1}]\nassistant:fine\ntool:r\nassistant:"
	result := fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"r"}`, call)
	second, _ := respondTo(t, s, `"input":[`+result+`],"previous_response_id":"`+first+`"`)
	assert.Equal(t, want, m.prompts[len(m.prompts)-1])
	respondTo(t, s, fmt.Sprintf(`"input":[{"role":"user","content":"u"},{"type":"item_reference","id":%q},`+
		`{"type":"item_reference","id":%q},%s]`, text, called, result))
	assert.Equal(t, strings.Replace(want, "assistant:fine\n", "", 1), m.prompts[len(m.prompts)-1])
	erased := erase(s, first)
	require.Equal(t, http.StatusOK, erased.Code)
	assert.JSONEq(t, `{"id":"`+first+`","object":"response","deleted":true}`, erased.Body.String())
	for name, value := range map[string]string{"Content-Type": "application/json; charset=utf-8",
		"X-Content-Type-Options": "nosniff"} {
		assert.Equal(t, value, erased.Header().Get(name))
	}
	assert.Equal(t, http.StatusNotFound, erase(s, first).Code)
	assert.Equal(t, http.StatusNotFound, ask(t, s, responses+"/"+first, "").Code)
	w := ask(t, s, responses, `{"instructions":"now","input":"v","stream":true,"previous_response_id":"`+second+`"}`)
	_, third := streamedResponse(t, w.Body.Bytes())
	assert.Equal(t, "system:now\n"+want+"so\nuser:v\nassistant:", m.prompts[len(m.prompts)-1])
	kept := ask(t, s, responses+"/"+at(third, "id").(string), "")
	assert.Equal(t, third, any(object(t, kept.Body.Bytes())), "as it was sent")
	assert.Equal(t, second, at(third, "previous_response_id"))
	assert.Equal(t, http.StatusBadRequest, ask(t, s, responses+"/"+second+"?stream=true", "").Code, "it is sent whole")
	w = ask(t, s, responses, `{"input":[{"type":"item_reference","id":"`+text+`"}]}`)
	assert.Equal(t, http.StatusBadRequest, w.Code)
	for _, input := range []string{``, `,"input":[]`} {
		w = ask(t, s, responses, `{"previous_response_id":"`+second+`"`+input+`}`)
		assert.Equal(t, "input", at(object(t, w.Body.Bytes()), "error", "param"), "there is nothing to answer")
	}
	w = ask(t, s, responses, `{"input":"x","previous_response_id":"`+first+`"}`)
	assert.Equal(t, "previous_response_not_found", at(object(t, w.Body.Bytes()), "error", "code"))
}

// TestStoredIncomplete: an answer that was cut is stored, too, and says when it was created and completed.
func TestStoredIncomplete(t *testing.T) {
	for limit, cut := range map[int]bool{2: true, 9: false} {
		for _, stream := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				s := newTestServer(t, &fakeModel{step: 2 * time.Second, answer: long(3)}, nil)
				begin := time.Now().Unix()
				body := fmt.Sprintf(`{"input":"u","max_output_tokens":%d,"stream":%v}`, limit, stream)
				w := ask(t, s, responses, body)
				var sent any
				if stream {
					_, sent = streamedResponse(t, w.Body.Bytes())
				} else {
					sent = any(object(t, w.Body.Bytes()))
				}
				completed, status := any(float64(begin+6)), "completed"
				if cut {
					completed, status = nil, "incomplete"
				}
				assert.EqualValues(t, begin, at(sent, "created_at"))
				assert.Equal(t, completed, at(sent, "completed_at"))
				assert.Equal(t, status, at(sent, "status"))
				kept := ask(t, s, responses+"/"+at(sent, "id").(string), "")
				assert.Equal(t, sent, any(object(t, kept.Body.Bytes())))
			})
		}
	}
}

// TestNotStored: answers are not stored if the request says so, or if they failed.
func TestNotStored(t *testing.T) {
	s := newTestServer(t, &fakeModel{}, nil)
	id, whole := respondTo(t, s, `"input":"u","store":false`)
	assert.Equal(t, false, whole["store"])
	assert.Equal(t, http.StatusNotFound, ask(t, s, responses+"/"+id, "").Code)
	s = newTestServer(t, &fakeModel{fail: func(string) error { return http.ErrAbortHandler }}, nil)
	ask(t, s, responses, `{"input":"u"}`)
	ask(t, s, responses, `{"input":"u","stream":true}`)
	assert.Zero(t, s.kept.bytes)
}

// TestArchiveBound: the stored bytes are limited, and recently used answers stay longest.
func TestArchiveBound(t *testing.T) {
	const limit = 40_000
	s := newTestServer(t, &fakeModel{}, func(o *Options) { o.Kept = limit })
	first, _ := respondTo(t, s, `"input":"u"`)
	one := s.kept.bytes
	require.Positive(t, one)
	last, ids := "", []string{}
	for range 3 * limit / one {
		last, _ = respondTo(t, s, `"input":"u"`)
		ids = append(ids, last)
		require.LessOrEqual(t, s.kept.bytes, limit)
		require.Equal(t, http.StatusOK, ask(t, s, responses+"/"+first, "").Code, "it is used")
	}
	assert.Equal(t, limit/one, s.kept.all.Len())
	assert.Equal(t, s.kept.all.Len(), len(s.kept.items))
	assert.Equal(t, http.StatusNotFound, ask(t, s, responses+"/"+ids[0], "").Code)
	assert.Equal(t, http.StatusOK, ask(t, s, responses+"/"+last, "").Code)
	large, _ := respondTo(t, s, `"input":"`+strings.Repeat("x", 3000)+`","instructions":"y","metadata":{"a":"`+
		strings.Repeat("x", limit)+`"}`)
	assert.Equal(t, http.StatusNotFound, ask(t, s, responses+"/"+large, "").Code, "it would need all of the room")
	assert.Equal(t, http.StatusOK, ask(t, s, responses+"/"+last, "").Code)
	for _, id := range append(ids, first) {
		erase(s, id)
	}
	assert.Zero(t, s.kept.bytes)
	assert.Empty(t, s.kept.items)
}

// TestArchiveSize: every text of a stored conversation counts, in whatever field it is.
func TestArchiveSize(t *testing.T) {
	long := strings.Repeat("x", 5000)
	size := func(m pilotfish.Message) int { return (&storedResponse{talk: []pilotfish.Message{m}}).byteSize() }
	for name, m := range map[string]pilotfish.Message{
		"content": {Content: long}, "thought": {Thought: long}, "id": {Calls: []pilotfish.ToolCall{{ID: long}}},
		"name":      {Calls: []pilotfish.ToolCall{{Name: long}}},
		"arguments": {Calls: []pilotfish.ToolCall{{Arguments: []byte(long)}}},
	} {
		assert.Greater(t, size(m), len(long), name)
	}
	assert.Greater(t, (&storedResponse{object: []byte(long)}).byteSize(), len(long))
	items := map[string]pilotfish.Message{"a": {}, "b": {}}
	assert.Greater(t, (&storedResponse{items: items}).byteSize(), (&storedResponse{}).byteSize()+100,
		"of whatever number of items")
	k := &storedResponse{id: "a", object: []byte("x"), talk: []pilotfish.Message{{Content: long}}}
	for limit, want := range map[int]bool{k.byteSize() - 1: false, k.byteSize(): true} {
		a := newResponseStore(limit)
		a.storeResponse(k)
		assert.Equal(t, want, a.lookupResponse("a") != nil, "the limit itself is allowed")
	}
	a := newResponseStore(2 * k.byteSize())
	for _, id := range []string{"a", "b", "c"} {
		other := *k
		other.id = id
		a.storeResponse(&other)
	}
	assert.Nil(t, a.lookupResponse("a"), "the oldest one")
	assert.NotNil(t, a.lookupResponse("b"))
	assert.NotNil(t, a.lookupResponse("c"))
	assert.Equal(t, 5+3, reflect.TypeFor[pilotfish.Message]().NumField()+
		reflect.TypeFor[pilotfish.ToolCall]().NumField(),
		"a new field needs a line above, unless it is of a bounded size as Role and Local are")
}

// TestGoOnAtOnce: answers that continue the same answer are independent.
func TestGoOnAtOnce(t *testing.T) {
	const one = `{"name": "f", "arguments": {}}`
	m := newToolModel("", one, "", one, "", one) // a list of three has room for more
	s := newTestServer(t, m, nil)
	first, whole := respondTo(t, s, `"input":"u","tools":[{"type":"function","name":"f"}]`)
	call := at(whole, "output", 2, "call_id").(string)
	m.answer = func(string, terms.Settings) string { return "so" }
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			ask(t, s, responses, fmt.Sprintf(`{"previous_response_id":%q,"input":[{"type":"function_call",`+
				`"call_id":"c%d","name":"f%d","arguments":"{}"},`+
				`{"type":"function_call_output","call_id":%q,"output":"r%d"}]}`,
				first, i, i, call, i))
		})
	}
	wait.Wait()
	calls := s.kept.lookupResponse(first).talk[1].Calls
	require.Len(t, calls, 3)
	for _, beyond := range calls[:cap(calls)][3:] {
		assert.Empty(t, beyond.Name)
	}
	seen := map[string]bool{}
	for _, p := range m.prompts[len(m.prompts)-8:] {
		seen[p] = true
	}
	for i := range 8 {
		assert.Contains(t, seen,
			fmt.Sprintf("user:u\nassistant:[f{}][f{}][f{}][f%d{}]\ntool:r%d\nassistant:", i, i))
	}
}
