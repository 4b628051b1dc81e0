package draft

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pace decodes texts of 400 tokens in virtual time, with and without guesses, where a row more costs a share of a call,
// and returns how many times as fast they come with them.
func pace(t *testing.T, repeats, rowCost float64, router bool) (faster float64, sum Summary) {
	var took [2]time.Duration
	for seed := range uint64(10) {
		w := &world{seed: seed, vocab: 600, share: 0.02, agree: 1, repeats: repeats}
		if repeats > 0 {
			w.vocab = 60
		}
		for i, rows := range []int{-1, 0} {
			m := &fakeModel{world: w, slots: 10000, most: 8, calls: 100000, lookup: rows, time: func(rows int) time.Duration {
				return time.Duration(float64(edgeTime) * (1 + rowCost*float64(rows-1)))
			}}
			c := &cloudFunc{ask: func(_ context.Context, q Question) (Answer, error) {
				id, err := w.answer(hashOf(q.Context))
				return Answer{Token: id}, err
			}}
			var r Router
			if router {
				r = w
			}
			prompt := []int32{1, 2, 3}
			for len(prompt) < 300 {
				head := w.head(hashOf(prompt))
				prompt = append(prompt, w.pick(len(prompt), &head))
			}
			d, err := New(m, r, c, Options{Lookup: rows, MaxTokens: 400, Deadline: -1})
			require.NoError(t, err)
			start := time.Now()
			s, err := d.Decode(t.Context(), prompt, func(Event) bool { return true })
			require.NoError(t, err)
			took[i] += time.Since(start)
			sum.Proposed, sum.Accepted = sum.Proposed+s.Proposed, sum.Accepted+s.Accepted
			sum.Passes, sum.Tokens = sum.Passes+i*s.Passes, sum.Tokens+i*s.Tokens
		}
	}
	return took[0].Seconds() / took[1].Seconds(), sum
}

// TestGuessesPay: a text that repeats itself comes much faster, and no text comes slower than without guesses: not one
// without repeats, and not where a row costs as much as a call.
func TestGuessesPay(t *testing.T) {
	t.Log("repeats  row cost  router  faster  passes/token  proposed  accepted")
	for _, c := range []struct {
		repeats, rowCost, least float64
		router                  bool
	}{
		{0, 0.06, 0.98, false}, {0, 1, 0.98, false}, {1, 1, 0.98, false}, {0.3, 0.15, 0.98, false}, {0.8, 1, 0.98, false},
		{1, 0.06, 4, false}, {1, 0.15, 3, false}, {1, 0.3, 1.8, false}, {0.97, 0.1, 1.8, false},
		{0, 0.06, 0.98, true}, {1, 0.06, 1.8, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			faster, s := pace(t, c.repeats, c.rowCost, c.router)
			t.Logf("%7.2f %9.2f %7t %7.2f %13.3f %9d %9d",
				c.repeats, c.rowCost, c.router, faster, float64(s.Passes)/float64(s.Tokens), s.Proposed, s.Accepted)
			assert.GreaterOrEqual(t, faster, c.least, "%+v", c)
		})
	}
}

// TestNoTime: a clock that stands still tells nothing of costs, and does not keep anything from being guessed.
func TestNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faster, s := pace(t, 1, 0, false)
		assert.Greater(t, faster, 5.0)
		assert.Less(t, 5*s.Passes, s.Tokens)
		w := &world{seed: 1, vocab: 60, repeats: 1}
		m := &fakeModel{world: w, slots: 1000, most: 8, calls: 1000}
		d, err := New(m, nil, nil, Options{MaxTokens: 400})
		require.NoError(t, err)
		s, err = d.Decode(t.Context(), []int32{1, 2, 3}, func(Event) bool { return true })
		require.NoError(t, err)
		assert.Less(t, 2*s.Passes, s.Tokens)
	})
}
