package engine

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// TestServeOptions: memory and steps of a service are what is asked for, and never less than one context.
func TestServeOptions(t *testing.T) {
	e := small(t, Options{Context: 16}, nil)
	for slots, ok := range map[int]bool{15: false, 16: true, 100: true, -1: false} {
		s, err := e.Serve(ServeOptions{Slots: slots})
		if !ok {
			assert.ErrorContains(t, err, "is less than one context of 16 tokens")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, slots, s.Slots())
		assert.Equal(t, slots, s.Stats().Slots)
		assert.Equal(t, 16, s.Context())
		_, err = s.Ask(t.Context(), batch.Question{Context: make([]int32, 16), K: 1})
		assert.NoError(t, err)
		_, err = s.Ask(t.Context(), batch.Question{Context: make([]int32, 17), K: 1})
		assert.ErrorIs(t, err, batch.ErrContext)
		s.Close()
	}
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	assert.Equal(t, 256*16, s.Slots(), "as much as there is memory for, at most 256 contexts")
	assert.Equal(t, 128, s.Rows())
	s.Close()
	_, err = e.Serve(ServeOptions{Rows: -1})
	assert.ErrorContains(t, err, "rows")
	s, err = e.Serve(ServeOptions{Slots: 16, Rows: 4})
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, 4, s.Rows())
	_, err = s.Ask(t.Context(), batch.Question{Context: make([]int32, 12), K: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 3, s.Stats().Steps, "twelve tokens in steps of four")
}

// TestAnswerTime: no answer comes before its time, and whoever has gone does not wait for it.
func TestAnswerTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := small(t, Options{}, nil)
		s, err := e.Serve(ServeOptions{AnswerTime: 300 * time.Millisecond})
		require.NoError(t, err)
		defer s.Close()
		cloud := s.Local(1)
		begin := time.Now()
		a, err := cloud.Ask(t.Context(), draft.Question{Context: []int32{1}})
		require.NoError(t, err)
		assert.Equal(t, 300*time.Millisecond, time.Since(begin))
		assert.Equal(t, 300*time.Millisecond, a.Queue+a.Cloud)
		why := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
		begin = time.Now()
		_, err = cloud.Ask(ctx, draft.Question{Context: []int32{1}})
		assert.Equal(t, why, err)
		assert.Equal(t, 100*time.Millisecond, time.Since(begin))
		begin = time.Now()
		_, err = cloud.Ask(t.Context(), draft.Question{})
		assert.ErrorIs(t, err, batch.ErrContext)
		assert.Zero(t, time.Since(begin), "an error does not wait")

		done, err := e.hold(t.Context()) // a model that is slower than that
		require.NoError(t, err)
		begin = time.Now()
		time.AfterFunc(time.Second, done)
		a, err = cloud.Ask(t.Context(), draft.Question{Context: []int32{9}})
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(begin))
		assert.Equal(t, time.Second, a.Queue+a.Cloud)

		quick, err := e.Serve(ServeOptions{})
		require.NoError(t, err)
		defer quick.Close()
		begin = time.Now()
		a, err = quick.Local(1).Ask(t.Context(), draft.Question{Context: []int32{1}})
		require.NoError(t, err)
		assert.Zero(t, time.Since(begin))
		assert.Zero(t, a.Queue+a.Cloud)
	})
}

// TestLocalAsks: sessions of one service are apart, and each question is answered as it says.
func TestLocalAsks(t *testing.T) {
	e := small(t, Options{}, nil)
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer s.Close()
	text := []int32{1, 2, 3, 4, 5, 6}
	a, err := s.Local(1).Ask(t.Context(), draft.Question{Context: text, K: 2, AuditFrom: 3})
	require.NoError(t, err)
	logits, top, err := e.Logits(t.Context(), text, 2)
	require.NoError(t, err)
	assert.Equal(t, top[0].ID, a.Token)
	require.Len(t, a.Top, 2)
	sum, all := 0.0, 0.0
	for _, l := range logits {
		all += math.Exp(float64(l))
	}
	for i, c := range a.Top {
		assert.Equal(t, top[i].ID, c.ID)
		assert.InDelta(t, float64(top[i].Logit)-math.Log(all), c.Logit, 1e-4, "log-probabilities")
		sum += math.Exp(float64(c.Logit))
	}
	assert.Less(t, sum, 1.0)
	assert.Equal(t, 3, a.Audited)
	var differ []draft.Finding
	for pos := 3; pos < len(text); pos++ {
		_, best, err := e.Logits(t.Context(), text[:pos], 1)
		require.NoError(t, err)
		if best[0].ID != text[pos] {
			differ = append(differ, draft.Finding{Pos: pos, Token: best[0].ID})
		}
	}
	require.NotEmpty(t, differ)
	require.Len(t, a.Audit, len(differ))
	for i, f := range a.Audit {
		assert.Equal(t, differ[i].Pos, f.Pos)
		assert.Equal(t, differ[i].Token, f.Token)
		assert.Negative(t, f.LogProb)
	}
	computed := s.Stats().Computed
	none, err := s.Local(1).Ask(t.Context(), draft.Question{Context: text})
	require.NoError(t, err)
	assert.Empty(t, none.Top)
	assert.Zero(t, none.Audited)
	assert.Equal(t, computed, s.Stats().Computed, "known in its session")
	_, err = s.Local(2).Ask(t.Context(), draft.Question{Context: text})
	require.NoError(t, err)
	assert.Equal(t, computed+6, s.Stats().Computed, "not in another one")
	assert.Equal(t, 2, s.Stats().Sessions)
	_, err = s.Local(2).Ask(t.Context(), draft.Question{Context: text, Sampling: sample.Options{TopK: -1}})
	assert.ErrorContains(t, err, "top-k")
}

// TestTurnsEndWithTheEngine: a call of the service that waits for its turn ends when the engine is closed, and its error
// says in which model.
func TestTurnsEndWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(smallest(t, nil), "small", Options{Threads: 1})
		require.NoError(t, err)
		s, err := e.Serve(ServeOptions{})
		require.NoError(t, err)
		done, err := e.hold(t.Context())
		require.NoError(t, err)
		asked := make(chan error)
		go func() {
			_, err := s.Ask(context.Background(), batch.Question{Context: []int32{1}, K: 1})
			asked <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- e.Close() }()
		err = <-asked
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorContains(t, err, "small: ")
		_, err = s.Ask(t.Context(), batch.Question{Context: []int32{1}, K: 1})
		assert.EqualError(t, err, "small: "+ErrClosed.Error())
		done()
		require.NoError(t, <-closed)
		s.Close()
	})
}
