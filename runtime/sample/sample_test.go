package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestPhilox compares the generator with the known answers that its authors published.
func TestPhilox(t *testing.T) {
	for name, c := range map[string]struct{ lo, hi, key, want uint64 }{
		"zeros":        {0, 0, 0, 0xca00a0459843d731},
		"ones":         {math.MaxUint64, math.MaxUint64, math.MaxUint64, 0x65b021d60cd8310f},
		"digits of pi": {0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x0a5e742c2997341c},
	} {
		assert.Equal(t, c.want, philox(c.lo, c.hi, c.key), name)
	}
}

// TestNoiseBound: the bound holds for ordinary noise and at both ends.
func TestNoiseBound(t *testing.T) {
	for i := range uint64(100000) {
		n := noiseOf(11, i, i*i)
		require.LessOrEqual(t, n.gumbel(), n.upperBound())
		if n >= 1<<51 { // -ln u ≤ 2·ln2·(1-u) there
			require.Less(t, n.upperBound()-n.gumbel(), math.Log(4*math.Ln2)+1e-9, "the bound is tight")
		}
	}
	for _, n := range []noise{0, 1, 1<<52 - 2, 1<<52 - 1} {
		require.LessOrEqual(t, n.gumbel(), n.upperBound())
		require.False(t, math.IsInf(n.gumbel(), 0))
	}
}

// TestNoise fixes the word of the generator for each token and the use of its bits: edge and cloud of different
// versions sample the same tokens only while this does not change. The numbers are those of the published Philox2x64-10
// (counter: token, position; key: seed), computed in big integers; the upper 52 bits of the first word are used.
func TestNoise(t *testing.T) {
	for _, c := range []struct {
		seed, pos, id uint64
		want          noise
		gumbel        float64
	}{
		{0, 0, 0, 0xca00a0459843d, 1.440127127991},
		{0, 0, 1, 0x268b107f7aef5, -0.638372687899},
		{0, 1, 0, 0x1b765f3df9a46, -0.803059314612},
		{1, 0, 0, 0xebd2527805330, 2.499793133402},
		{1, 2, 3, 0x96f5a74d14127, 0.638345978534},
		{3, 2, 1, 0xdc4a47e4b0863, 1.895575443105},
		{2, 3, 1, 0x034b32f8ef5b8, -1.470900126551},
		{7, 100, 151935, 0xfc924d0a055b8, 4.306317120966},
		{math.MaxUint64, 4095, 42, 0xd463a6fb58b92, 1.677948633060},
	} {
		t.Run(fmt.Sprintf("seed %d, position %d, token %d", c.seed, c.pos, c.id), func(t *testing.T) {
			n := noiseOf(c.seed, c.pos, c.id)
			assert.Equal(t, c.want, n)
			assert.InDelta(t, c.gumbel, n.gumbel(), 1e-11)
		})
	}
	assert.InDelta(t, -math.Log(53*math.Ln2), noise(0).gumbel(), 1e-12, "u is (0+½)/2⁵²")
	assert.InDelta(t, 53*math.Ln2, noise(1<<52-1).gumbel(), 1e-12, "u is 1 - 2⁻⁵³")
}

// TestPickIsTheFormula: the token is the one with the largest logit/T + g among those that can be sampled, with the
// noise of seed, position and token.
func TestPickIsTheFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 500 {
		o := terms.Sampling{Temperature: 0.1 + 2*r.Float64(), Seed: r.Uint64(), TopK: r.IntN(60),
			TopP: float64(r.IntN(3)) * 0.45}
		logits, pos := randomLogits(r, 50, 2), r.IntN(5000)
		s, err := New(o)
		require.NoError(t, err)
		best, largest := 0, math.Inf(-1)
		for i, p := range shares(logits, o) {
			v := float64(logits[i])/o.Temperature + noiseOf(o.Seed, uint64(pos), uint64(i)).gumbel()
			if p > 0 && v > largest {
				best, largest = i, v
			}
		}
		require.EqualValues(t, best, s.Pick(pos, seen(s, logits)), "%+v at %d", o, pos)
		require.EqualValues(t, best, s.Pick(pos, output(logits, 1)), "%+v: with all logits instead", o)
	}
}

// seen returns the part of the head that a sampler requests.
func seen(s *Sampler, logits []float32) *backend.Output {
	want := s.Want(backend.Want{})
	out := output(logits, want.K)
	if !want.Logits {
		out.Logits = nil
	}
	return out
}

// TestChoice: which tokens can be sampled if shares are equal or exactly at the limit.
func TestChoice(t *testing.T) {
	ln := func(shares ...float64) (logits []float32) {
		for _, p := range shares {
			logits = append(logits, float32(math.Log2(p))) // with T = log₂e these are the shares
		}
		return logits
	}
	equal, halves := make([]float32, 4), ln(0.125, 0.5, 0.125, 0.25)
	many := make([]float32, 400)
	for i := range many {
		many[i] = float32(i)
	}
	for _, c := range []struct {
		name   string
		o      terms.Sampling
		logits []float32
		want   []int32
	}{
		{"all", terms.Sampling{}, equal, []int32{0, 1, 2, 3}},
		{"equal ones by id", terms.Sampling{TopK: 2}, equal, []int32{0, 1}},
		{"as many as there are", terms.Sampling{TopK: 4}, equal, []int32{0, 1, 2, 3}},
		{"more than there are", terms.Sampling{TopK: 5}, equal, []int32{0, 1, 2, 3}},
		{"many more, within top-p", terms.Sampling{TopK: maxBest, TopP: 0.5}, equal, []int32{0, 1}},
		{"too many for the head", terms.Sampling{TopK: maxBest + 1}, equal, []int32{0, 1, 2, 3}},
		{"exactly top-p", terms.Sampling{TopP: 0.5}, equal, []int32{0, 1}},
		{"exactly top-p, of the best", terms.Sampling{TopP: 0.5, TopK: 2}, equal, []int32{0}},
		{"more than top-p", terms.Sampling{TopP: 0.51}, equal, []int32{0, 1, 2}},
		{"a share of 1", terms.Sampling{TopP: 1}, equal, []int32{0, 1, 2, 3}},
		{"a share of 1, with one that rounding loses", terms.Sampling{TopP: 1}, []float32{-60, 0}, []int32{0, 1}},
		{"one reaches it", terms.Sampling{TopP: 0.49}, halves, []int32{1}},
		{"two reach it", terms.Sampling{TopP: 0.74}, halves, []int32{1, 3}},
		{"after the best three", terms.Sampling{TopP: 0.8, TopK: 3}, halves, []int32{1, 3}},
		{"after the best three, all", terms.Sampling{TopP: 0.9, TopK: 3}, halves, []int32{0, 1, 3}},
		{"257 of 400", terms.Sampling{TopK: maxBest + 1}, many, ids(400-maxBest-1, 400)},
		{"256 of 400", terms.Sampling{TopK: maxBest}, many, ids(400-maxBest, 400)},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Temperature = math.Log2E
			s, err := New(c.o)
			require.NoError(t, err)
			for range 2 { // its memory is reused
				var got []int32
				for _, x := range s.drawableTokens(seen(s, c.logits)) {
					assert.Equal(t, c.logits[x.ID], x.Logit)
					got = append(got, x.ID)
				}
				slices.Sort(got)
				assert.Equal(t, c.want, got)
			}
		})
	}
	s, err := New(terms.Sampling{Temperature: 1, TopP: 0.9})
	require.NoError(t, err)
	few := output(equal, 4).Top
	assert.Equal(t, few, s.cutNucleus(few, 100), "all, if rounding keeps them from reaching the share")
}

func ids(from, to int32) (all []int32) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// TestWant: the sampler requests only what it needs from the head, plus the requests of others.
func TestWant(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        terms.Sampling
		in, want backend.Want
	}{
		{"greedy", terms.Sampling{}, backend.Want{}, backend.Want{K: 1}},
		{"greedy, with other requests", terms.Sampling{}, backend.Want{K: 5, Hidden: true, Rows: []int{2}},
			backend.Want{K: 5, Hidden: true, Rows: []int{2}}},
		{"greedy, of the best nine", terms.Sampling{TopK: 9}, backend.Want{}, backend.Want{K: 1}},
		{"the best token", terms.Sampling{Temperature: 1, TopK: 1}, backend.Want{}, backend.Want{K: 1}},
		{"the best two", terms.Sampling{Temperature: 1, TopK: 2}, backend.Want{}, backend.Want{K: 2}},
		{"fewer than others request", terms.Sampling{Temperature: 1, TopK: 2}, backend.Want{K: 3}, backend.Want{K: 3}},
		{"the most of the head", terms.Sampling{Temperature: 1, TopK: 256}, backend.Want{}, backend.Want{K: 256}},
		{"too many for the head", terms.Sampling{Temperature: 1, TopK: 257}, backend.Want{},
			backend.Want{K: 1, Logits: true}},
		{"all tokens", terms.Sampling{Temperature: 1}, backend.Want{K: 2}, backend.Want{K: 2, Logits: true}},
		{"a share", terms.Sampling{Temperature: 1, TopP: 0.5}, backend.Want{}, backend.Want{K: 1, Logits: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.o)
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Want(c.in))
		})
	}
}

// output returns the head for some logits, with k best tokens.
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

// randomLogits returns normal deviates, some of them equal.
func randomLogits(r *rand.Rand, n int, scale float64) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(math.Round(r.NormFloat64()*scale*64) / 64)
	}
	return l
}

// shares returns the distribution that options define, token by token, by definition: temperature, then top-k, then
// top-p.
func shares(logits []float32, o terms.Sampling) []float64 {
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

// TestDistribution samples at many positions and compares the counts with the distribution, by Pearson's χ² over all
// tokens: its mean is the degrees of freedom n, its deviation √2n, and 5 deviations are practically never exceeded.
func TestDistribution(t *testing.T) {
	const draws = 40000
	r := rand.New(rand.NewPCG(1, 2))
	logits := randomLogits(r, 40, 1.5)
	for name, o := range map[string]terms.Sampling{
		"all": {Temperature: 1}, "sharpened": {Temperature: 0.5, Seed: 7},
		"top-p, flattened": {Temperature: 2, TopP: 0.8, Seed: 8}, "top-k": {Temperature: 1, TopK: 5, Seed: 9},
		"top-k and top-p": {Temperature: 0.7, TopK: 20, TopP: 0.9, Seed: 10},
	} {
		s, err := New(o)
		require.NoError(t, err)
		out := seen(s, logits)
		counts := make([]int, len(logits))
		for pos := range draws {
			counts[s.Pick(pos, out)]++
		}
		chi, n := 0.0, -1
		for i, p := range shares(logits, o) {
			if p == 0 {
				require.Zero(t, counts[i], "%s excludes token %d", name, i)
				continue
			}
			expected := p * draws
			chi += (float64(counts[i]) - expected) * (float64(counts[i]) - expected) / expected
			n++
		}
		assert.Less(t, chi, float64(n)+5*math.Sqrt(2*float64(n)), name)
	}
}

// TestNucleus: tokens that are dropped without sorting are never in the nucleus.
func TestNucleus(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		o := terms.Sampling{Temperature: 0.1 + 2*r.Float64(), TopP: 0.01 + 0.98*r.Float64()}
		logits := randomLogits(r, 1+r.IntN(500), 4*r.Float64())
		s, err := New(o)
		require.NoError(t, err)
		var want, got []int32
		for i, p := range shares(logits, o) {
			if p > 0 {
				want = append(want, int32(i))
			}
		}
		for _, c := range s.drawableTokens(output(logits, 1)) {
			got = append(got, c.ID)
		}
		slices.Sort(got)
		require.Equal(t, want, got, "%+v", o)
		mass, heavy := 0.0, 0
		for _, p := range shares(logits, terms.Sampling{Temperature: o.Temperature}) {
			mass += p
			if p >= (1-o.TopP)/float64(len(logits))*(1+1e-9) {
				heavy++
			}
		}
		require.InDelta(t, 1, mass, 1e-9)
		require.InDelta(t, heavy, len(s.order), 1, "tokens that cannot be in it are not sorted")
	}
}

func TestValidate(t *testing.T) {
	for name, o := range map[string]terms.Sampling{
		"none": {}, "the highest temperature": {Temperature: math.MaxFloat64}, "a share of 1": {TopP: 1},
		"the most tokens": {TopK: math.MaxInt}, "the largest seed": {Seed: math.MaxUint64},
	} {
		_, err := New(o)
		assert.NoError(t, err, name)
	}
	for name, o := range map[string]terms.Sampling{
		"a temperature below 0": {Temperature: -1}, "a temperature of NaN": {Temperature: math.NaN()},
		"an infinite temperature": {Temperature: math.Inf(1)}, "fewer than 0 tokens": {TopK: -1},
		"a share below 0": {TopP: -0.1}, "a share above 1": {TopP: 1.1}, "a share of NaN": {TopP: math.NaN()},
	} {
		_, err := New(o)
		assert.Error(t, err, name)
	}
}

// BenchmarkPick draws from a vocabulary of Qwen's size.
func BenchmarkPick(b *testing.B) {
	out := output(randomLogits(rand.New(rand.NewPCG(7, 8)), 151936, 2.5), maxBest)
	for name, o := range map[string]terms.Sampling{
		"all":   {Temperature: 1},
		"top-p": {Temperature: 0.7, TopP: 0.9},
		"top-k": {Temperature: 0.7, TopK: 40, TopP: 0.9},
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
