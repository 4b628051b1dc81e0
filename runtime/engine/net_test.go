package engine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// TestQuestionOf: all of a gateway's question that the service knows reaches it.
func TestQuestionOf(t *testing.T) {
	q := gateway.Question{Device: 1, Session: 2, Context: []int32{3}, Base: 4, AuditFrom: 5, K: 6,
		Sampling: netproto.Sampling{Temperature: 0.7, TopK: 8, TopP: 0.9, Seed: 10}}
	want := batch.Question{Device: 1, Session: 2, Context: []int32{3}, AuditFrom: 5, K: 6,
		Sampling: sample.Options{Temperature: 0.7, TopK: 8, TopP: 0.9, Seed: 10}}
	assert.Equal(t, want, questionOf(q))
	q.K = 0
	assert.Equal(t, 1, questionOf(q).K)
}

// TestWarmGivesWay: what is computed ahead takes no memory of others, and says that it was left.
func TestWarmGivesWay(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, synth.Tiny(recipe, 3).Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	e, err := New(f, "tiny", Options{Context: 40})
	require.NoError(t, err)
	defer e.Close()
	s, err := e.Serve(ServeOptions{Slots: 40})
	require.NoError(t, err)
	defer s.Close()
	u := upstream{s: s}
	text := make([]int32, 35)
	require.NoError(t, u.Warm(t.Context(), gateway.Question{Session: 1, Device: 1, Context: text}))
	assert.EqualValues(t, 35, s.Stats().Computed)
	_, err = u.Ask(t.Context(), gateway.Question{Session: 1, Device: 1, Context: text})
	require.NoError(t, err)
	err = u.Warm(t.Context(), gateway.Question{Session: 2, Device: 2, Context: text})
	require.ErrorIs(t, err, netproto.Busy)
	require.ErrorIs(t, err, batch.ErrShed)
	assert.EqualValues(t, 1, s.Stats().Shed)
}
