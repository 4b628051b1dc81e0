package certify

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		for _, n := range []int{10, 100, 600} {
			test := Test{Budget: 0.07, Confidence: 1 - delta, MaxTokens: 60}
			r, wrong := rand.New(rand.NewPCG(uint64(n), 7)), 0
			for range trials {
				got, err := test.PValue(p.draw(r, n))
				require.NoError(t, err)
				if got <= delta {
					wrong++
				}
			}
			noise := 3 * math.Sqrt(float64(trials)*delta*(1-delta))
			assert.LessOrEqual(t, float64(wrong), float64(trials)*delta+noise, "%s, %d prompts", name, n)
			worst = max(worst, wrong)
		}
	}
	assert.Positive(t, worst, "at the boundary some are wrong")
}

// TestPower: the number of prompts that a certificate needs for typical tokens: budget 7%, confidence 90%.
func TestPower(t *testing.T) {
	trials := 200
	if testing.Short() {
		trials = 40
	}
	for _, c := range []struct {
		name      string
		share     float64
		n         int
		low, high float64 // of the trials
	}{
		{"a low share", 0.05, 200, 0.97, 1}, {"a share near the budget", 0.06, 400, 0.9, 1},
		{"too few prompts", 0.05, 60, 0, 0.4},
	} {
		test := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 60}
		r, shown := rand.New(rand.NewPCG(3, 4)), 0
		for range trials {
			p, err := test.PValue(coins(60, c.share).draw(r, c.n))
			require.NoError(t, err)
			if p <= 0.1 {
				shown++
			}
		}
		got := float64(shown) / float64(trials)
		t.Logf("share %v, %d prompts: %.2f certified", c.share, c.n, got)
		assert.GreaterOrEqual(t, got, c.low, c.name)
		assert.LessOrEqual(t, got, c.high, c.name)
	}
}

// TestLosses: the mean of the losses is at the budget exactly if the share is.
func TestLosses(t *testing.T) {
	test := Test{Budget: 0.25, Confidence: 0.9, MaxTokens: 8}
	x, err := test.normalizedLosses([]Answer{{0, 8}, {8, 8}, {2, 8}, {1, 4}, {0, 4}, {1, 1}})
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{0, 1, 0.25, 0.25, 0.125, 0.25 + 0.75/8}, x, 1e-12)
}

// TestBetting: small cases computed by hand. The first bet is 0, without data; the others follow from the answers.
func TestBetting(t *testing.T) {
	for _, c := range []struct {
		name   string
		losses []float64
		want   float64
	}{
		{"one answer", []float64{0}, 1},
		// after one 0: mean (b+0)/2 = 0.125, gap 0.125, squares 0.1875 + (0-0.25)·(0-0.125) = 0.21875, variance
		// 0.109375: bet 0.125/(0.109375+0.015625) = 1, below the max of 0.9/0.75 = 1.2; a second 0 multiplies by 1.25
		{"two zeros", []float64{0, 0}, 1 / 1.25},
		{"a 1 loses 0.75 of the bet, the max capital was 1", []float64{0, 1}, 1},
		{"the max is kept as the capital falls", []float64{0, 0, 1, 1, 1, 1}, 1 / 1.25},
		{"no bet if the mean is not below the budget", []float64{1, 1, 0, 0, 0}, 1},
		// third: mean 0.25/3, gap 1/6, squares 0.21875 + (0-0.125)·(0-0.25/3) = 0.229167, variance 0.0763889:
		// bet (1/6)/(0.0763889+1/36) = 1.6 is limited to 1.2
		{"three zeros", []float64{0, 0, 0}, 1 / (1.25 * (1 + 1.2*0.25))},
	} {
		p := bettingPValue(c.losses, 0.25)
		assert.InDelta(t, c.want, p, 1e-12, c.name)
		assert.LessOrEqual(t, p, 1.0, c.name)
	}
}

// TestWalk: the walk ends at the first threshold that is not certified, decodes no further one, and counts the answers
// that it used.
func TestWalk(t *testing.T) {
	test := Test{Budget: 0.25, Confidence: 0.9, MaxTokens: 4}
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
	for i, want := range []bool{true, true, false} {
		assert.Equal(t, want, steps[i].Certified, "step %d", i)
	}
	assert.Equal(t, 100, steps[2].Escalated)
	assert.Equal(t, 200, steps[2].Tokens)
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
	// certified means p ≤ δ, including equality
	exact := Test{Budget: 0.25, Confidence: 0.2, MaxTokens: 4}
	steps, err = exact.Walk(1, func(int) ([]Answer, error) { return []Answer{{0, 4}, {0, 4}}, nil })
	require.NoError(t, err)
	assert.InDelta(t, 0.8, steps[0].PValue, 1e-12)
	assert.Equal(t, steps[0].PValue <= 0.8, steps[0].Certified)
}

// TestNeeded: with this number of prompts more than half of the trials are certified, and with a quarter of it few.
func TestNeeded(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	test, p := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 60}, coins(60, 0.05)
	n, ok := test.Needed(p.draw(r, 3000))
	require.True(t, ok)
	t.Logf("about %d", n)
	for part, want := range map[float64]bool{1.5: true, 0.25: false} {
		shown := 0
		for range 50 {
			got, err := test.PValue(p.draw(r, int(part*float64(n))))
			require.NoError(t, err)
			if got <= 0.1 {
				shown++
			}
		}
		assert.Equal(t, want, shown > 25, "%d of 50 with %v times %d", shown, part, n)
	}
	_, ok = test.Needed(coins(60, 0.09).draw(r, 3000))
	assert.False(t, ok, "more prompts do not help a share above the budget")
	_, ok = test.Needed(nil)
	assert.False(t, ok)
}

// TestRefused: errors name the value that is out of range.
func TestRefused(t *testing.T) {
	good := Test{Budget: 0.07, Confidence: 0.9, MaxTokens: 4}
	for want, change := range map[string]func(*Test){
		"budget": func(t *Test) { t.Budget = 0 }, "budget: 1": func(t *Test) { t.Budget = 1 },
		"budget: NaN": func(t *Test) { t.Budget = math.NaN() }, "confidence": func(t *Test) { t.Confidence = 1 },
		"confidence: 0": func(t *Test) { t.Confidence = 0 }, "most tokens": func(t *Test) { t.MaxTokens = 0 },
	} {
		test := good
		change(&test)
		_, err := test.PValue([]Answer{{0, 1}})
		assert.ErrorContains(t, err, want)
	}
	for name, a := range map[string]Answer{
		"negative": {-1, 2}, "more escalated than tokens": {3, 2}, "no tokens": {0, 0}, "too many tokens": {0, 5},
	} {
		_, err := good.PValue([]Answer{{0, 1}, a})
		assert.ErrorContains(t, err, "answer 2", name)
	}
	for _, a := range []Answer{{0, 1}, {1, 1}, {4, 4}, {0, 4}} {
		_, err := good.PValue([]Answer{a})
		assert.NoError(t, err, "%+v", a)
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
		test := Test{Budget: budget, Confidence: confidence, MaxTokens: high}
		p, err := test.PValue(answers)
		if err == nil && !(p > 0 && p <= 1) {
			t.Fatal(p)
		}
		if n, ok := test.Needed(answers); ok && n < 1 {
			t.Fatal(n)
		}
	})
}
