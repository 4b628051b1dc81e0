package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// sure returns a head with this confidence under the policy entropy.
func sure(confidence float64) *backend.Output {
	return &backend.Output{Entropy: float32(-math.Log(confidence))}
}

// answered decodes an answer of n tokens with a router: the function returns the confidence of each token by its place
// and the escalations before it. With end, an end token follows. check gets the counts after each token.
func answered(
	r *Router, n int, end bool, confidence func(i, m int) float64, check func(Answer),
) (a Answer) {
	decisions := n
	if end {
		decisions++
	}
	path := uint64(0)
	for i := range decisions {
		c, escalate, next := r.Decide(path, i, sure(confidence(i, a.Escalations)))
		path = next
		a.Confidences = append(a.Confidences, c)
		if escalate {
			a.Escalations++
		}
		if i < n {
			a.Tokens++
		}
		check(a)
	}
	return a
}

// TestBudgetBounds: after every token the share is at most the budget, and the unused part is at most the bound, for
// any confidences, also changing or adversarial ones.
func TestBudgetBounds(t *testing.T) {
	racing.Spare(t)
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0 // tokens of all answers
	streams := map[string]func(i, m int) float64{
		"all sure":      func(int, int) float64 { return 1 },
		"all unsure":    func(int, int) float64 { return 0 },
		"uniform":       func(int, int) float64 { return rng.Float64() },
		"nearly sure":   func(int, int) float64 { return 1 - 1e-3*rng.Float64() },
		"two kinds":     func(i, _ int) float64 { return 0.45 + 0.54*float64(min(i%17, 1)) },
		"alternating":   func(i, _ int) float64 { return float64(i % 2) },
		"changes":       func(int, int) float64 { return rng.Float64() * float64(1+total/500%2) / 2 },
		"always higher": func(i, _ int) float64 { return 1 - 1/(2+float64(total+i)/100) },
		"always lower":  func(i, _ int) float64 { return 1 / (2 + float64(total+i)/100) },
		"against rule":  func(i, m int) float64 { return float64((i + m) % 2) },
		"end is unsure": func(i, _ int) float64 { return min(float64(i)/3, 1) },
	}
	for name, confidence := range streams {
		for _, budget := range []float64{1e-6, 0.01, 0.07, 0.15, 0.29, 0.9, 0.999} {
			t.Run(fmt.Sprintf("%s/%v", name, budget), func(t *testing.T) {
				total = 0
				r, err := New(Options{Policy: Entropy, Budget: budget})
				require.NoError(t, err)
				bound := reserve/math.Sqrt(budget) + budget + 1e-6
				for total < 2500 {
					before := r.Balance().Total()
					a := answered(r.Begin(), rng.IntN(40), rng.IntN(3) > 0, confidence, func(a Answer) {
						now := Total{budget, before.Tokens + a.Tokens, before.Escalations + a.Escalations}
						require.LessOrEqual(t, now.Share(), budget, "%+v", now)
						require.Less(t, budget*float64(now.Tokens)-float64(now.Escalations), bound, "%+v", now)
					})
					r.Add(a)
					total += a.Tokens
					require.Equal(t, before.Tokens+a.Tokens, r.Balance().Total().Tokens)
					require.Equal(t, before.Escalations+a.Escalations, r.Balance().Total().Escalations)
				}
			})
		}
	}
}

// TestBudgetIsMet: 50 answers of 8 to 30 tokens use the budget up to half a percent of the tokens, and never more, for
// confidences that differ from earlier ones.
func TestBudgetIsMet(t *testing.T) {
	racing.Spare(t)
	var rng *rand.Rand
	scale := 1.0 // of an answer: some are easier than others
	for name, confidence := range map[string]func(i, m int) float64{
		"uniform":     func(int, int) float64 { return rng.Float64() },
		"like margin": func(int, int) float64 { return 1 - math.Pow(rng.Float64(), 8) },
		"nearly sure": func(int, int) float64 { return 1 - 0.05*rng.Float64() },
		"low":         func(int, int) float64 { return 0.01 * rng.Float64() },
		"by answer":   func(int, int) float64 { return min(rng.Float64()/scale, 1) },
		"saturated":   func(int, int) float64 { return []float64{1, 1, 1, 1, rng.Float64()}[rng.IntN(5)] },
		"two values":  func(int, int) float64 { return []float64{0.1, 0.9, 0.9, 0.9, 0.9}[rng.IntN(5)] },
		"all equal":   func(int, int) float64 { return 1 },
	} {
		for _, budget := range []float64{0.03, 0.05, 0.07, 0.15} {
			const seeds = 20
			met := 0
			for seed := range uint64(seeds) {
				rng = rand.New(rand.NewPCG(seed, 5))
				r, err := New(Options{Policy: Entropy, Budget: budget})
				require.NoError(t, err)
				for range 50 {
					scale = 0.5 + rng.Float64()
					r.Add(answered(r.Begin(), 8+rng.IntN(23), true, confidence, func(Answer) {}))
				}
				got := r.Balance().Total().Share()
				require.LessOrEqual(t, got, budget)
				if got >= budget-0.005 {
					met++
				}
			}
			assert.GreaterOrEqual(t, met, seeds*95/100, "%s, budget %v", name, budget)
		}
	}
}

// TestBudgetFindsTheUnsure: most escalated tokens are those with the lowest confidence. Of the least confident tokens,
// half as many as the budget allows, at least three quarters are escalated.
func TestBudgetFindsTheUnsure(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, budget := range []float64{0.03, 0.07, 0.15} {
		r, err := New(Options{Policy: Entropy, Budget: budget})
		require.NoError(t, err)
		critical, found := 0, 0
		for range 400 {
			all := make([]float64, 20)
			before := 0
			a := answered(r.Begin(), len(all), false, func(i, _ int) float64 {
				all[i] = rng.Float64()
				return all[i]
			}, func(a Answer) {
				if c := a.Confidences[len(a.Confidences)-1]; float64(c) < budget/2 {
					critical++
					found += a.Escalations - before
				}
				before = a.Escalations
			})
			r.Add(a)
		}
		assert.Greater(t, float64(found)/float64(critical), 0.75, "budget %v", budget)
	}
}

// TestBudgetOfOne escalates everything, and the smallest budgets next to nothing.
func TestBudgetOfOne(t *testing.T) {
	for _, p := range []Policy{Margin, Entropy, Random} {
		r, err := New(Options{Policy: p, Budget: 1})
		require.NoError(t, err)
		for range 3 {
			path := uint64(0)
			for pos := range 50 {
				_, escalate, next := r.Decide(path, pos, headOf(1))
				require.True(t, escalate)
				path = next
			}
			r.Add(Answer{Tokens: 49, Escalations: 50, Confidences: []float32{1}})
			r = r.Begin()
		}
		small, err := New(Options{Policy: p, Budget: math.SmallestNonzeroFloat64})
		require.NoError(t, err)
		for pos := range 50 {
			path := count{tokens: math.MaxUint32, escalations: uint32(pos)}.path()
			_, escalate, _ := small.Decide(path, pos, headOf(0.5, 0.5))
			require.False(t, escalate)
		}
	}
}

// TestBudgetThreshold tests the rule with confidences of 0, 0.1, … 1, and more of them than the prior can outweigh.
func TestBudgetThreshold(t *testing.T) {
	var seen []float32
	for i := range 1000 {
		seen = append(seen, (float32(i)+0.5)/1000)
	}
	for _, c := range []struct {
		budget              float64
		tokens, escalations int
		at                  count
		want                float64
	}{
		{0.25, 0, 0, count{0, 0}, 0},        // no tokens yet
		{0.25, 0, 0, count{3, 0}, 0},        // less than one escalation
		{0.25, 0, 0, count{4, 0}, 0.04},     // 0.25·(1/2.5)²
		{0.25, 0, 0, count{8, 1}, 0.04},     // for the path alone
		{0.25, 4, 0, count{4, 1}, 0.04},     // and for earlier answers
		{0.25, 8, 2, count{0, 0}, 0},        // used up
		{0.25, 7, 1, count{0, 0}, 0},        // one more would exceed the budget
		{0.25, 10, 0, count{0, 0}, 0.25},    // the reserve: the budget itself
		{0.25, 8, 0, count{4, 0}, 0.36},     // 0.25·(3/2.5)²
		{0.25, 16, 0, count{0, 0}, 0.64},    // 0.25·(4/2.5)²
		{0.25, 20, 0, count{0, 0}, 2},       // 0.25·(5/2.5)² = 1: everything
		{0.25, 1000, 0, count{0, 0}, 2},     // everything
		{0.25, 8, 5, count{0, 0}, 0},        // overspent by concurrent answers
		{1, 0, 0, count{0, 0}, 2},           // a budget of 1
		{1, 0, 5, count{1, 1}, 2},           // for any spending
		{0.29, 100, 28, count{0, 0}, 0.046}, // 29 of 100 are 0.29, although 0.29·100 is below 29
	} {
		o := open(state{Total{c.budget, c.tokens, c.escalations}, seen}, []float32{0, 0.001})
		assert.InDelta(t, c.want, o.threshold(c.at), 0.0011, "%+v", c)
	}
	for _, tokens := range []int{4, 5} { // with 5 the reserve is left
		o := open(state{Total{0.5, tokens, 0}, seen}, nil)
		left := 0.5 * float64(tokens)
		at := o.quantile(0.5 * (left / reserve) * (left / reserve))
		assert.InDelta(t, at, o.threshold(count{}), 1e-12)
		assert.Equal(t, tokens == 5, o.threshold(count{}) > at, "whether a confidence equal to it is escalated")
	}
}

// TestQuantile: the quantile is that of the confidences and rises with the share, and each confidence reduces the
// weight of the prior.
func TestQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		var seen []float32
		for range rng.IntN(maxConfidences + 1) {
			seen = append(seen, float32(rng.IntN(20))/19)
		}
		o := open(state{Confidences: seen}, prior(Margin, nil))
		last := 0.0
		for b := 0.0; b < 1; b += 0.001 {
			q := o.quantile(b)
			require.GreaterOrEqual(t, q, last)
			require.LessOrEqual(t, q, 1.0)
			last = q
		}
		require.Zero(t, o.quantile(0))
		require.Equal(t, everything, o.quantile(1))
		if len(seen) < priorEnd {
			continue
		}
		for k := range 20 {
			below, upTo := 0.0, 0.0
			for _, c := range seen {
				if c < float32(k)/19 {
					below++
				}
				if c <= float32(k)/19 {
					upTo++
				}
			}
			middle := (below + upTo) / 2 / float64(len(seen))
			require.InDelta(t, float64(k)/19, o.quantile(middle), 1e-6)
		}
	}
	before := []float32{0.5, 0.5}
	for n, want := range map[int]float64{0: 0.5, 16: 0.5, 64: 0.9, 256: 0.9, 1024: 0.9} {
		o := open(state{Confidences: slices.Repeat([]float32{0.9}, n)}, before)
		assert.InDelta(t, want, o.quantile(0.4), 1e-6, "%d confidences", n)
		if n >= priorEnd {
			assert.Len(t, o.values, n, "the prior is gone")
		}
	}
}

// TestPrior: the prior is ascending and from 0 to 1; a calibration is used unchanged.
func TestPrior(t *testing.T) {
	for _, p := range Policies() {
		all := prior(p, nil)
		assert.NoError(t, validCalibration(all), p)
		o := open(state{}, all)
		for _, q := range measured(p) {
			assert.InDelta(t, q.confidence, o.quantile(q.share), 0.02, "%s at %v", p, q.share)
		}
	}
	for b := 0.01; b < 1; b += 0.01 {
		assert.InDelta(t, b, open(state{}, prior(Random, nil)).quantile(b), 1e-6)
	}
	own := []float32{0.25, 0.75}
	assert.Equal(t, own, prior(Margin, own))
}

// TestCalibration: a sample has the quantiles of its source.
func TestCalibration(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 2, maxConfidences, maxConfidences + 1, 5000} {
		all := []float32{float32(math.NaN()), -1, 2}
		for range n {
			all = append(all, rng.Float32())
		}
		got := Calibration(all)
		assert.Len(t, got, min(n, maxConfidences))
		assert.NoError(t, validCalibration(got))
		valid := slices.Clone(all[3:])
		slices.Sort(valid)
		bias := 0.0 // in quantiles
		for i, c := range got {
			at, _ := slices.BinarySearch(valid, c)
			off := (float64(at)+0.5)/float64(n)*float64(len(got)) - (float64(i) + 0.5)
			assert.InDelta(t, 0, off, 1)
			bias += off / float64(len(got))
		}
		assert.InDelta(t, 0, bias, 0.1)
	}
}

// TestCalibratedStart: the first escalations follow a calibration.
func TestCalibratedStart(t *testing.T) {
	low := make([]float32, 100)
	for i := range low {
		low[i] = float32(i) / 1e4
	}
	for _, c := range []struct {
		calibration []float32
		want        bool
	}{{low, false}, {nil, true}} {
		r, err := New(Options{Policy: Margin, Budget: 0.07, Calibration: c.calibration})
		require.NoError(t, err)
		_, got, _ := r.Decide(count{tokens: 30}.path(), 0, headOf(0.52, 0.48))
		assert.Equal(t, c.want, got)
	}
}

// TestBudgetIsOfThePath: other branches and answers do not affect an answer that has begun.
func TestBudgetIsOfThePath(t *testing.T) {
	r, err := New(Options{Policy: Margin, Budget: 0.1})
	require.NoError(t, err)
	r.Add(Answer{Tokens: 25, Escalations: 1, Confidences: []float32{0.5, 0.6}})
	begun := r.Begin()
	decide := func(path uint64, head *backend.Output) uint64 {
		_, _, next := begun.Decide(path, 0, head)
		return next
	}
	unsure, certain := headOf(0.5, 0.5), headOf(1)
	alone := decide(decide(0, unsure), certain)
	a := decide(0, unsure)
	for range 50 {
		decide(a, unsure)
		r.Add(Answer{Tokens: 10, Escalations: 10, Confidences: []float32{0.1}})
	}
	assert.Equal(t, alone, decide(a, certain))
	assert.Equal(t, count{2, 1}, countOf(alone))
	seen := []float32{begun.Confidence(0, unsure), begun.Confidence(0, certain)}
	assert.Equal(t, Answer{Tokens: 2, Escalations: 1, Confidences: seen}, begun.Spent(seen, 2), "as it decided")
	_, asks, _ := r.Begin().Decide(0, 0, unsure)
	assert.False(t, asks, "the next answer starts from the added counts")
}

// TestExplainBudget: the reported threshold is the one that decides.
func TestExplainBudget(t *testing.T) {
	r, err := New(Options{Policy: Margin, Budget: 0.2})
	require.NoError(t, err)
	assert.Zero(t, r.Threshold())
	for tokens := range uint32(60) {
		for m := range uint32(6) {
			path := count{tokens, m}.path()
			for _, p := range []float64{0.5, 0.52, 0.6, 0.9, 1} {
				head := headOf(p, 1-p)
				c, escalate, _ := r.Decide(path, 0, head)
				_, _, threshold := r.Explain(path, 0, head)
				assert.Equal(t, escalate, float64(c) < threshold)
			}
		}
	}
}
