package batch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// TestDroppedStates: tokens whose states were dropped are evaluated again as rows of the question that needs them, and
// counted for it. A repeated question computes nothing, as its answer is known.
func TestDroppedStates(t *testing.T) {
	m := modelOf(t, synth.Tiny35)
	kv, err := m.NewKV(300, gguf.F16)
	require.NoError(t, err)
	s, err := batch.New(m, kv, batch.Options{Rows: 32, Context: 200})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	text := make([]int32, 101)
	for i := range text {
		text[i] = int32(3 * i)
	}
	ask := func(session uint64, n int) batch.Answer {
		q := terms.Job{Session: session, Question: terms.Question{Context: text[:n], K: 2}}
		a, err := s.Ask(t.Context(), q)
		require.NoError(t, err)
		want := reference(t, m, q)
		require.Equal(t, want.Token, a.Token)
		require.Equal(t, want.Top, a.Top)
		return a
	}
	drop := func() { kv.(backend.DeltaKV).Trim(0, 0) }
	assert.Equal(t, 100, ask(1, 100).Computed)
	assert.Equal(t, 1, ask(1, 101).Computed)
	drop()
	assert.Zero(t, ask(1, 101).Computed, "the answer is known")
	a := ask(2, 101) // shares the tokens, and their states as soon as they are there
	assert.Zero(t, a.Computed)
	drop()
	assert.Equal(t, 90, ask(1, 90).Computed, "the head after token 90 was not computed before")
	drop()
	text[95]++
	a = ask(3, 101)
	assert.Equal(t, []int{101, 0}, []int{a.Computed, a.Reused})
	text[99]++
	assert.Equal(t, 2, ask(3, 101).Computed)
}

// TestSharedStates: 200 sessions with the same beginning share its states, so that their memory is bounded.
func TestSharedStates(t *testing.T) {
	m := modelOf(t, synth.Tiny35)
	kv, err := m.NewKV(600, gguf.F16)
	require.NoError(t, err)
	s, err := batch.New(m, kv, batch.Options{Context: 200})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	text := make([]int32, 122)
	for session := range uint64(200) {
		text[120], text[121] = int32(session), 7
		a, err := s.Ask(t.Context(), terms.Job{Session: session, Question: terms.Question{Context: text, K: 1}})
		require.NoError(t, err)
		assert.Equal(t, map[bool]int{true: 122, false: 2}[session == 0], a.Computed)
	}
	assert.LessOrEqual(t, kv.Bytes(), kv.Config().Bytes())
}
