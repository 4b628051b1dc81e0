package capacity

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestScripts: the texts of the asks fit together, all passes of the small model are counted, and the number of
// escalated tokens matches the shares.
func TestScripts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := Workload{Prompt: 1 + r.IntN(200), Tokens: 1 + r.IntN(100), EdgeTPS: 10, Budget: r.Float64()}
		var s script
		u := newUser(&w, Routed, r.IntN(1000))
		u.planAnswer(&s)
		passes := s.rest
		for i, a := range s.asks {
			assert.Positive(t, a.passes)
			assert.Zero(t, a.from)
			if i == 0 {
				assert.Zero(t, a.keep)
			} else {
				assert.Equal(t, s.asks[i-1].text, a.keep, "a text grows")
				assert.Greater(t, a.text, a.keep)
			}
			assert.Less(t, a.text, w.Prompt+w.Tokens)
			passes += a.passes
		}
		assert.Equal(t, w.Tokens, passes, "one pass for the prompt, and one for each token but the last")

		u = newUser(&w, Verified, r.IntN(1000))
		u.planAnswer(&s)
		assert.Zero(t, s.rest, "the last token is asked for")
		require.NotEmpty(t, s.asks)
		assert.Equal(t, w.Prompt+w.Tokens-1, s.asks[len(s.asks)-1].text)
		for i, a := range s.asks {
			first := a.text // the first position that is verified or escalated
			if a.from > 0 {
				first = a.from
			}
			assert.Equal(t, a.text-first+1, a.passes, "a pass for each token since then")
			if i == 0 {
				assert.Equal(t, w.Prompt, first)
				assert.Zero(t, a.keep)
				continue
			}
			assert.Equal(t, a.keep+1, first, "after the token of the large model")
			assert.LessOrEqual(t, a.keep, s.asks[i-1].text)
			assert.LessOrEqual(t, a.text-first, verifyEvery)
		}
	}
}

// usual returns a workload like that of short questions.
func usual() Workload {
	return Workload{Prompt: 130, Tokens: 25, RTT: 100 * time.Millisecond, EdgeTPS: 50, Budget: 0.07}
}

// TestShares: the share of escalated tokens is the budget, verification asks after each 64 unchecked tokens, and each
// verified token of the small model is replaced with the given probability.
func TestShares(t *testing.T) {
	const answers = 20000
	mean := func(w Workload, mode Mode) float64 {
		u, n := newUser(&w, mode, 3), 0
		var s script
		for range answers {
			u.planAnswer(&s)
			n += len(s.asks)
		}
		return float64(n) / answers
	}
	w := usual()
	assert.InDelta(t, 0.07*25, mean(w, Routed), 0.04)
	w.Budget = 0
	assert.Zero(t, mean(w, Routed))
	// the second ask is at the second token: it confirms both, or replaces the first and the second is asked for again
	w.Tokens = 2
	assert.InDelta(t, 1+replaced, mean(w, Verified), 0.01)
	w.Tokens = 100
	u, s := newUser(&w, Verified, 0), script{}
	u.planAnswer(&s)
	assert.Equal(t, w.Prompt+verifyEvery, s.asks[0].text)
	w.Budget, w.Tokens = 1, 25
	assert.Equal(t, 25., mean(w, Routed))
	assert.Equal(t, 25., mean(w, Verified), "nothing is left to verify")
}

// TestDevicesDiffer: the devices choose differently.
func TestDevicesDiffer(t *testing.T) {
	w, seen := usual(), map[uint64]bool{}
	for device := range 5 {
		seen[newUser(&w, Routed, device).choices.Uint64()] = true
	}
	assert.Len(t, seen, 5)
}
