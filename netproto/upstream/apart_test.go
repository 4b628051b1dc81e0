package upstream

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// TestAnswersApart: a stored answer is used only for the same question of the same client in the same domain. The
// engine's cache is divided by client and domain too.
func TestAnswersApart(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang"}
	u := open(t, options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one"))
	asked := question(1, []int32{1, 2, 3})
	asked.Sampling = terms.Sampling{Temperature: 1, TopK: 2, TopP: 1, Seed: 7}
	others := map[string]func(q *terms.Job){
		"client":      func(q *terms.Job) { q.Client++ },
		"domain":      func(q *terms.Job) { q.Domain++ },
		"both":        func(q *terms.Job) { q.Client, q.Domain = q.Domain, q.Client },
		"context":     func(q *terms.Job) { q.Context = []int32{1, 3, 2} },
		"longer":      func(q *terms.Job) { q.Context = []int32{1, 2, 3, 0} },
		"temperature": func(q *terms.Job) { q.Sampling.Temperature = 2 },
		"greedy":      func(q *terms.Job) { q.Sampling = terms.Sampling{} },
		"top-k":       func(q *terms.Job) { q.Sampling.TopK++ },
		"top-p":       func(q *terms.Job) { q.Sampling.TopP = 0.5 },
		"seed":        func(q *terms.Job) { q.Sampling.Seed++ },
	}
	mustAsk(t, u, asked)
	for name, change := range others {
		q := asked
		change(&q)
		_, err := u.Ask(t.Context(), q)
		require.NoError(t, err, name)
		assert.Zero(t, u.Stats().Repeats, name)
	}
	asked.Session++ // of the same client: the answer does not depend on it
	mustAsk(t, u, asked)
	assert.EqualValues(t, 1, u.Stats().Repeats)

	salts := map[string]bool{}
	for _, of := range [][2]uint64{{1, 0}, {2, 0}, {1, 1}, {2, 1}, {0, 1}} {
		salts[u.cacheSalt(of[0], of[1])] = true
	}
	assert.Len(t, salts, 5)
}

// TestConnectionsEnd: TCP connections end with the Upstream, also those to an engine that was refused.
func TestConnectionsEnd(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "sglang", Key: "open sesame"}
	server := httptest.NewServer(e)
	defer server.Close()
	for name, refused := range map[string]bool{"used": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			held.Same(t, func() {
				o := options(nil)
				o.URLs, o.Transport, o.Key = []string{server.URL}, nil, "open sesame"
				if refused {
					o.Model = "another"
				}
				u, err := Open(t.Context(), o)
				require.Equal(t, refused, err != nil)
				if err != nil {
					return
				}
				mustAsk(t, u, question(1, []int32{1, 2, 3}))
				u.Close()
			})
		})
	}
}

// TestStartsApart: the requests of two gateways that share an engine have different names, and the engine's cache of
// one description is not used for the next one.
func TestStartsApart(t *testing.T) {
	e := &fakeengine.Engine{Dialect: "vllm"}
	o := options(fakeengine.NewWire(map[string]http.Handler{"one": e}), "one")
	names, salts := map[string]bool{}, map[string]bool{}
	for range 2 {
		u := open(t, o)
		assert.Regexp(t, "^pf-[A-Z2-7]{8}$", u.name)
		names[u.name] = true
		require.NoError(t, u.engines[0].putInService(t.Context()), "as if it had been away")
	}
	assert.Len(t, names, 2)
	for _, c := range e.Calls("/inference/v1/generate") {
		var q struct {
			ID   string `json:"request_id"`
			Salt string `json:"cache_salt"`
		}
		require.NoError(t, json.Unmarshal(c.Body, &q))
		if strings.HasPrefix(q.ID, "pilotfish-") {
			salts[q.Salt] = true
		}
	}
	assert.Len(t, salts, 4)
}

// lingering delays the end of requests that are cancelled.
type lingering struct{ *fakeengine.Wire }

func (l lingering) RoundTrip(r *http.Request) (*http.Response, error) {
	w, err := l.Wire.RoundTrip(r)
	if r.Context().Err() != nil {
		time.Sleep(time.Second)
	}
	return w, err
}

// TestCloseWaits: Close returns when the last check has ended.
func TestCloseWaits(t *testing.T) {
	f := &fault{doing: hang, all: true}
	bubble.Test(t, func(t *testing.T) {
		w := fakeengine.NewWire(map[string]http.Handler{"one": &fakeengine.Engine{Dialect: "llama", Fault: f.answer}})
		o := options(w, "one")
		o.Transport = lingering{w}
		u, err := Open(t.Context(), o)
		require.NoError(t, err)
		f.on.Store(true)
		time.Sleep(pulse + time.Second) // in virtual time: a check hangs
		began := time.Now()
		u.Close()
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// stubbornEngine is an engine that never completes a request to abort a question.
type stubbornEngine struct {
	stuck, away atomic.Bool  // it does not answer questions, or nothing
	aborting    atomic.Int64 // open requests to abort
}

func (e *stubbornEngine) engine() *fakeengine.Engine {
	return &fakeengine.Engine{Dialect: "sglang", Fault: func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		switch {
		case r.URL.Path == "/abort_request":
			e.aborting.Add(1)
			hang(w, r)
			e.aborting.Add(-1)
		case e.away.Load():
			broken(w, r)
		case e.stuck.Load() && r.URL.Path == "/generate":
			hang(w, r)
		default:
			return false
		}
		return true
	}}
}

// TestBackWhileAborting: an engine that comes back answers at once, although requests to abort earlier questions still
// wait for it. The Upstream waits for these requests at its end.
func TestBackWhileAborting(t *testing.T) {
	e := &stubbornEngine{}
	inWorld(t, []*fakeengine.Engine{e.engine()}, nil, func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		e.stuck.Store(true)
		require.ErrorIs(t, ask(t, u, 2, 10*time.Millisecond), netproto.TooLate)
		synctest.Wait()
		require.Positive(t, e.aborting.Load())
		e.away.Store(true)
		require.Error(t, ask(t, u, 3, time.Second))
		e.away.Store(false)
		e.stuck.Store(false)
		began := time.Now()
		for u.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, ask(t, u, 4, time.Second))
		assert.Equal(t, (pulseTime + firstPause).Round(time.Second), time.Since(began).Round(time.Second))
		assert.Positive(t, e.aborting.Load(), "of the check that hung, too")
	})
	assert.Zero(t, e.aborting.Load())
}

// TestAbortsAtTheEnd: nothing is left of an Upstream, neither of an examination that failed nor of a question that was
// open while its engine went and came back.
func TestAbortsAtTheEnd(t *testing.T) {
	e := &stubbornEngine{}
	check := func(t *testing.T, _ *fakeengine.Wire, u *Upstream) {
		e.stuck.Store(true)
		open := make(chan error, 1)
		go func() { open <- ask(t, u, 2, time.Minute) }()
		synctest.Wait()
		e.stuck.Store(false)
		e.away.Store(true)
		require.Error(t, ask(t, u, 3, time.Second))
		time.Sleep(5 * time.Second)
		require.Error(t, u.Ready())
		e.away.Store(false)
		for u.Ready() != nil {
			time.Sleep(time.Second)
		}
		require.ErrorIs(t, <-open, netproto.TooLate)
		synctest.Wait()
		require.Positive(t, e.aborting.Load())
	}
	inWorld(t, []*fakeengine.Engine{e.engine()}, nil, check)
	assert.Zero(t, e.aborting.Load())

	e.stuck.Store(true)
	bubble.Test(t, func(t *testing.T) {
		_, err := Open(t.Context(), options(fakeengine.NewWire(map[string]http.Handler{"one": e.engine()}), "one"))
		require.Error(t, err)
	})
	assert.Zero(t, e.aborting.Load())
}

// TestEngineStatsBounds: a number that an engine reports counts up to the max that is possible.
func TestEngineStatsBounds(t *testing.T) {
	a := dialect.Ask{Context: make([]int32, 10)}
	var s EngineStats
	s.countAnswer(a, dialect.Reply{Cached: 99}, time.Second)
	s.countAnswer(a, dialect.Reply{Cached: -1}, time.Second)
	assert.Equal(t, EngineStats{Answered: 2, Context: 10, Cached: 10, took: 2 * time.Second}, s)
	assert.Equal(t, 2*time.Second+20*time.Millisecond, s.usualTime(), "twice the mean")
}
