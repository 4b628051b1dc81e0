package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
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
		w := Workload{Prompt: 1 + r.IntN(200), Tokens: 1 + r.IntN(100), Think: time.Second, EdgeTPS: 10,
			Budget: r.Float64(), Turned: r.Float64(), VerifyEvery: r.IntN(20), Seed: r.Uint64()}
		var s script
		u := newUser(&w, Routed, r.IntN(1000))
		u.next(&s)
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
		u.next(&s)
		assert.Zero(t, s.rest, "the last token is asked for")
		require.NotEmpty(t, s.asks)
		assert.Equal(t, w.Prompt+w.Tokens-1, s.asks[len(s.asks)-1].text)
		for i, a := range s.asks {
			first := a.text // the first position that is verified or escalated
			if a.from > 0 {
				first = a.from
			}
			assert.Equal(t, a.text-first+1, a.passes, "a pass for each token since then")
			assert.Equal(t, a.text-first+1, a.heads(0, a.text), "and a prediction")
			if i == 0 {
				assert.Equal(t, w.Prompt, first)
				assert.Zero(t, a.keep)
				continue
			}
			assert.Equal(t, a.keep+1, first, "after the token of the large model")
			assert.LessOrEqual(t, a.keep, s.asks[i-1].text)
			if w.VerifyEvery > 0 {
				assert.LessOrEqual(t, a.text-first, w.VerifyEvery)
			}
		}
	}
}

// TestVerifyEvery: verification asks after each given number of unchecked tokens, and after 64 if none is given.
func TestVerifyEvery(t *testing.T) {
	for every, want := range map[int][]int{10: {10, 21, 32, 43, 54, 65, 76, 87, 98, 99}, 0: {64, 99}, 98: {98, 99},
		99: {99}, 1000: {99}, 64: {64, 99}} {
		w := Workload{Prompt: 5, Tokens: 100, VerifyEvery: every}
		u, s, got := newUser(&w, Verified, 0), script{}, []int(nil)
		u.next(&s)
		for _, a := range s.asks {
			got = append(got, a.text-5)
		}
		assert.Equal(t, want, got, every)
	}
}

// TestRandomApart: the pauses and the choices of all devices are different random numbers, which depend on the seed.
func TestRandomApart(t *testing.T) {
	seen := map[uint64]bool{}
	for _, seed := range []uint64{0, 1, 7} {
		for device := range 5 {
			u := newUser(&Workload{Seed: seed}, Routed, device)
			seen[u.pauses.Uint64()], seen[u.choices.Uint64()] = true, true
		}
	}
	assert.Len(t, seen, 3*5*2)
}

// TestShares: the share of escalated tokens is the budget, and each verified token of the small model is replaced with
// the given probability.
func TestShares(t *testing.T) {
	const answers = 20000
	mean := func(w Workload, mode Mode) float64 {
		u, n := newUser(&w, mode, 3), 0
		var s script
		for range answers {
			u.next(&s)
			n += len(s.asks)
		}
		return float64(n) / answers
	}
	w := usual()
	assert.InDelta(t, 0.07*25, mean(w, Routed), 0.04)
	w.Budget = 0
	assert.Zero(t, mean(w, Routed))
	w.Turned = 0
	assert.Equal(t, 1., mean(w, Verified), "one ask at the end")
	w.Budget, w.Turned = 1, 0.4
	assert.Equal(t, 25., mean(w, Routed))
	assert.Equal(t, 25., mean(w, Verified), "nothing is left to verify")
	w.Budget, w.Turned = 0, 1
	assert.Equal(t, 25., mean(w, Verified), "each ask brings one token")
	// the second ask is at the second token: it confirms both, or replaces the first and the second is asked for again
	w.Turned, w.Tokens = 0.5, 2
	assert.InDelta(t, 1.5, mean(w, Verified), 0.02)
}

// TestPauses: pauses have the given mean; those of a device do not depend on the mode.
func TestPauses(t *testing.T) {
	w := usual()
	a, b, c := newUser(&w, Cloud, 7), newUser(&w, Verified, 7), newUser(&w, Cloud, 8)
	sum, differ := time.Duration(0), false
	var s script
	for range 20000 {
		b.next(&s)
		p := a.pause()
		require.Equal(t, p, b.pause())
		differ = differ || p != c.pause()
		sum += p
	}
	assert.True(t, differ)
	assert.InEpsilon(t, w.Think.Seconds(), sum.Seconds()/20000, 0.03)
}

// TestHeads: the parts of an ask have as many predictions together as the whole.
func TestHeads(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		a := ask{text: 2 + r.IntN(300)}
		want := 1
		if r.IntN(2) == 0 {
			a.from = 1 + r.IntN(a.text-1)
			want = a.text - a.from + 1
		}
		cuts := []int{0, a.text, r.IntN(a.text), r.IntN(a.text)}
		slices.Sort(cuts)
		sum := 0
		for i := range 3 {
			sum += a.heads(cuts[i], cuts[i+1])
		}
		assert.Equal(t, want, sum)
	}
}

// TestWorkloadRefused: an error names the invalid field.
func TestWorkloadRefused(t *testing.T) {
	w := usual()
	require.NoError(t, w.Validate())
	for name, spoil := range map[string][]func(*Workload){
		"prompt_tokens": {func(w *Workload) { w.Prompt = 0 }, func(w *Workload) { w.Prompt = MaxTokens + 1 }},
		"answer_tokens": {func(w *Workload) { w.Tokens = 0 }, func(w *Workload) { w.Tokens = MaxTokens + 1 }},
		"think":         {func(w *Workload) { w.Think = ms(1) - 1 }, func(w *Workload) { w.Think = time.Hour + 1 }},
		"rtt":           {func(w *Workload) { w.RTT = -1 }, func(w *Workload) { w.RTT = 10*time.Second + 1 }},
		"edge_tps": {func(w *Workload) { w.EdgeTPS = math.NaN() }, func(w *Workload) { w.EdgeTPS = 0.009 },
			func(w *Workload) { w.EdgeTPS = 1.1e6 }},
		"budget":       {func(w *Workload) { w.Budget = -0.01 }, func(w *Workload) { w.Budget = 1.01 }},
		"turned":       {func(w *Workload) { w.Turned = math.NaN() }, func(w *Workload) { w.Turned = 1.01 }},
		"verify_every": {func(w *Workload) { w.VerifyEvery = -1 }},
	} {
		for _, spoil := range spoil {
			w := usual()
			spoil(&w)
			assert.ErrorContains(t, w.Validate(), name+" is ")
		}
	}
	w = Workload{Prompt: 1, Tokens: 1, Think: time.Millisecond, EdgeTPS: 0.01}
	assert.NoError(t, w.Validate(), "the smallest")
	w = Workload{Prompt: MaxTokens, Tokens: MaxTokens, Think: time.Hour, RTT: 10 * time.Second, EdgeTPS: 1e6, Budget: 1,
		Turned: 1}
	assert.NoError(t, w.Validate(), "the largest")
}
