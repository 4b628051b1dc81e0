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

// TestBudgetOfTen: any answers of a window, ten at the usual budgets, escalate at most the budget's share of their
// tokens, for any confidences, also changing or adversarial ones, and for answers of 3 to 60 tokens. So do all
// answers but for what is lent.
func TestBudgetOfTen(t *testing.T) {
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
		for _, budget := range []float64{1e-6, 0.01, 0.069, 0.07, 0.15, 0.29, 0.9, 0.999} {
			t.Run(fmt.Sprintf("%s/%v", name, budget), func(t *testing.T) {
				total = 0
				r, err := New(Options{Policy: Entropy, Budget: budget})
				require.NoError(t, err)
				var all []Answer
				for range 120 {
					a := answered(r.Begin(), 3+rng.IntN(58)*rng.IntN(2), rng.IntN(3) > 0, confidence, func(Answer) {})
					r.Add(a)
					all, total = append(all, a), total+a.Tokens
					window := Total{Budget: budget}
					for _, one := range all[max(0, len(all)-windowLength(budget)):] {
						window.Tokens, window.Escalations = window.Tokens+one.Tokens, window.Escalations+one.Escalations
					}
					if len(all) >= windowLength(budget) {
						require.LessOrEqual(t, window.Share(), budget, "%d answers: %+v", len(all), window)
					}
					sum := r.Balance().Total()
					require.LessOrEqual(t, float64(sum.Escalations), budget*float64(sum.Tokens)+lent+1e-9)
				}
			})
		}
	}
	for budget, want := range map[float64]int{1: 10, 0.15: 10, 0.07: 10, 0.069: 10, 0.05: 14, 0.03: 22, 1e-6: 100} {
		assert.Equal(t, want, windowLength(budget), "%v", budget)
	}
}

// TestBudgetLends: with the usual budget the first token of the first answer is escalated if it is unsure, and only
// one of them before other tokens.
func TestBudgetLends(t *testing.T) {
	r, err := New(Options{Policy: Margin, Budget: 0.07})
	require.NoError(t, err)
	_, first, path := r.Decide(0, 0, headOf(0.51, 0.49))
	_, second, _ := r.Decide(path, 1, headOf(0.5, 0.5))
	assert.True(t, first, "the first token")
	assert.False(t, second, "another one right after it")
	_, later, _ := r.Decide(pathCount{10, 0}.packPath(), 10, headOf(0.5445, 0.4555))
	assert.True(t, later, "a margin of 0.089 in the middle of the first answer")
}

// TestBudgetIsMet: 50 answers of 30 to 200 tokens use most of the budget, and never more, for confidences that differ
// from earlier ones. Shorter ones use less of it, since the later answers of a window might be as short as possible.
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
					r.Add(answered(r.Begin(), 30+rng.IntN(171), true, confidence, func(Answer) {}))
				}
				got := r.Balance().Total().Share()
				require.LessOrEqual(t, got, budget)
				if got >= 0.85*budget {
					met++
				}
			}
			assert.GreaterOrEqual(t, met, seeds*95/100, "%s, budget %v", name, budget)
		}
	}
}

// TestBudgetIsUsed: the shares of a budget of 7% that docs/understand/routing.md says answers of some lengths use.
func TestBudgetIsUsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		name        string
		least, most int
		want        float64
	}{{"long answers", 50, 300, 0.97}, {"short answers", 3, 60, 0.87}} {
		r, err := New(Options{Policy: Entropy, Budget: 0.07})
		require.NoError(t, err)
		for range 2000 {
			n := c.least + rng.IntN(c.most-c.least+1)
			r.Add(answered(r.Begin(), n, true, func(int, int) float64 { return rng.Float64() }, func(Answer) {}))
		}
		assert.InDelta(t, c.want, r.Balance().Total().Share()/0.07, 0.01, c.name)
	}
}

// TestBudgetFindsTheUnsure: most escalated tokens are those with the lowest confidence. Of the least confident tokens,
// half as many as the budget allows, at least 70% are escalated.
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
		assert.Greater(t, float64(found)/float64(critical), 0.7, "budget %v", budget)
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
			path := pathCount{tokens: math.MaxUint32, escalations: uint32(pos)}.packPath()
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
		name   string
		budget float64
		recent []spending
		at     pathCount
		want   float64
	}{
		{"at the beginning", 0.07, nil, pathCount{0, 0}, 0.074}, // 0.07·(1.85/1.8)²
		{"after ten tokens", 0.07, nil, pathCount{10, 0}, 0.14}, // 0.07·(2.55/1.8)²
		{"less than one escalation is left", 0.07, nil, pathCount{0, 1}, 0},
		{"after four tokens and an escalation", 0.07, nil, pathCount{4, 1}, 0.0276}, // 0.07·(1.13/1.8)²
		{"what was lent is spent", 0.07, []spending{{3, 1}}, pathCount{0, 0}, 0},
		{"a part of what was lent is spent", 0.07, []spending{{5, 1}}, pathCount{0, 0}, 0.023}, // 0.07·(1.03/1.8)²
		{"an answer leaves no more than is lent", 0.07, []spending{{3, 0}}, pathCount{0, 0}, 0.074},
		{"0.07·(103+21) - 8 is less than an escalation", 0.07, []spending{{100, 8}, {3, 0}}, pathCount{0, 0}, 0},
		{"of ten answers, nine left all", 0.07, tens(9, 10, 0), pathCount{0, 0}, 0.074},
		{"in the tenth answer", 0.07, tens(9, 3, 0), pathCount{2, 0}, 0.0856}, // 0.07·(1.99/1.8)²
		{"29 tokens have no third", 0.07, tens(9, 3, 0), pathCount{2, 2}, 0},
		{"all answers so far are overspent", 0.07, append(tens(1, 100, 99), tens(9, 30, 0)...), pathCount{0, 0}, 0},
		{"a budget of 1", 1, nil, pathCount{0, 0}, 2},
		{"a budget of 1, spent", 1, nil, pathCount{1, 1}, 2},
		{"29 of 100, although 0.29·100 < 29", 0.29, append(tens(1, 91, 28), tens(8, 1, 0)...), pathCount{1, 0}, 0.0895},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := balanceState{Total: Total{Budget: c.budget}, Recent: c.recent, Confidences: seen}
			for _, a := range c.recent {
				s.Tokens, s.Escalations = s.Tokens+a.Tokens, s.Escalations+a.Escalations
			}
			o := newBudgetStart(s, []float32{0, 0.001})
			assert.InDelta(t, c.want, o.thresholdAfter(c.at), 0.0011)
		})
	}
	o := newBudgetStart(balanceState{Total: Total{Budget: 0.2}, Confidences: seen}, nil)
	for n, equal := range map[uint32]bool{4: false, 5: true} { // 1.85 + 0.2·n - 1: with 5 the reserve is left
		left := 0.2*(lent/0.2+float64(n)) - 1
		at := o.confidenceQuantile(0.2 * (left / reserve) * (left / reserve))
		assert.Equal(t, equal, o.thresholdAfter(pathCount{n, 1}) > at, "whether a confidence equal to it is escalated")
	}
}

// tens returns n answers of so many tokens and escalations each.
func tens(n, tokens, escalations int) []spending {
	return slices.Repeat([]spending{{tokens, escalations}}, n)
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
		o := newBudgetStart(balanceState{Confidences: seen}, priorConfidences(Margin, nil))
		last := 0.0
		for b := 0.0; b < 1; b += 0.001 {
			q := o.confidenceQuantile(b)
			require.GreaterOrEqual(t, q, last)
			require.LessOrEqual(t, q, 1.0)
			last = q
		}
		require.Zero(t, o.confidenceQuantile(0))
		require.Equal(t, everything, o.confidenceQuantile(1))
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
			require.InDelta(t, float64(k)/19, o.confidenceQuantile(middle), 1e-6)
		}
	}
	before := []float32{0.5, 0.5}
	for n, want := range map[int]float64{0: 0.5, 16: 0.5, 64: 0.9, 256: 0.9, 1024: 0.9} {
		o := newBudgetStart(balanceState{Confidences: slices.Repeat([]float32{0.9}, n)}, before)
		assert.InDelta(t, want, o.confidenceQuantile(0.4), 1e-6, "%d confidences", n)
		if n >= priorEnd {
			assert.Len(t, o.values, n, "the prior is gone")
		}
	}
}

// TestPrior: the prior is ascending and from 0 to 1; a calibration is used unchanged.
func TestPrior(t *testing.T) {
	for _, p := range Policies() {
		all := priorConfidences(p, nil)
		assert.NoError(t, validateCalibration(all), p)
		o := newBudgetStart(balanceState{}, all)
		for _, q := range measuredQuantiles(p) {
			assert.InDelta(t, q.confidence, o.confidenceQuantile(q.share), 0.02, "%s at %v", p, q.share)
		}
	}
	for b := 0.01; b < 1; b += 0.01 {
		assert.InDelta(t, b, newBudgetStart(balanceState{}, priorConfidences(Random, nil)).confidenceQuantile(b), 1e-6)
	}
	own := []float32{0.25, 0.75}
	assert.Equal(t, own, priorConfidences(Margin, own))
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
		assert.NoError(t, validateCalibration(got))
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
	for name, c := range map[string]struct {
		calibration []float32
		want        bool
	}{"of a sure model": {low, false}, "none": {nil, true}} {
		r, err := New(Options{Policy: Margin, Budget: 0.07, Calibration: c.calibration})
		require.NoError(t, err)
		_, got, _ := r.Decide(pathCount{tokens: 30}.packPath(), 0, headOf(0.52, 0.48))
		assert.Equal(t, c.want, got, name)
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
	assert.Equal(t, pathCount{2, 1}, unpackPath(alone))
	seen := []float32{begun.Confidence(0, unsure), begun.Confidence(0, certain)}
	assert.Equal(t, Answer{Tokens: 2, Escalations: 1, Confidences: seen}, begun.Spent(seen, 2), "as it decided")
	_, asks, _ := r.Begin().Decide(0, 0, unsure)
	assert.False(t, asks, "the next answer starts from the added counts")
}

// TestExplainBudget: the reported threshold is the one that decides.
func TestExplainBudget(t *testing.T) {
	r, err := New(Options{Policy: Margin, Budget: 0.2})
	require.NoError(t, err)
	assert.Positive(t, r.Threshold())
	for tokens := range uint32(60) {
		for m := range uint32(6) {
			path := pathCount{tokens, m}.packPath()
			for _, p := range []float64{0.5, 0.52, 0.6, 0.9, 1} {
				head := headOf(p, 1-p)
				c, escalate, _ := r.Decide(path, 0, head)
				_, _, threshold := r.Explain(path, 0, head)
				assert.Equal(t, escalate, float64(c) < threshold)
			}
		}
	}
}
