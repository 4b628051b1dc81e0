package draft

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// pace decodes texts of 400 tokens in virtual time, with and without guesses; an additional row costs a share of a
// call. It returns the speedup by guesses.
func pace(t *testing.T, repeats, rowCost float64, router bool) (faster float64, sum Summary) {
	var took [2]time.Duration
	for seed := range uint64(10) {
		w := &world{seed: seed, vocab: 600, share: 0.02, agree: 1, repeats: repeats}
		if repeats > 0 {
			w.vocab = 60
		}
		for i, rows := range []int{-1, 0} {
			m := &fakeModel{
				world: w, slots: 10000, most: 8, calls: 100000, lookup: rows,
				time: func(rows int) time.Duration {
					return time.Duration(float64(edgeTime) * (1 + rowCost*float64(rows-1)))
				},
			}
			c := &cloudFunc{ask: func(_ context.Context, q Question) (Answer, error) {
				id, err := w.answer(hashOf(q.Context))
				return Answer{Reply: terms.Reply{Token: id}}, err
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

// TestGuessesPay: a repetitive text is decoded much faster, and no text is slower than without guesses: neither a text
// without repeats, nor with rows that cost as much as a call.
func TestGuessesPay(t *testing.T) {
	racing.Spare(t)
	t.Log("repeats  row cost  router  faster  passes/token  proposed  accepted")
	for _, c := range []struct {
		repeats, rowCost, minFaster float64
		router                      bool
	}{
		{0, 0.06, 0.98, false}, {0, 1, 0.98, false}, {1, 1, 0.98, false},
		{0.3, 0.15, 0.98, false}, {0.8, 1, 0.98, false},
		{1, 0.06, 4, false}, {1, 0.15, 3, false}, {1, 0.3, 1.8, false}, {0.97, 0.1, 1.8, false},
		{0, 0.06, 0.98, true}, {1, 0.06, 1.8, true},
	} {
		bubble.Test(t, func(t *testing.T) {
			faster, s := pace(t, c.repeats, c.rowCost, c.router)
			t.Logf("%7.2f %9.2f %7t %7.2f %13.3f %9d %9d",
				c.repeats, c.rowCost, c.router, faster, float64(s.Passes)/float64(s.Tokens), s.Proposed, s.Accepted)
			assert.GreaterOrEqual(t, faster, c.minFaster, "%+v", c)
		})
	}
}

// TestNoTime: with a clock that stands still costs are unknown, and guesses are still made.
func TestNoTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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

// TestGuessFromThePrompt: tokens are guessed from the prompt from the start.
func TestGuessFromThePrompt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &world{seed: 1, vocab: 60, repeats: 1}
		prompt := []int32{1, 2, 3}
		for len(prompt) < 300 {
			head := w.head(hashOf(prompt))
			prompt = append(prompt, w.pick(len(prompt), &head))
		}
		m := &fakeModel{world: w, slots: 1000, most: 8, calls: 1000}
		d, err := New(m, nil, nil, Options{MaxTokens: 24})
		require.NoError(t, err)
		s, err := d.Decode(t.Context(), prompt, func(Event) bool { return true })
		require.NoError(t, err)
		assert.Equal(t, 5, s.Passes, "1, 2, 4, 8 and the remaining rows, all guesses except for the first of each")
		assert.Equal(t, 18, s.Accepted)
	})
}

// guessing returns a run with a tip that waits for an answer, leaves after it that each continue as the text did
// before, and a model with cheap additional rows.
func guessing(t *testing.T, o Options, chances ...float64) (*decodeRun, []*node) {
	t.Helper()
	o.Pick = func(int, *backend.Output) int32 { return 0 }
	m := &fakeModel{world: &world{vocab: 12}, slots: 1000}
	d, err := New(m, nil, nil, o)
	require.NoError(t, err)
	text := []int32{}
	for range 40 {
		text = append(text, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
	}
	r := newRun(d, text, nil)
	for rows := range 8 {
		r.guesser.cost.Learn(rows+1, 1+0.01*float64(rows))
	}
	r.tree.tip.esc = &escalation{}
	r.tree.tip.esc.Outcome = inFlight
	var leaves []*node
	for i, p := range chances {
		leaf := r.tree.addChild(r.tree.tip, 5+2*int32(i), 0)
		leaf.guess, leaf.evaluated = p, true
		next := r.tree.addChild(leaf, 6+2*int32(i), 0)
		leaves = append(leaves, next)
	}
	return r, leaves
}

// TestGuessBehindTheLikelier: more rows go to the leaf that is more likely to become part of the text.
func TestGuessBehindTheLikelier(t *testing.T) {
	r, leaves := guessing(t, Options{Rows: 5}, 0.05, 0.9)
	chains := r.guesser.guessChains(t.Context(), leaves)
	require.Len(t, chains, 2)
	assert.Empty(t, chains[0])
	require.Len(t, chains[1], 3)
	for i, n := range chains[1] {
		assert.Equal(t, int32(9+i), n.token)
		assert.Equal(t, leaves[1].pos+1+i, n.pos)
	}
	r, leaves = guessing(t, Options{Rows: 5}, 0.5, 0.5)
	chains = r.guesser.guessChains(t.Context(), leaves)
	assert.Len(t, chains[0], 3, "of equal leaves, the one with the longer match")
	assert.Empty(t, chains[1])
}

// TestShownTokensTeach: an accepted guess raises the rate. A rejected one lowers it, and so does any token that the
// cloud was asked for, because guesses end there.
func TestShownTokensTeach(t *testing.T) {
	for name, c := range map[string]struct {
		token  int32
		origin Origin
		more   bool
	}{
		"accepted":          {5, Edge, true},
		"rejected":          {6, Edge, false},
		"from the cloud":    {5, FromCloud, false},
		"asked for in vain": {5, EdgeTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, looked := range []bool{false, true} {
				r, _ := guessing(t, Options{})
				length, next := r.guesser.repeats.Find(nil, 1)
				require.Equal(t, []int32{5}, next)
				if looked {
					r.guesser.repeats.Find(nil, 3)
				}
				before := r.guesser.repeats.Rate().Of(length)
				r.guesser.learnShown(&node{token: c.token, origin: c.origin})
				assert.Equal(t, c.more, r.guesser.repeats.Rate().Of(length) > before)
				assert.NotEqual(t, before, r.guesser.repeats.Rate().Of(length))
				assert.Equal(t, 401, r.guesser.repeats.Len())
			}
		})
	}
}
