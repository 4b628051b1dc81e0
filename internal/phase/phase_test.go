package phase

import (
	"context"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/phase/phasetest"
)

// TestEnter: labels are set and removed, those of the caller stay, and new goroutines inherit them.
func TestEnter(t *testing.T) {
	pprof.Do(t.Context(), pprof.Labels("of", "the caller"), func(outer context.Context) {
		draft := With(outer, Draft)
		leave := Enter(draft, outer)
		assert.Equal(t, map[string][]string{"of": {"the caller"}, "phase": {"draft"}}, phasetest.Here(t))
		done := make(chan map[string][]string)
		go func() { done <- phasetest.Here(t) }()
		assert.Equal(t, []string{"draft"}, (<-done)["phase"])
		back := Enter(With(draft, Prompt), draft)
		assert.Equal(t, []string{"prompt"}, phasetest.Here(t)["phase"])
		back()
		assert.Equal(t, []string{"draft"}, phasetest.Here(t)["phase"])
		leave()
		assert.Equal(t, map[string][]string{"of": {"the caller"}}, phasetest.Here(t))
	})
	None()
	assert.Empty(t, phasetest.Here(t))
}

// TestOf: workers get the labels of the nearest phase; derived contexts share one pointer.
func TestOf(t *testing.T) {
	assert.Nil(t, Of(t.Context()))
	draft := With(t.Context(), Draft)
	below, stop := context.WithCancel(draft)
	defer stop()
	assert.Same(t, Of(draft), Of(below))
	assert.NotSame(t, Of(draft), Of(With(draft, Settle)))
	defer None()
	(*Of(With(below, Settle)))()
	assert.Equal(t, []string{"settle"}, phasetest.Here(t)["phase"])
	(*Of(below))()
	assert.Equal(t, []string{"draft"}, phasetest.Here(t)["phase"])
}

// BenchmarkEnter measures the cost of a phase: in an existing context, and with a new one.
func BenchmarkEnter(b *testing.B) {
	ctx := With(context.Background(), Draft)
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			Enter(ctx, context.Background())()
		}
	})
	b.Run("of", func(b *testing.B) {
		below, stop := context.WithCancel(ctx)
		defer stop()
		for b.Loop() {
			(*Of(below))()
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			Enter(With(context.Background(), Draft), context.Background())()
		}
	})
}
