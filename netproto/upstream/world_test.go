package upstream

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// wire carries requests to engines in this process, by host, in virtual time if that is how the test runs.
type wire struct {
	mu      sync.Mutex
	engines map[string]http.Handler // nil: there is nobody
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	h := w.engines[r.URL.Host]
	w.mu.Unlock()
	if h == nil {
		return nil, io.ErrUnexpectedEOF
	}
	done := make(chan *http.Response, 1)
	go func() {
		defer func() {
			if recover() != nil { // the handler broke the connection
				close(done)
			}
		}()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		done <- answer.Result()
	}()
	select {
	case answer, ok := <-done:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		return answer, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// set puts an engine at a host, or nobody.
func (w *wire) set(host string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines[host] = h
}

func newWire(engines map[string]http.Handler) *wire { return &wire{engines: engines} }

// options are those of an Upstream that asks engines at hosts.
func options(w *wire, hosts ...string) Options {
	v := fakeengine.NewVocabulary()
	o := Options{
		Vocabulary: v, Identity: netproto.Identity{Vocab: v.Size()}, Draw: drawn, Transport: w,
		AuditEvery: 1, SaltKey: [32]byte{1},
	}
	for _, h := range hosts {
		o.URLs = append(o.URLs, "http://"+h)
	}
	return o
}

// open opens an Upstream for the time of the test.
func open(t *testing.T, o Options) *Upstream {
	t.Helper()
	u, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return u
}

// drawn takes the token that seed and position point at.
func drawn(s netproto.Sampling, pos int, top []netproto.Candidate) (int32, error) {
	return top[(int(s.Seed)+pos)%len(top)].ID, nil
}

// context returns n tokens.
func contextOf(r *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(300)
	}
	return ids
}

// truth is what an engine should say of a context: its tokens, the most probable first.
func truth(e *fakeengine.Engine, context []int32) (all []netproto.Candidate) {
	model := e.Model
	if model == nil {
		model = fakeengine.Table(fakeengine.NewVocabulary(), 1)
	}
	for id, p := range model(context) {
		all = append(all, netproto.Candidate{ID: int32(id), LogProb: float32(p)})
	}
	slices.SortStableFunc(all, func(a, b netproto.Candidate) int { return cmp.Compare(b.LogProb, a.LogProb) })
	return all
}

func question(session uint64, context []int32) gateway.Question {
	return gateway.Question{Client: 1, Device: 2, Session: session, Context: context}
}
