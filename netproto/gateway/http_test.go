package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
)

// inBothWorlds plays a scene twice: with a fake as the upstream, and with a fake as the engine of an HTTP upstream.
func inBothWorlds(t *testing.T, opt gateway.Options, model func() *fake, scene func(t *testing.T, w *world, up *fake)) {
	t.Run("here", func(t *testing.T) {
		up := model()
		inWorld(t, opt, up, func(t *testing.T, w *world) { scene(t, w, up) })
	})
	t.Run("over HTTP", func(t *testing.T) {
		up := model()
		bubble.Test(t, func(t *testing.T) {
			u := overHTTP(t, up)
			w := newWorld(t, &ether{}, opt, u)
			scene(t, w, up)
			w.stop()
			u.Close()
		})
	})
}

// overHTTP returns an Upstream with an engine, a llama-server, that asks a fake.
func overHTTP(t *testing.T, up *fake) *upstream.Upstream {
	t.Helper()
	var serving atomic.Bool
	var pieces [][]byte
	for id := range vocab {
		pieces = append(pieces, fmt.Appendf(nil, "<%d>", id))
	}
	pieces[1] = []byte("a") // which the comparison of vocabularies begins with
	v := fakeengine.VocabularyOf(pieces, vocab, func(string) []int32 { return []int32{1} })
	e := &fakeengine.Engine{Dialect: "llama", Vocabulary: v, MaxContext: 4097, Slots: max(up.parallel, 32)}
	e.Fault = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path != "/completion" || !serving.Load() {
			return false
		}
		completion(up, w, r, body)
		return true
	}
	u, err := upstream.Open(t.Context(), upstream.Options{
		URLs: []string{"http://engine"}, Vocabulary: vocabulary{v}, Identity: identity(), Parallel: up.parallel,
		Transport: fakeengine.NewWire(map[string]http.Handler{"engine": e}),
		Draw: func(s terms.Sampling, _ int, top []terms.Candidate, _ int32) (int32, float32, float32, error) {
			return top[s.Seed%uint64(len(top))].ID, 0, 0, nil
		},
	})
	require.NoError(t, err)
	serving.Store(true)
	return u
}

// vocabulary has a unique text for each token.
type vocabulary struct{ *fakeengine.Vocabulary }

// completion answers /completion with the answer of the fake.
func completion(up *fake, w http.ResponseWriter, r *http.Request, body []byte) {
	var q struct {
		Prompt []int32
		Probs  int `json:"n_probs"`
	}
	if json.Unmarshal(body, &q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a, err := up.Ask(r.Context(), terms.Job{Question: terms.Question{Context: q.Prompt, K: q.Probs}})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var top []map[string]any
	for _, c := range a.Top {
		top = append(top, map[string]any{"id": c.ID, "logprob": c.LogProb})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": []int32{a.Token}, // it goes to memory
		"completion_probabilities": []map[string]any{{"id": a.Token, "logprob": -0.1, "top_logprobs": top}}})
}

// TestDeadEngineHoldsNobodyUp: while an engine hangs, connections are welcomed, syncs are accepted, and the gateway can
// stop.
func TestDeadEngineHoldsNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		up := &fake{hold: make(chan struct{})}
		u := overHTTP(t, up)
		w := newWorld(t, &ether{}, gateway.Options{}.With(gateway.Shares{DrainTimeout: 2 * time.Second}), u)
		r := w.enter(guest{})
		for i := range int32(40) {
			r.send(packed(t, 1, 0, netproto.RootHash, path(20, i)).Append(nil))
		}
		settle()
		began := time.Now()
		other := w.enter(guest{device: 7})
		kind, _ := other.say(syncOf(t, 2, path(300, 2)))
		require.Equal(t, netproto.KindAck, kind)
		require.Less(t, time.Since(began), time.Second)
		require.NotEmpty(t, u.Stats().Engines)
		began = time.Now()
		w.stop()
		require.Less(t, time.Since(began), 4*time.Second, "open questions get only the time of a drain")
		u.Close()
	})
}
