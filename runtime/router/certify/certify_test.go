package certify

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// population draws answers.
type population func(r *rand.Rand) Answer

// share returns the share of escalated tokens in many answers.
func (p population) share() float64 {
	r, s := rand.New(rand.NewPCG(99, 0)), Step{}
	for range 400_000 {
		a := p(r)
		s.Escalated, s.Tokens = s.Escalated+a.Escalated, s.Tokens+a.Tokens
	}
	return s.Share()
}

func (p population) draw(r *rand.Rand, n int) []Answer {
	all := make([]Answer, n)
	for i := range all {
		all[i] = p(r)
	}
	return all
}

// coins draws answers of one length, with tokens that are escalated independently.
func coins(length int, share float64) population {
	return func(r *rand.Rand) Answer {
		a := Answer{Tokens: length}
		for range length {
			if r.Float64() < share {
				a.Escalated++
			}
		}
		return a
	}
}

// allOrNothing draws answers that are completely from one model or the other: the max variance of shares.
func allOrNothing(length int, share float64) population {
	return func(r *rand.Rand) Answer {
		if r.Float64() < share {
			return Answer{length, length}
		}
		return Answer{0, length}
	}
}

// longAreHard draws long answers with many escalated tokens, and short ones without: the mean of shares differs from
// the share of tokens.
func longAreHard(share float64) population {
	return func(r *rand.Rand) Answer {
		if r.Float64() < 0.5 {
			return Answer{0, 5}
		}
		return coins(50, share*55/50)(r)
	}
}

// TestFalseCertificates: if the share equals the budget, a certificate is given with a probability of at most δ.
func TestFalseCertificates(t *testing.T) {
	trials := 2000
	if testing.Short() {
		trials = 300
	}
	const delta = 0.1
	worst := 0
	for name, p := range map[string]population{
		"coins": coins(60, 0.07), "all or nothing": allOrNothing(60, 0.07), "long are hard": longAreHard(0.07),
	} {
		require.InDelta(t, 0.07, p.share(), 0.0015, name)
		for _, method := range Methods() {
			for _, n := range []int{10, 100, 600} {
				test := Test{Budget: 0.07, Confidence: 1 - delta, MaxTokens: 60, Method: method}
				r, wrong := rand.New(rand.NewPCG(uint64(n), 7)), 0
				for range trials {
					got, err := test.PValue(p.draw(r, n))
					require.NoError(t, err)
					if got <= delta {
						wrong++
					}
				}
				noise := 3 * math.Sqrt(float64(trials)*delta*(1-delta))
				assert.LessOrEqual(t, float64(wrong), float64(trials)*delta+noise,
					"%s, %s, %d prompts", name, method, n)
				worst = max(worst, wrong)
			}
		}
	}
	assert.Positive(t, worst, "at the boundary some are wrong")
}

// TestPower: the number of prompts that a certificate needs for typical tokens: budget 7%, confidence 90%. Hoeffding's
// bound alone needs 680 prompts at a share of 5% and 2863 at 6%.
func TestPower(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 40
	}
	for _, c := range []struct {
		method Method
		share  float64
		n      int
		low    float64 // of the trials
		high   float64
	}{
		{Betting, 0.05, 200, 0.97, 1}, {Betting, 0.06, 400, 0.9, 1}, {Betting, 0.05, 60, 0, 0.4},
		{HoeffdingBentkus, 0.05, 800, 0.9, 1}, {HoeffdingBentkus, 0.05, 200, 0, 0.1},
		{Best, 0.05, 250, 0.95, 1},
	} {
		test := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 60, Method: c.method}
		r, shown := rand.New(rand.NewPCG(3, 4)), 0
		for range trials {
			p, err := test.PValue(coins(60, c.share).draw(r, c.n))
			require.NoError(t, err)
			if p <= 0.1 {
				shown++
			}
		}
		got := float64(shown) / float64(trials)
		t.Logf("%s, share %v, %d prompts: %.2f certified", c.method, c.share, c.n, got)
		assert.GreaterOrEqual(t, got, c.low, "%+v", c)
		assert.LessOrEqual(t, got, c.high, "%+v", c)
	}
}

// TestLosses: the mean of the losses is at the budget exactly if the share is.
func TestLosses(t *testing.T) {
	test := Test{Budget: 0.25, Confidence: 0.9, MaxTokens: 8}
	x, err := test.losses([]Answer{{0, 8}, {8, 8}, {2, 8}, {1, 4}, {0, 4}, {1, 1}})
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{0, 1, 0.25, 0.25, 0.125, 0.25 + 0.75/8}, x, 1e-12)
}

// TestBetting: small cases computed by hand. The first bet is 0, without data; the second follows from one answer.
func TestBetting(t *testing.T) {
	const b = 0.25
	assert.Equal(t, 1.0, betting([]float64{0}, b))
	// after one 0: mean (b+0)/2 = 0.125, gap 0.125, squares 0.1875 + (0-0.25)·(0-0.125) = 0.21875, variance 0.109375:
	// bet 0.125/(0.109375+0.015625) = 1, below the max of 0.9/0.75 = 1.2; a second 0 multiplies by 1.25
	assert.InDelta(t, 1/1.25, betting([]float64{0, 0}, b), 1e-12)
	// a 1 instead loses 0.75 of it: the max capital was 1
	assert.Equal(t, 1.0, betting([]float64{0, 1}, b))
	// the max is kept: the capital falls afterwards
	assert.InDelta(t, 1/1.25, betting([]float64{0, 0, 1, 1, 1, 1}, b), 1e-12)
	// no bet if the mean is not below the budget
	assert.Equal(t, 1.0, betting([]float64{1, 1, 0, 0, 0}, b))
	// third: mean 0.25/3, gap 1/6, squares 0.21875 + (0-0.125)·(0-0.25/3) = 0.229167, variance 0.0763889:
	// bet (1/6)/(0.0763889+1/36) = 1.6 is limited to 1.2
	assert.InDelta(t, 1/(1.25*(1+1.2*0.25)), betting([]float64{0, 0, 0}, b), 1e-12)
}

// TestHoeffdingBentkus: small cases computed by hand.
func TestHoeffdingBentkus(t *testing.T) {
	// no loss in two: Hoeffding (1-b)² = 0.5625, Bentkus e·0.5625
	assert.InDelta(t, 0.5625, hoeffdingBentkus([]float64{0, 0}, 0.25), 1e-12)
	assert.Equal(t, 1.0, hoeffdingBentkus([]float64{1, 0}, 0.25), "a mean above the budget")
	// one of sixteen: exp(-16·h(1/16, 1/4)) is less than e·(0.75^16 + 16·0.25·0.75^15)
	h := 1.0/16*math.Log(0.25) + 15.0/16*math.Log(15.0/16/0.75)
	assert.InDelta(t, math.Exp(-16*h), hoeffdingBentkus(append(make([]float64, 15), 1), 0.25), 1e-12)
	assert.Less(t, math.Exp(-16*h), math.E*(math.Pow(0.75, 16)+16*0.25*math.Pow(0.75, 15)))
	// twenty of a hundred: Bentkus is smaller, and a little more than twenty has the tail of 21
	x := append(make([]float64, 80), slices.Repeat([]float64{1}, 20)...)
	assert.InDelta(t, math.E*0.14883, hoeffdingBentkus(x, 0.25), 1e-4)
	x[0] = 0.01
	assert.InDelta(t, min(math.Exp(-100*divergence(0.2001, 0.25)), math.E*stat.BinomialCDF(100, 0.25, 21)),
		hoeffdingBentkus(x, 0.25), 1e-12)
}

// TestBestIsBoth: twice the smaller p-value of both, at most 1.
func TestBestIsBoth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		answers := coins(30, 0.1*r.Float64()).draw(r, 1+r.IntN(300))
		var p [3]float64
		for i, m := range Methods() {
			var err error
			p[i], err = Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 40, Method: m}.PValue(answers)
			require.NoError(t, err)
		}
		assert.InDelta(t, min(1, 2*min(p[0], p[1])), p[2], 1e-12)
	}
	plain, err := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 40}.PValue([]Answer{{0, 40}, {0, 40}, {0, 9}})
	require.NoError(t, err)
	assert.Less(t, plain, 1.0)
	some := []Answer{{0, 40}, {0, 40}, {0, 9}}
	named, err := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 40, Method: Betting}.PValue(some)
	require.NoError(t, err)
	assert.Equal(t, named, plain, "betting is the default")
}

// TestMonotone: another escalation never makes Hoeffding–Bentkus more certain, and neither does a smaller budget.
func TestMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		answers := coins(20, 0.05).draw(r, 50)
		test := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 20, Method: HoeffdingBentkus}
		before, err := test.PValue(answers)
		require.NoError(t, err)
		test.Budget = 0.06
		stricter, err := test.PValue(answers)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, stricter, before)
		test.Budget = 0.07
		answers[r.IntN(50)].Escalated++
		after, err := test.PValue(answers)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, after, before)
	}
}

// TestWalk: the walk ends at the first threshold that is not certified, decodes no further one, and counts the answers
// that it used.
func TestWalk(t *testing.T) {
	test := Test{Budget: 0.25, Confidence: 0.9, MaxTokens: 4, Method: HoeffdingBentkus}
	many := func(escalated int) []Answer { return slices.Repeat([]Answer{{escalated, 4}}, 50) }
	decoded := []int{}
	at := func(escalated ...int) func(int) ([]Answer, error) {
		decoded = nil
		return func(i int) ([]Answer, error) {
			decoded = append(decoded, i)
			return many(escalated[i]), nil
		}
	}
	steps, err := test.Walk(4, at(0, 0, 2, 0))
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2}, decoded, "the last one is not certified, whatever its share")
	require.Len(t, steps, 3)
	assert.Equal(t, []bool{true, true, false}, []bool{steps[0].Certified, steps[1].Certified, steps[2].Certified})
	assert.Equal(t, []int{100, 200}, []int{steps[2].Escalated, steps[2].Tokens})
	assert.Equal(t, 0.5, steps[2].Share())
	assert.Less(t, steps[0].PValue, 0.1)
	assert.Equal(t, 1.0, steps[2].PValue)
	steps, err = test.Walk(2, at(0, 0))
	require.NoError(t, err)
	assert.Len(t, steps, 2)
	away := errors.New("away")
	_, err = test.Walk(2, func(int) ([]Answer, error) { return nil, away })
	assert.ErrorIs(t, err, away)
	_, err = test.Walk(2, func(int) ([]Answer, error) { return nil, nil })
	assert.ErrorContains(t, err, "threshold 1: no answers")
	// certified means p ≤ δ, including equality: one of 0.75ⁿ
	exact := Test{Budget: 0.25, Confidence: 0.4375, MaxTokens: 4, Method: HoeffdingBentkus}
	steps, err = exact.Walk(1, func(int) ([]Answer, error) { return []Answer{{0, 4}, {0, 4}}, nil })
	require.NoError(t, err)
	assert.InDelta(t, 0.5625, steps[0].PValue, 1e-12)
	assert.Equal(t, steps[0].PValue <= 0.5625, steps[0].Certified)
}

// TestNeeded: with this number of prompts more than half of the trials are certified, and with a quarter of it few.
func TestNeeded(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, m := range Methods() {
		test := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 60, Method: m}
		p := coins(60, 0.05)
		n, ok := test.Needed(p.draw(r, 3000))
		require.True(t, ok)
		t.Logf("%s: about %d", m, n)
		for part, want := range map[float64]bool{1.5: true, 0.25: false} {
			shown := 0
			for range 50 {
				got, err := test.PValue(p.draw(r, int(part*float64(n))))
				require.NoError(t, err)
				if got <= 0.1 {
					shown++
				}
			}
			assert.Equal(t, want, shown > 25, "%s: %d of 50 with %v times %d", m, shown, part, n)
		}
		_, ok = test.Needed(coins(60, 0.09).draw(r, 3000))
		assert.False(t, ok, "more prompts do not help a share above the budget")
		_, ok = test.Needed(nil)
		assert.False(t, ok)
	}
}

// TestNeededOfBest: the better method, at half the error probability.
func TestNeededOfBest(t *testing.T) {
	answers := coins(60, 0.05).draw(rand.New(rand.NewPCG(8, 9)), 3000)
	need := map[Method]int{}
	for _, m := range Methods() {
		need[m], _ = Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 60, Method: m}.Needed(answers)
	}
	assert.InEpsilon(t, float64(need[Betting])*math.Log(20)/math.Log(10), need[Best], 0.02)
	assert.Greater(t, need[HoeffdingBentkus], 3*need[Best])
}

// TestRefused: errors name the value that is out of range.
func TestRefused(t *testing.T) {
	good := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 4}
	for want, change := range map[string]func(*Test){
		"budget": func(t *Test) { t.Budget = 0 }, "budget: 1": func(t *Test) { t.Budget = 1 },
		"budget: NaN": func(t *Test) { t.Budget = math.NaN() }, "confidence": func(t *Test) { t.Confidence = 1 },
		"confidence: 0": func(t *Test) { t.Confidence = 0 }, "most tokens": func(t *Test) { t.MaxTokens = 0 },
		"choose one of betting, hoeffding-bentkus, best": func(t *Test) { t.Method = "sure" },
	} {
		test := good
		change(&test)
		_, err := test.PValue([]Answer{{0, 1}})
		assert.ErrorContains(t, err, want)
	}
	for _, a := range []Answer{{-1, 2}, {3, 2}, {0, 0}, {0, 5}} {
		_, err := good.PValue([]Answer{{0, 1}, a})
		assert.ErrorContains(t, err, "answer 2", "%+v", a)
	}
	for _, a := range []Answer{{0, 1}, {1, 1}, {4, 4}, {0, 4}} {
		_, err := good.PValue([]Answer{a})
		assert.NoError(t, err, "%+v", a)
	}
	for _, m := range Methods() {
		got, err := ParseMethod(string(m))
		require.NoError(t, err)
		assert.Equal(t, m, got)
	}
}

// FuzzPValue: the result is always a number in (0, 1], or an error.
func FuzzPValue(f *testing.F) {
	f.Add(0.07, 0.9, 60, []byte{1, 60, 0, 60})
	f.Add(1e-300, 1-1e-16, 1, []byte{1, 1})
	f.Add(1-1e-16, 1e-300, 255, []byte{0, 255, 255, 255})
	f.Fuzz(func(t *testing.T, budget, confidence float64, high int, counts []byte) {
		var answers []Answer
		for ; len(counts) >= 2; counts = counts[2:] {
			answers = append(answers, Answer{int(counts[0]), int(counts[1])})
		}
		for _, m := range Methods() {
			test := Test{Budget: budget, Confidence: confidence, MaxTokens: high, Method: m}
			p, err := test.PValue(answers)
			if err == nil && !(p > 0 && p <= 1) {
				t.Fatal(fmt.Sprint(m, p))
			}
			if n, ok := test.Needed(answers); ok && n < 1 {
				t.Fatal(fmt.Sprint(m, n))
			}
		}
	})
}
