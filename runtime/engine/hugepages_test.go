package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
)

// large writes a model with about 15 MB of weights.
func large(t *testing.T) (path string) {
	t.Helper()
	if hugemem.Size() == 0 {
		t.Skip("this system has no huge pages")
	}
	recipe, err := synth.ParseRecipe("f16")
	require.NoError(t, err)
	s := synth.Tiny(recipe, 4)
	s.FFN, s.Layers = 1024, 8
	path = filepath.Join(t.TempDir(), "large.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(f, nil))
	require.NoError(t, f.Close())
	return path
}

// TestWeightsMove: the weights move while several texts are generated, and no logit changes.
func TestWeightsMove(t *testing.T) {
	path := large(t)
	logits := func(e *Engine, n int32) []float32 {
		l, _, err := e.Logits(t.Context(), []int32{1, n, 3}, 1)
		assert.NoError(t, err)
		return slices.Clone(l)
	}
	still, err := Open(path, Options{Threads: 2, HugePages: HugeOff})
	require.NoError(t, err)
	var want [4][]float32
	for i := range want {
		want[i] = logits(still, int32(i))
	}
	w, err := still.Weights(t.Context())
	require.NoError(t, err)
	assert.EqualError(t, w.Stay, "huge pages are off")
	assert.Zero(t, w.Small)
	require.NoError(t, still.Close())

	for _, o := range []HugePages{HugeAuto, HugeOn} {
		e, err := Open(path, Options{Threads: 2, HugePages: o})
		require.NoError(t, err)
		var texts sync.WaitGroup
		for i := range want {
			texts.Go(func() {
				for range 5 {
					assert.Equal(t, want[i], logits(e, int32(i)))
				}
			})
		}
		w, err := e.Weights(t.Context())
		require.NoError(t, err)
		require.NoError(t, w.Stay)
		assert.Equal(t, e.File().Size(), w.Bytes)
		assert.Greater(t, w.Huge+w.Small, w.Bytes-3*int64(hugemem.Size()), "all except the ends of the file")
		texts.Wait()
		assert.Equal(t, want[0], logits(e, 0))
		require.NoError(t, e.Close())
		_, err = e.Weights(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
	}
}

// TestWeightsMoveUnasked: weights start to move after some calls without a call of Weights, and not earlier.
func TestWeightsMoveUnasked(t *testing.T) {
	e, err := Open(large(t), Options{Threads: 1, HugePages: HugeOn})
	require.NoError(t, err)
	defer e.Close()
	require.EqualValues(t, 32, callsBeforeMove, "as Weights says")
	for range callsBeforeMove {
		select {
		case <-e.move.done:
			t.Fatal("after a few calls")
		default:
		}
		p, err := e.File().Placement()
		require.NoError(t, err)
		assert.Zero(t, p.Small)
		_, _, err = e.Logits(t.Context(), []int32{1}, 1)
		require.NoError(t, err)
	}
	<-e.move.done
	assert.NoError(t, e.move.stay)
}

// TestCloseWhileWeightsMove: closing ends a move that has begun, with and without waiting for it.
func TestCloseWhileWeightsMove(t *testing.T) {
	path := large(t)
	for range 5 {
		e, err := Open(path, Options{Threads: 1})
		require.NoError(t, err)
		for range callsBeforeMove {
			_, _, err = e.Logits(t.Context(), []int32{1}, 1)
			require.NoError(t, err)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := e.Weights(t.Context()); err != nil {
				assert.ErrorIs(t, err, ErrClosed)
			}
		})
		require.NoError(t, e.Close())
		waiting.Wait()
	}
}

// TestWeightsWaits: a call that waits for the weights to move ends with its context, with the cause, or with the
// engine, and keeps neither open.
func TestWeightsWaits(t *testing.T) {
	e := small(t, Options{}, nil)
	e.move.wanted = true
	e.move.begin.Do(func() {}) // as if the move had begun; it does not end
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := e.Weights(ctx)
	assert.ErrorIs(t, err, why)
	assert.ErrorIs(t, err, context.Canceled)
	e.end(ErrClosed)
	_, err = e.Weights(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorContains(t, err, "small: ")
}

// TestWeightsStay: weights stay in place if requested or if moving is impossible, with a reason. If moving is required
// but impossible, the result is an error.
func TestWeightsStay(t *testing.T) {
	e := small(t, Options{}, nil)
	w, err := e.Weights(t.Context())
	require.NoError(t, err)
	assert.EqualError(t, w.Stay, "the model is not mapped from a file")
	assert.Zero(t, w.Huge)
	_, err = New(smallest(t, nil), "small", Options{HugePages: HugeOn})
	assert.EqualError(t, err, "load small: weights cannot move into huge pages: the model is not mapped from a file")
	_, err = New(smallest(t, nil), "small", Options{HugePages: "yes"})
	assert.ErrorContains(t, err, `huge pages cannot be "yes"`)
}

// TestWeightsLackMemory: with little free memory weights move only if that is required.
func TestWeightsLackMemory(t *testing.T) {
	path := large(t)
	for o, want := range map[HugePages]string{HugeAuto: "12 MB of memory are free, the weights and", HugeOn: ""} {
		e, err := Open(path, Options{Threads: 1, HugePages: o})
		require.NoError(t, err)
		e.move.free = func() (uint64, error) { return 12e6, nil }
		w, err := e.Weights(t.Context())
		require.NoError(t, err)
		if want == "" {
			assert.NoError(t, w.Stay)
			assert.Positive(t, w.Huge+w.Small)
		} else if assert.ErrorContains(t, w.Stay, want) {
			assert.Zero(t, w.Small)
		}
		require.NoError(t, e.Close())
	}
}

// TestTooLittle: weights move by default only if enough memory remains.
func TestTooLittle(t *testing.T) {
	assert.NoError(t, checkSpareMemory(spareMemory+1000, 1000))
	assert.EqualError(t, checkSpareMemory(500_000_000+spareMemory-1, 500_000_000),
		"768 MB of memory are free, the weights and 268 MB to spare would be 768 MB")
	assert.Error(t, checkSpareMemory(100<<20+500_000_000, 500_000_000), "a limit of 100 MB above the file")
}
