package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// anyQuestion continues a context that was asked before, branches off, repeats it, or begins a new one.
func anyQuestion(r *rand.Rand, before [][]int32, longest int, vocab int32) terms.Job {
	var text []int32
	if len(before) > 0 && r.IntN(5) > 0 {
		old := before[r.IntN(len(before))]
		text = append(text, old[:1+r.IntN(len(old))]...)
	}
	more := 1 + r.IntN(10)
	if len(before) > 0 && r.IntN(5) == 0 {
		text, more = slices.Clone(before[len(before)-1-r.IntN(min(5, len(before)))]), 0
	}
	for range more {
		if len(text) < longest {
			text = append(text, r.Int32N(vocab))
		}
	}
	q := terms.Job{Session: r.Uint64N(4), Priority: when(r.IntN(5) == 0, terms.Background),
		Question: terms.Question{Context: text, K: 1 + r.IntN(4)}}
	q.Device = q.Session % 3
	switch r.IntN(8) {
	case 0, 1:
		q.Sampling = terms.Sampling{Temperature: 1, TopP: 0.9, Seed: r.Uint64()}
	case 2:
		q.K = 1 + r.IntN(256)
	}
	if r.IntN(3) == 0 {
		q.AuditFrom = 1 + r.IntN(len(text))
	}
	return q
}

// anyVerified returns any question. In two of three cases all its positions from one on are verified; a background
// question is in one of two cases about a token ahead.
func anyVerified(r *rand.Rand, before [][]int32, longest int, vocab int32) terms.Job {
	q := anyQuestion(r, before, longest, vocab)
	if q.Priority == terms.Background {
		if r.IntN(2) == 0 {
			q.AuditFrom, q.Priority = 0, terms.Ahead
		}
		return q
	}
	if r.IntN(3) == 0 {
		return q
	}
	q.Verify = terms.EachChoice + terms.Verify(r.IntN(3))
	q.AuditFrom = max(1, len(q.Context)-r.IntN(len(q.Context)+1))
	switch r.IntN(5) {
	case 0:
		q.Sampling = terms.Sampling{Temperature: 0.8, Seed: r.Uint64()}
	case 1, 2:
		q.Sampling = terms.Sampling{Temperature: 0.8, Seed: r.Uint64(), TopK: 1 + r.IntN(40),
			TopP: float64(r.IntN(2)) * 0.9}
	}
	return q
}

// TestSchedules: for any order of questions, cancellations, dropped sessions and errors of the model, with any memory
// and size of steps, each answer is that of its context alone, each question gets one, and no memory leaks. In virtual
// time.
func TestSchedules(t *testing.T) {
	for seed := range seeds(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		room, rows := []int{30, 31, 45, 100, 600}[r.IntN(5)], []int{1, 2, 3, 8, 50}[r.IntN(5)]
		t.Run(fmt.Sprint(seed, " ", room, " slots ", rows, " rows"), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { schedule(t, r, room, rows, anyQuestion) })
		})
	}
}

// TestVerifySchedules: the same holds with verification: each position is answered as a separate question.
func TestVerifySchedules(t *testing.T) {
	for seed := range seeds(100) {
		r := rand.New(rand.NewPCG(seed, 4))
		room, rows := []int{30, 31, 45, 100, 600}[r.IntN(5)], []int{1, 2, 3, 8, 50, 128}[r.IntN(6)]
		t.Run(fmt.Sprint(seed, " ", room, " slots ", rows, " rows"), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { schedule(t, r, room, rows, anyVerified) })
		})
	}
}

func schedule(
	t *testing.T, r *rand.Rand, room, rows int,
	anyQuestion func(r *rand.Rand, before [][]int32, longest int, vocab int32) terms.Job,
) {
	m := &counter{perCall: time.Millisecond, perRow: time.Millisecond}
	s := service(t, m, room, batch.Options{Rows: rows, Context: 30, Now: m.checks(), Apart: r.IntN(4) == 0})
	m.of = s
	bored := errors.New("bored")
	var wait sync.WaitGroup
	var shed, reused atomic.Uint64
	leaves := r.IntN(4) > 0
	var before [][]int32
	domains := 1 + r.Uint64N(3)
	// several devices share a session: one may compute without an audit what another one continues
	mixed := r.IntN(2) == 0
	for range 120 {
		q := anyQuestion(r, before, 30, 40)
		if mixed {
			q.Device = r.Uint64N(3)
		}
		if q.Domain = q.Session % domains; r.IntN(100) == 0 {
			q.Domain = 7 // its session starts again, twice
		}
		before = append(before, q.Context)
		ctx, cancel := context.WithCancelCause(t.Context())
		if leaves && r.IntN(6) == 0 {
			time.AfterFunc(time.Duration(r.IntN(100))*time.Millisecond, func() { cancel(bored) })
		}
		wait.Go(func() {
			defer cancel(nil)
			a, err := s.Ask(ctx, q)
			switch {
			case err == nil:
				right(t, m.answer(t, q), a, q, room >= 600 && !mixed)
				reused.Add(uint64(a.Reused))
			case q.Priority != terms.Foreground && errors.Is(err, batch.ErrShed):
				shed.Add(1)
			case errors.Is(err, bored), errors.Is(err, errBroken):
			default:
				assert.NoError(t, err)
			}
		})
		disturb(t, r, s, m)
	}
	wait.Wait()
	for session := range uint64(4) {
		require.NoError(t, s.Forget(t.Context(), session))
	}
	synctest.Wait()
	if st := s.Stats(); !leaves { // a caller that leaves does not see the answer
		assert.Equal(t, shed.Load(), st.Shed, "shed")
		assert.Equal(t, reused.Load(), st.Reused, "reused")
	}
	checkOver(t, s, m, rows)
	s.Close()
}

// disturb sometimes drops a session, breaks the model for a moment, or lets time pass.
func disturb(t *testing.T, r *rand.Rand, s *batch.Service, m *counter) {
	switch r.IntN(12) {
	case 0:
		require.NoError(t, s.Forget(t.Context(), r.Uint64N(4)))
	case 1:
		synctest.Wait()
		m.broken.Store(true)
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		m.broken.Store(false)
	case 2, 3, 4:
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
	}
}

// checkOver checks a service that has dropped all its sessions: nothing is in use, and no call was larger than allowed.
func checkOver(t *testing.T, s *batch.Service, m *counter, rows int) {
	st := s.Stats()
	assert.Zero(t, st.InUse, "tokens in use")
	assert.Zero(t, st.Sessions, "sessions")
	assert.Zero(t, st.Waiting, "waiting questions")
	assert.Zero(t, batch.Lent(s), "logits in use")
	assert.EqualValues(t, m.steps, st.Steps, "steps")
	assert.EqualValues(t, m.done, st.Computed, "computed")
	for _, call := range m.calls {
		assert.LessOrEqual(t, call.rows, rows)
		assert.LessOrEqual(t, call.heads*call.depth(), max(8*rows, 256), "%+v", call)
	}
	require.NoError(t, m.wrong)
	require.NoError(t, batch.CheckAtRest(s))
}
