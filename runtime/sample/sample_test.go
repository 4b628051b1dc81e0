package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestPhilox holds the generator against the known answers that its authors published with it.
func TestPhilox(t *testing.T) {
	for _, c := range []struct{ lo, hi, key, want uint64 }{
		{0, 0, 0, 0xca00a0459843d731},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64, 0x65b021d60cd8310f},
		{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x0a5e742c2997341c},
	} {
		assert.Equal(t, c.want, philox(c.lo, c.hi, c.key))
	}
}

// TestNoiseBound: the bound holds for ordinary noise and at both ends.
func TestNoiseBound(t *testing.T) {
	for i := range uint64(100000) {
		n := noiseOf(11, i, i*i)
		require.LessOrEqual(t, n.gumbel(), n.atMost())
	}
	for _, n := range []noise{0, 1, 1<<52 - 2, 1<<52 - 1} {
		require.LessOrEqual(t, n.gumbel(), n.atMost())
		require.False(t, math.IsInf(n.gumbel(), 0))
	}
}

// output makes what the head gives for some logits, with k best tokens.
func output(logits []float32, k int) *backend.Output {
	o := &backend.Output{Logits: logits}
	for i, l := range logits {
		o.Top = append(o.Top, backend.Candidate{ID: int32(i), Logit: l})
	}
	slices.SortStableFunc(o.Top, func(a, b backend.Candidate) int {
		if a.Logit > b.Logit {
			return -1
		} else if a.Logit < b.Logit {
			return 1
		}
		return 0
	})
	o.Top = o.Top[:min(k, len(o.Top))]
	return o
}

// randomLogits are normal deviates, some of them equal.
func randomLogits(r *rand.Rand, n int, scale float64) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(math.Round(r.NormFloat64()*scale*64) / 64)
	}
	return l
}

// shares is the distribution that options define, token by token, from the definition: temperature, then top-k, then
// top-p.
func shares(logits []float32, o Options) []float64 {
	order := output(logits, len(logits)).Top
	if o.TopK > 0 {
		order = order[:min(o.TopK, len(order))]
	}
	p, total := make([]float64, len(logits)), 0.0
	for _, c := range order {
		p[c.ID] = math.Exp(float64(c.Logit-order[0].Logit) / o.Temperature)
		total += p[c.ID]
	}
	if o.TopP > 0 && o.TopP < 1 {
		sum, cut := 0.0, false
		for _, c := range order {
			if cut {
				p[c.ID] = 0
				continue
			}
			sum += p[c.ID]
			cut = sum >= o.TopP*total
		}
		total = sum
	}
	for i := range p {
		p[i] /= total
	}
	return p
}

// TestDistribution draws at many positions and compares the counts with the distribution, by Pearson's χ² over all
// tokens: its mean is the degrees of freedom n, its deviation √2n, and 5 deviations are never reached by chance.
func TestDistribution(t *testing.T) {
	const draws = 40000
	r := rand.New(rand.NewPCG(1, 2))
	logits := randomLogits(r, 40, 1.5)
	for _, o := range []Options{
		{Temperature: 1}, {Temperature: 0.5, Seed: 7}, {Temperature: 2, TopP: 0.8, Seed: 8}, {Temperature: 1, TopK: 5, Seed: 9},
		{Temperature: 0.7, TopK: 20, TopP: 0.9, Seed: 10},
	} {
		s, err := New(o)
		require.NoError(t, err)
		want := s.Want(backend.Want{K: 1})
		out := output(logits, want.K)
		if !want.Logits {
			out.Logits = nil
		}
		counts := make([]int, len(logits))
		for pos := range draws {
			counts[s.Pick(pos, out)]++
		}
		chi, n := 0.0, -1
		for i, p := range shares(logits, o) {
			if p == 0 {
				require.Zero(t, counts[i], "token %d is cut off by %+v", i, o)
				continue
			}
			expected := p * draws
			chi += (float64(counts[i]) - expected) * (float64(counts[i]) - expected) / expected
			n++
		}
		assert.Less(t, chi, float64(n)+5*math.Sqrt(2*float64(n)), "%+v", o)
	}
}

// TestRepeatable: a draw depends on seed and position alone, and on both of them.
func TestRepeatable(t *testing.T) {
	out := output(randomLogits(rand.New(rand.NewPCG(3, 4)), 1000, 1), 1)
	draw := func(seed uint64, from int) (ids []int32) {
		s, err := New(Options{Temperature: 1, Seed: seed})
		require.NoError(t, err)
		for pos := from; pos < 50; pos++ {
			ids = append(ids, s.Pick(pos, out))
		}
		return ids
	}
	all := draw(1, 0)
	assert.Equal(t, all[20:], draw(1, 20), "the positions before have no influence")
	assert.NotEqual(t, all, draw(2, 0))
	assert.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(all)))), 20, "positions have their own noise")
}

// TestNucleus: what is dropped without sorting is never part of the nucleus.
func TestNucleus(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		o := Options{Temperature: 0.1 + 2*r.Float64(), TopP: 0.01 + 0.98*r.Float64()}
		logits := randomLogits(r, 1+r.IntN(500), 4*r.Float64())
		s, err := New(o)
		require.NoError(t, err)
		var want, got []int32
		for i, p := range shares(logits, o) {
			if p > 0 {
				want = append(want, int32(i))
			}
		}
		for _, c := range s.choice(output(logits, 1)) {
			got = append(got, c.ID)
		}
		slices.Sort(got)
		require.Equal(t, want, got, "%+v", o)
	}
}

func TestGreedy(t *testing.T) {
	out := &backend.Output{Top: []backend.Candidate{{ID: 7, Logit: 2}}}
	for _, o := range []Options{{}, {Temperature: 1, TopK: 1}, {TopP: 0.5, TopK: 9, Seed: 3}} {
		s, err := New(o)
		require.NoError(t, err)
		assert.False(t, s.Want(backend.Want{}).Logits)
		assert.EqualValues(t, 7, s.Pick(3, out))
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)}, {TopK: -1}, {TopP: -0.1}, {TopP: 1.1}, {TopP: math.NaN()}} {
		_, err := New(o)
		assert.Error(t, err, "%+v", o)
	}
}

// BenchmarkPick draws from a vocabulary of Qwen's size.
func BenchmarkPick(b *testing.B) {
	out := output(randomLogits(rand.New(rand.NewPCG(7, 8)), 151936, 2.5), maxBest)
	for name, o := range map[string]Options{
		"all": {Temperature: 1}, "top-p": {Temperature: 0.7, TopP: 0.9}, "top-k": {Temperature: 0.7, TopK: 40, TopP: 0.9},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := New(o)
			require.NoError(b, err)
			for pos := 0; b.Loop(); pos++ {
				s.Pick(pos, out)
			}
		})
	}
}
