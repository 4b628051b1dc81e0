package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestServeOptions: memory and steps of a service are the requested ones; memory is at least one context.
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
		_, err = s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, 16), K: 1}})
		assert.NoError(t, err)
		_, err = s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, 17), K: 1}})
		assert.ErrorIs(t, err, batch.ErrContext)
		s.Close()
	}
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	assert.Equal(t, 256*16, s.Slots(), "as much as memory allows, at most 256 contexts")
	assert.Equal(t, 128, s.Rows())
	s.Close()
	_, err = e.Serve(ServeOptions{Rows: -1})
	assert.ErrorContains(t, err, "rows")
	s, err = e.Serve(ServeOptions{Slots: 16, Rows: 4})
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, 4, s.Rows())
	_, err = s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: make([]int32, 12), K: 1}})
	require.NoError(t, err)
	assert.EqualValues(t, 3, statsOf(t, s).Steps, "twelve tokens in steps of four")
	for _, id := range []int32{-1, 300} {
		_, err = s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: []int32{1, id}, K: 1}})
		assert.ErrorContains(t, err, fmt.Sprintf("token 1 of the context is %d", id))
	}
	assert.EqualValues(t, 3, statsOf(t, s).Steps, "it is in no step, which would fail for other questions, too")
}

// TestAnswerTime: no answer arrives before the min time, and a cancelled caller does not wait for it.
func TestAnswerTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := small(t, Options{}, nil)
		s, err := e.Serve(ServeOptions{AnswerTime: 300 * time.Millisecond})
		require.NoError(t, err)
		defer s.Close()
		cloud := s.Local(1)
		begin := time.Now()
		a, err := cloud.Ask(t.Context(), draft.Question{Context: []int32{1}})
		require.NoError(t, err)
		assert.Equal(t, 300*time.Millisecond, time.Since(begin))
		assert.Equal(t, 300*time.Millisecond, a.Queue+a.Compute)
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
		assert.Zero(t, time.Since(begin), "errors are not delayed")

		done, err := e.acquireModel(t.Context()) // a model that is slower than the min time
		require.NoError(t, err)
		begin = time.Now()
		time.AfterFunc(time.Second, done)
		a, err = cloud.Ask(t.Context(), draft.Question{Context: []int32{9}})
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(begin))
		assert.Equal(t, time.Second, a.Queue+a.Compute)

		done, err = e.acquireModel(t.Context()) // a step that others wait for
		require.NoError(t, err)
		go func() { _, _ = cloud.Ask(t.Context(), draft.Question{Context: []int32{7}}) }()
		synctest.Wait()
		time.AfterFunc(100*time.Millisecond, done)
		a, err = cloud.Ask(t.Context(), draft.Question{Context: []int32{8}})
		require.NoError(t, err)
		assert.Equal(t, 100*time.Millisecond, a.Queue)
		assert.Equal(t, 200*time.Millisecond, a.Compute, "the rest of the min time")

		quick, err := e.Serve(ServeOptions{})
		require.NoError(t, err)
		defer quick.Close()
		begin = time.Now()
		a, err = quick.Local(1).Ask(t.Context(), draft.Question{Context: []int32{1}})
		require.NoError(t, err)
		assert.Zero(t, time.Since(begin))
		assert.Zero(t, a.Queue+a.Compute)
	})
}

// TestLocalAsks: sessions of one service are independent, and each question has its own settings.
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
		assert.InDelta(t, float64(top[i].Logit)-math.Log(all), c.LogProb, 1e-4, "log-probabilities")
		sum += math.Exp(float64(c.LogProb))
	}
	assert.Less(t, sum, 1.0)
	assert.Equal(t, 3, a.Audited)
	assert.Equal(t, 6, a.Prefilled)
	var differ []terms.Finding
	for pos := 3; pos < len(text); pos++ {
		_, best, err := e.Logits(t.Context(), text[:pos], 1)
		require.NoError(t, err)
		if best[0].ID != text[pos] {
			differ = append(differ, terms.Finding{Pos: pos, Token: best[0].ID})
		}
	}
	require.NotEmpty(t, differ)
	require.Len(t, a.Audit, len(differ))
	for i, f := range a.Audit {
		assert.Equal(t, differ[i].Pos, f.Pos)
		assert.Equal(t, differ[i].Token, f.Token)
		assert.Negative(t, f.LogProb)
	}
	computed := statsOf(t, s).Computed
	none, err := s.Local(1).Ask(t.Context(), draft.Question{Context: text})
	require.NoError(t, err)
	assert.Empty(t, none.Top)
	assert.Zero(t, none.Prefilled)
	assert.Zero(t, none.Audited)
	assert.Equal(t, computed, statsOf(t, s).Computed, "reused in its session")
	_, err = s.Local(2).Ask(t.Context(), draft.Question{Context: text})
	require.NoError(t, err)
	assert.Equal(t, computed, statsOf(t, s).Computed, "and in another one")
	assert.Equal(t, 2, statsOf(t, s).Sessions)
	drawn := terms.Sampling{Temperature: 0.7, TopK: 8, TopP: 0.9, Seed: 10}
	q := draft.Question{Context: text, K: 5, AuditFrom: 4, Sampling: drawn, Verify: terms.EachScore}
	assert.Equal(t, terms.Job{Question: q, Device: 7, Session: 7}, localCloud{s, 7}.newJob(q))
	_, err = s.Local(2).Ask(t.Context(), draft.Question{Context: text, Sampling: terms.Sampling{TopK: -1}})
	assert.ErrorContains(t, err, "top-k")
}

// TestWaitingEndsWithTheEngine: a call that waits for its turn fails when the engine is closed, with the name of the
// model, even while another call still uses it.
func TestWaitingEndsWithTheEngine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e, err := New(smallest(t, nil), "small", Options{Threads: 1})
		require.NoError(t, err)
		s, err := e.Serve(ServeOptions{})
		require.NoError(t, err)
		session := session(t, e)
		done, err := e.acquireModel(t.Context())
		require.NoError(t, err)
		ask := func() error {
			_, err := s.Ask(context.Background(), terms.Job{Question: terms.Question{Context: []int32{1}, K: 1}})
			return err
		}
		gone, cancel := context.WithCancelCause(t.Context())
		cancel(errBad)
		_, err = s.Ask(gone, terms.Job{Question: terms.Question{Context: []int32{1}}})
		assert.ErrorIs(t, err, errBad)
		assert.ErrorIs(t, err, context.Canceled, "both the cause and how the context ended")
		results := make(chan error)
		for _, call := range []func() error{ask, func() error {
			var last error
			for _, last = range session.Generate(context.Background(), []int32{1}, terms.Settings{}) {
			}
			return last
		}} {
			go func() { results <- call() }()
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- e.Close() }()
		for range 2 {
			err := <-results
			assert.ErrorIs(t, err, ErrClosed)
			assert.ErrorContains(t, err, "small: ")
		}
		assert.EqualError(t, ask(), "small: "+ErrClosed.Error())
		done()
		require.NoError(t, <-closed)
		s.Close()
	})
}

// TestNothingIsLeftBehind: no call leaves a goroutine that waits for the engine to be closed.
func TestNothingIsLeftBehind(t *testing.T) {
	e := small(t, Options{}, nil)
	s, err := e.Serve(ServeOptions{})
	require.NoError(t, err)
	defer s.Close()
	session := session(t, e)
	closing := &held.Context{Context: e.closing}
	e.closing = closing
	route := dictated(t, nil)
	route.Cloud, route.MaxTokens = s.Local(1), 3
	tokens(t, session, []int32{1, 2}, route)
	tokens(t, session, []int32{1, 2}, Route{Settings: terms.Settings{MaxTokens: 3}})
	_, _, err = e.Logits(t.Context(), []int32{1}, 1)
	require.NoError(t, err)
	_, _, err = e.Logits(t.Context(), nil, 1)
	require.Error(t, err)
	assert.Positive(t, closing.Ever.Load())
	assert.Zero(t, closing.Waiting.Load())
}
