package engine

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/phase"
	"github.com/pilotfish-ai/pilotfish/internal/phase/phasetest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// watched is a device that records the phases of its passes: of the caller, and of the labels of its workers.
type watched struct {
	backend.Device
	t             testing.TB
	calls, labels []string
}

func (d *watched) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	d.calls = append(d.calls, phaseHere(d.t))
	return d.Device.Begin(kv, rows)
}

func (d *watched) Label(set *func()) {
	labelled := make(chan string)
	go func() {
		(*set)()
		labelled <- phaseHere(d.t)
	}()
	d.labels = append(d.labels, <-labelled)
}

// phaseHere returns the phase of the calling goroutine, "" for none.
func phaseHere(t testing.TB) string {
	if all := phasetest.Here(t)[phase.Label]; len(all) > 0 {
		return all[0]
	}
	return ""
}

// watchedSmall opens the smallest model on such a device.
func watchedSmall(t *testing.T) (*Engine, *watched) {
	e := small(t, Options{}, nil)
	e.model.Close()
	d := &watched{Device: e.device, t: t}
	e.device = d
	var err error
	e.model, err = qwen.Load(e.file, d)
	require.NoError(t, err)
	return e, d
}

// TestPhases: passes and workers are labelled with their phase, and no label is left.
func TestPhases(t *testing.T) {
	e, d := watchedSmall(t)
	s, err := e.NewSession()
	require.NoError(t, err)
	three := terms.Settings{MaxTokens: 3, IgnoreEnd: true, Lookup: -1}
	for _, err := range s.Generate(t.Context(), []int32{1, 2, 3}, three) {
		require.NoError(t, err)
		assert.Equal(t, "draft", phaseHere(t))
	}
	assert.Empty(t, phaseHere(t))
	assert.Equal(t, []string{"prompt", "draft", "draft"}, d.calls)
	assert.Equal(t, d.calls, d.labels)

	d.calls, d.labels = nil, nil
	_, _, err = e.Logits(t.Context(), []int32{1}, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{""}, d.calls)
	assert.Equal(t, []string{""}, d.labels, "without a phase the workers' labels are cleared")

	d.calls, d.labels = nil, nil
	large, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer large.Close()
	_, err = large.Ask(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1, 2}, K: 1}})
	require.NoError(t, err)
	assert.Equal(t, []string{"compute"}, slices.Compact(d.calls))
	assert.Equal(t, d.calls, d.labels)
}

// TestPhaseOfSeveral: calls with several rows are labelled, too.
func TestPhaseOfSeveral(t *testing.T) {
	e, d := watchedSmall(t)
	s, err := e.NewSession()
	require.NoError(t, err)
	m := newEdge(s, backend.Want{K: 2}, 0)
	ctx := phase.With(t.Context(), phase.Draft)
	_, err = m.Prefill(ctx, []int32{1, 2})
	require.NoError(t, err)
	d.labels = nil
	_, err = m.Extend(ctx, []draft.Node{{ID: 1, Token: 3, Pos: 2}, {ID: 2, Token: 4, Pos: 2}})
	require.NoError(t, err)
	assert.Equal(t, []string{"draft"}, d.labels)

	var order []string
	settling, drafting := func() { order = append(order, "settle") }, func() { order = append(order, "draft") }
	m.settling, m.drafting = &settling, &drafting
	m.Drop(2)
	m.Settle(1)
	assert.Equal(t, []string{"settle", "draft"}, order)
}

// TestPhaseOfAsk: a question to the cloud is labelled, in this process and over the network.
func TestPhaseOfAsk(t *testing.T) {
	e := small(t, Options{}, nil)
	large, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer large.Close()
	far, err := e.Dial(t.Context(), "127.0.0.1:1", DialOptions{Lazy: true})
	require.NoError(t, err)
	defer far.Close()
	session, end, err := far.Session(t.Context())
	require.NoError(t, err)
	defer end()
	for _, c := range []draft.Cloud{large.Local(1), session} {
		over, stop := context.WithCancel(t.Context())
		stop()
		seen := &seeing{Context: over, t: t}
		ctx := phase.With(seen, phase.Draft)
		leave := phase.Enter(ctx, t.Context())
		_, err = c.Ask(ctx, draft.Question{Context: []int32{1}})
		assert.Equal(t, "draft", phaseHere(t), "as before")
		leave()
		assert.ErrorIs(t, err, context.Canceled)
		seen.mu.Lock()
		assert.Equal(t, []string{"ask"}, slices.Compact(seen.labels), "%T", c)
		seen.mu.Unlock()
	}
}

// seeing is a context that records the labels of the goroutines that wait for its end.
type seeing struct {
	context.Context
	t      testing.TB
	mu     sync.Mutex
	labels []string
}

func (s *seeing) Done() <-chan struct{} { s.see(); return s.Context.Done() }

func (s *seeing) Err() error { s.see(); return s.Context.Err() }

func (s *seeing) see() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labels = append(s.labels, phaseHere(s.t))
}
