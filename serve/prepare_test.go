package serve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const withSchema = `{"prompt":"x","response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}}`

// slowSchemas returns a model that is slow at making grammars.
func slowSchemas(takes time.Duration) *fakeModel {
	return &fakeModel{check: func(ctx context.Context, s terms.Settings) ([]string, error) {
		if s.Schema == nil {
			return nil, nil
		}
		select {
		case <-time.After(takes):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
}

// from returns a request of a client.
func from(ctx context.Context, client, body string) *http.Request {
	r := post(ctx, "/v1/completions", body)
	r.RemoteAddr = client + ":1234"
	return r
}

// TestPreparedInTurn: grammars of one client's schemas are made one after the other. Other clients and requests without
// schemas do not wait for them, and they take no place of an answer.
func TestPreparedInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, slowSchemas(3*time.Second), func(o *Options) { o.Parallel, o.Queue = 1, 7 })
		begin := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		took := map[string][]time.Duration{}
		send := func(client, body string) {
			all.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, from(t.Context(), client, body))
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
				took[client] = append(took[client], time.Since(begin))
			})
			synctest.Wait()
		}
		for range 5 {
			send("10.0.0.1", withSchema)
		}
		send("10.0.0.2", withSchema)
		send("10.0.0.3", `{"prompt":"x"}`)
		send("10.0.0.4", withSchema)
		all.Wait()
		assert.Equal(t, []time.Duration{3e9, 6e9, 9e9, 12e9, 15e9}, took["10.0.0.1"], "the wait has no limit")
		assert.Equal(t, []time.Duration{3e9}, took["10.0.0.2"])
		assert.Equal(t, []time.Duration{0}, took["10.0.0.3"])
		assert.Equal(t, []time.Duration{6e9}, took["10.0.0.4"], "two at a time")
		assert.Empty(t, s.compiling.clients)
		assert.Zero(t, s.compiling.all)
	})
}

// TestPreparedBounds: the number of waiting requests is limited, and others are refused at once. A cancelled one makes
// room at once, at any place in the queue, and grammars that take too long are refused.
func TestPreparedBounds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newTestServer(t, slowSchemas(time.Hour), func(o *Options) { o.Parallel, o.Queue = 1, 1 })
		ctx, leave := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		codes := make([]int, 2)
		for i := range codes {
			all.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, from(ctx, "10.0.0.1", withSchema))
				codes[i] = w.Code
			})
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, from(t.Context(), "10.0.0.2", withSchema))
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		leave(errors.New("gone"))
		all.Wait()
		assert.Zero(t, s.compiling.all)
		begin := time.Now()
		w = httptest.NewRecorder()
		s.ServeHTTP(w, from(t.Context(), "10.0.0.2", withSchema))
		assert.Equal(t, longestPrepared, time.Since(begin))
		assert.Equal(t, http.StatusBadRequest, w.Code)
		assert.Contains(t, w.Body.String(), errPreparing.Error())
	})
}

// TestPreparedAfterCancelled: of two requests of a client that wait, one for the client's slot and one for a common
// slot, each is prepared after the other was cancelled.
func TestPreparedAfterCancelled(t *testing.T) {
	for cancelled := range 2 {
		bubble.Test(t, func(t *testing.T) {
			p := newCompileLimiter(4)
			var leaves []func()
			for _, other := range []string{"a", "b"} { // these have the common slots
				leave, err := p.acquireSlot(t.Context(), other)
				require.NoError(t, err)
				leaves = append(leaves, leave)
			}
			ended := []chan error{make(chan error, 1), make(chan error, 1)}
			var cancel []func()
			for i := range 2 {
				ctx, stop := context.WithCancel(t.Context())
				cancel = append(cancel, stop)
				go func() {
					leave, err := p.acquireSlot(ctx, "c")
					ended[i] <- err
					if err == nil {
						leave()
					}
				}()
				synctest.Wait()
			}
			cancel[cancelled]()
			require.ErrorIs(t, <-ended[cancelled], context.Canceled)
			leaves[0]()
			require.NoError(t, <-ended[1-cancelled])
			leaves[1]()
			cancel[1-cancelled]()
			synctest.Wait()
			assert.Empty(t, p.clients)
			assert.Equal(t, []int{0, 0}, []int{p.all, len(p.slots)})
		})
	}
}

// TestClients: a client is identified by its key, or by its address without keys.
func TestClients(t *testing.T) {
	a, b := from(t.Context(), "10.0.0.1", ""), from(t.Context(), "10.0.0.1", "")
	a.Header.Set("Authorization", "Bearer one")
	b.RemoteAddr = "10.0.0.1:99"
	open := newTestServer(t, &fakeModel{}, nil)
	assert.Equal(t, open.clientID(a), open.clientID(b))
	keyed := newTestServer(t, &fakeModel{}, func(o *Options) { o.Keys = []string{"one", "two"} })
	b.Header.Set("X-Api-Key", "two")
	assert.NotEqual(t, keyed.clientID(a), keyed.clientID(b))
	b.Header.Set("Authorization", "bearer  one")
	assert.Equal(t, keyed.clientID(a), keyed.clientID(b), "another header is not another client")
}

// TestIgnoredTold: keywords without effect are listed in the answer, and in the first chunk of a stream: those of the
// schema of the answer, and those of parameters of tools.
func TestIgnoredTold(t *testing.T) {
	m := &fakeModel{check: func(_ context.Context, s terms.Settings) ([]string, error) {
		switch {
		case s.Schema == nil:
			return nil, nil
		case !s.Closed:
			assert.NotContains(t, string(s.Schema), "anyOf")
			return []string{"#/a"}, nil
		case strings.Contains(string(s.Schema), `{"contains":1}`):
			return nil, errors.New("no")
		}
		return []string{"#/properties/arguments/b", "#/properties/arguments/allOf/1/c"}, nil
	}}
	s := newTestServer(t, m, nil)
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}`
	w := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],`+format+`,"tools":[`+
		`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},`+
		`{"type":"function","function":{"name":"h","parameters":{"contains":1}}}]}`)
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	assert.Equal(t, []any{"response_format.json_schema.schema#/a", "tools[0].function.parameters#/b",
		"tools[0].function.parameters#/c", "tools[1].function.parameters"},
		at(object(t, w.Body.Bytes()), "pilotfish", "ignored"))
	for path, c := range map[string]struct {
		body    string
		ignored []any
	}{
		messages: {`{"max_tokens":9,"messages":[{"role":"user","content":"x"}],"output_config":{"format":` +
			`{"type":"json_schema","schema":{}}},"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
			[]any{"output_config.format.schema#/a", "tools[0].input_schema#/b", "tools[0].input_schema#/c"}},
		responses: {`{"input":"x","text":{"format":{"type":"json_schema","name":"s","schema":{}}},"tools":[` +
			`{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":{"contains":1}}]}]}`,
			[]any{"text.format.schema#/a", "tools[0].tools[0].parameters"}},
	} {
		w = ask(t, s, path, c.body)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		assert.Equal(t, c.ignored, at(object(t, w.Body.Bytes()), "pilotfish", "ignored"))
	}
	w = ask(t, s, "/v1/completions", `{"prompt":"x","stream":true,`+format+`}`)
	assert.Contains(t, w.Body.String(), `"ignored":["response_format.json_schema.schema#/a"]`)
	w = ask(t, s, "/v1/completions", `{"prompt":"x"}`)
	assert.NotContains(t, w.Body.String(), "ignored")
	m.check = func(context.Context, terms.Settings) ([]string, error) { return make([]string, 150), nil }
	w = ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],`+format+`,"tools":[`+
		`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`)
	assert.Len(t, at(object(t, w.Body.Bytes()), "pilotfish", "ignored"), 100, "a client can choose their number")
}
