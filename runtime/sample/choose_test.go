package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// scored returns the part of the head that a sampler needs for scores.
func scored(s *Sampler, logits []float32) *backend.Output {
	want := s.WantScores(backend.Want{})
	out := output(logits, want.K)
	if !want.Logits {
		out.Logits = nil
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	out.LogSumExp = float32(math.Log(sum))
	return out
}

// anyOptions returns random options; two of seven are greedy.
func anyOptions(r *rand.Rand) terms.Sampling {
	o := terms.Sampling{Temperature: 0.1 + 2*r.Float64(), Seed: r.Uint64(), TopK: r.IntN(60),
		TopP: float64(r.IntN(3)) * 0.45}
	switch r.IntN(7) {
	case 0:
		o.Temperature, o.TopK = 0, o.TopK*r.IntN(2)
	case 1:
		o.TopK = 1
	case 2:
		o.TopK = 0
	}
	return o
}

// TestChooseIsPick: the choice is the token that Pick returns, it has the largest score, and scores follow the formula:
// the log-probability, or the log-probability divided by the temperature plus the noise.
func TestChooseIsPick(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	drawn, cut := 0, 0
	for range 2000 {
		o := anyOptions(r)
		logits, pos := randomLogits(r, 50, 2), r.IntN(5000)
		s, err := New(o)
		require.NoError(t, err)
		out := scored(s, logits)
		want, can := s.Pick(pos, out), shares(logits, o)
		var scores []float32
		for id := range int32(len(logits)) {
			choice, score, standing := s.Choose(pos, out, id)
			require.Equal(t, want, choice, "%+v at %d", o, pos)
			require.False(t, standing > score, "%d: %v, the choice has %v", id, standing, score)
			p := float64(logits[id]) - float64(out.LogSumExp)
			switch {
			case o.Greedy():
				require.InDelta(t, p, standing, 1e-5)
			case can[id] == 0:
				cut++
				require.True(t, math.IsInf(float64(standing), -1), "%d cannot be sampled: %v", id, standing)
			default:
				drawn++
				require.InDelta(t, p/o.Temperature+noiseOf(o.Seed, uint64(pos), uint64(id)).gumbel(), standing, 1e-4)
			}
			if id == choice {
				require.Equal(t, score, standing, "one token has one score")
			}
			scores = append(scores, score)
		}
		for _, score := range scores {
			require.Equal(t, scores[0], score, "it does not depend on the compared token")
		}
		require.Equal(t, scored(s, logits), out, "the head does not change")
		for _, stands := range []int32{-1, 50, math.MaxInt32, math.MinInt32} {
			_, _, standing := s.Choose(pos, out, stands)
			require.True(t, math.IsInf(float64(standing), -1), "%d is not a token", stands)
		}
	}
	assert.Positive(t, drawn)
	assert.Positive(t, cut)
}

// TestChooseOfLess: with sampling from few tokens, scores are the same with all logits or only these, and a token that
// is not a candidate counts as impossible.
func TestChooseOfLess(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 300 {
		o := anyOptions(r)
		o.TopK = 2 + r.IntN(20)
		s, err := New(o)
		require.NoError(t, err)
		logits, pos, stands := randomLogits(r, 50, 2), r.IntN(100), r.Int32N(50)
		few, all := scored(s, logits), scored(s, logits)
		all.Logits, few.Logits = logits, nil
		choice, score, standing := s.Choose(pos, all, stands)
		got, gotScore, gotStanding := s.Choose(pos, few, stands)
		require.Equal(t, choice, got)
		require.Equal(t, score, gotScore)
		if _, found := logitOf(few, stands); found {
			require.Equal(t, standing, gotStanding)
		} else {
			require.True(t, math.IsInf(float64(gotStanding), -1))
		}
	}
}

// TestChooseOfShifted: logits may have any offset, because an engine may give log-probabilities instead.
func TestChooseOfShifted(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for range 300 {
		s, err := New(anyOptions(r))
		require.NoError(t, err)
		logits, pos, stands := randomLogits(r, 50, 2), r.IntN(100), r.Int32N(50)
		shifted := make([]float32, len(logits))
		for i, l := range logits {
			shifted[i] = l + 16 // exactly
		}
		there, moved := scored(s, logits), scored(s, shifted)
		choice, score, standing := s.Choose(pos, there, stands)
		got, gotScore, gotStanding := s.Choose(pos, moved, stands)
		require.Equal(t, choice, got)
		require.InDelta(t, score, gotScore, 1e-3)
		if math.IsInf(float64(standing), -1) {
			require.Equal(t, standing, gotStanding)
			continue
		}
		require.InDelta(t, standing, gotStanding, 1e-3)
	}
}

// TestWantScores: a greedy choice can be compared with any token, a sampled one with tokens that can be sampled.
func TestWantScores(t *testing.T) {
	for _, c := range []struct {
		name string
		o    terms.Sampling
		want backend.Want
	}{
		{"greedy", terms.Sampling{}, backend.Want{K: 3, Logits: true}},
		{"the best token", terms.Sampling{Temperature: 1, TopK: 1}, backend.Want{K: 3, Logits: true}},
		{"the best forty", terms.Sampling{Temperature: 1, TopK: 40}, backend.Want{K: 40}},
		{"fewer than others request", terms.Sampling{Temperature: 1, TopK: 2}, backend.Want{K: 3}},
		{"all tokens", terms.Sampling{Temperature: 1}, backend.Want{K: 3, Logits: true}},
		{"too many for the head", terms.Sampling{Temperature: 1, TopK: 300}, backend.Want{K: 3, Logits: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.o)
			require.NoError(t, err)
			assert.Equal(t, c.want, s.WantScores(backend.Want{K: 3}))
		})
	}
}

// FuzzChoose: for any logits and options, scores are finite and comparable, and no token has a higher score than the
// choice.
func FuzzChoose(f *testing.F) {
	f.Add(uint64(1), 1.0, 0.0, float32(1), 0, uint64(3))
	f.Add(uint64(2), 1e-300, 0.5, float32(1e30), 7, uint64(3))
	f.Add(uint64(3), math.MaxFloat64, 1.0, float32(math.MaxFloat32), 2, uint64(3))
	f.Add(uint64(4), 1e-40, 0.0, float32(-1e30), 0, uint64(3))
	f.Add(uint64(5), 0.0, 0.0, float32(1e38), 0, uint64(3))
	f.Fuzz(func(t *testing.T, seed uint64, temperature, topP float64, scale float32, topK int, pos uint64) {
		s, err := New(terms.Sampling{Temperature: temperature, TopP: topP, TopK: topK, Seed: seed})
		if err != nil || math.IsNaN(float64(scale)) || math.IsInf(float64(scale), 0) {
			return
		}
		r := rand.New(rand.NewPCG(seed, pos))
		logits := make([]float32, 20)
		for i := range logits {
			logits[i] = scale * (2*r.Float32() - 1)
		}
		out := scored(s, logits)
		want := s.Pick(int(pos%100), out)
		for id := range int32(len(logits)) {
			choice, score, standing := s.Choose(int(pos%100), out, id)
			if choice != want || math.IsInf(float64(score), 0) || !(score >= standing) {
				t.Fatalf("%d scores %v, the choice %d (not %d) %v", id, standing, choice, want, score)
			}
		}
	})
}

// BenchmarkChoose scores a token of a vocabulary of Qwen's size.
func BenchmarkChoose(b *testing.B) {
	out := output(randomLogits(rand.New(rand.NewPCG(7, 8)), 151936, 2.5), maxBest)
	for name, o := range map[string]terms.Sampling{
		"greedy": {}, "all": {Temperature: 0.8}, "top-k": {Temperature: 0.8, TopK: 40},
		"top-p": {Temperature: 0.8, TopP: 0.9},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := New(o)
			require.NoError(b, err)
			for pos := 0; b.Loop(); pos++ {
				s.Choose(pos, out, 7)
			}
		})
	}
}
