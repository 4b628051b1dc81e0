package calibrate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
)

const (
	trials     = 200
	maxWrong   = 27 // of 200 at confidence 0.9: 20 and binomial noise, exceeded with a chance of 4%
	confidence = 0.9
)

// shareOf returns the share of escalated tokens in all answers.
func shareOf(answers []certify.Answer) float64 {
	var s certify.Step
	for _, a := range answers {
		s.Escalated, s.Tokens = s.Escalated+a.Escalated, s.Tokens+a.Tokens
	}
	return s.Share()
}

// try certifies n answers per threshold in each of 200 trials. It counts the trials that certified a threshold, and
// those with a chosen threshold above the budget. shares are the true shares.
func try(
	t *testing.T, test certify.Test, shares []float64, sample func(r *rand.Rand) func(step int) []certify.Answer,
) (certified, wrong int) {
	t.Helper()
	r := rand.New(rand.NewPCG(21, 22))
	for range trials {
		answers := sample(r)
		steps, err := test.Walk(len(shares), func(i int) ([]certify.Answer, error) { return answers(i), nil })
		require.NoError(t, err)
		chosen := -1
		for i, s := range steps {
			if s.Certified {
				chosen = i
			}
		}
		if chosen >= 0 {
			certified++
			if shares[chosen] > test.Budget {
				wrong++
			}
		}
	}
	return certified, wrong
}

// wander draws an answer of 41 tokens from a task with a share that is not monotone in the threshold. The first token
// is a choice with a uniform confidence. If the large model makes it, the small one continues with confidences of at
// least 0.8. If not, the text leads to topics that the small model knows little about: three tenths of the confidences
// are uniform.
func wander(r *rand.Rand, threshold float64) (a certify.Answer) {
	a.Tokens = 41
	escalated := r.Float64() < threshold
	if escalated {
		a.Escalated++
	}
	for range a.Tokens - 1 {
		c := 0.8 + 0.2*r.Float64()
		if !escalated && r.Float64() < 0.3 {
			c = r.Float64()
		}
		if c < threshold {
			a.Escalated++
		}
	}
	return a
}

// openLoop draws an answer of the same task for a given text, which escalation does not change. Curves from recorded
// texts measure this share.
func openLoop(r *rand.Rand, threshold float64) (a certify.Answer) {
	a.Tokens = 41
	for i := range a.Tokens {
		c := r.Float64()
		if i > 0 {
			c = 0.8 + 0.2*c
		}
		if c < threshold {
			a.Escalated++
		}
	}
	return a
}

func draws(r *rand.Rand, n int, threshold float64, one func(*rand.Rand, float64) certify.Answer) []certify.Answer {
	all := make([]certify.Answer, n)
	for i := range all {
		all[i] = one(r, threshold)
	}
	return all
}

// TestNotMonotoneTrials: if the share falls again at a higher threshold, at most 27 of 200 certificates are wrong. The
// threshold that a curve from given texts predicts to meet the budget is nearly always wrong.
func TestNotMonotoneTrials(t *testing.T) {
	if testing.Short() {
		t.Skip("numbers: make long")
	}
	const budget, prompts, large = 0.07, 400, 100_000
	grid := []float64{0.02, 0.05, 0.1, 0.2, 0.29, 0.32, 0.37, 0.5, 0.78, 0.8}
	r := rand.New(rand.NewPCG(31, 32))
	var shares []float64
	for _, v := range grid {
		shares = append(shares, shareOf(draws(r, large, v, wander)))
	}
	t.Logf("shares: %.4f", shares)
	require.False(t, slices.IsSorted(shares), "the share is not monotone")
	require.Greater(t, shares[5], budget)
	require.Less(t, shares[5], 1.05*budget, "a threshold just above the budget is on the way")
	require.Less(t, shares[9], budget, "far up the share is within the budget again")
	test := certify.Test{Budget: budget, Confidence: confidence, MaxTokens: 41}
	certified, wrong := try(t, test, shares, func(r *rand.Rand) func(int) []certify.Answer {
		return func(step int) []certify.Answer { return draws(r, prompts, grid[step], wander) }
	})
	t.Logf("%d of %d certified, %d wrong", certified, trials, wrong)
	assert.LessOrEqual(t, wrong, maxWrong)
	assert.Greater(t, certified, trials*9/10)

	wrong = 0
	for range trials {
		promised := 0.0
		for v := 0.01; v <= 1; v += 0.005 {
			if shareOf(draws(r, 50, v, openLoop)) <= budget {
				promised = v
			}
		}
		if shareOf(draws(r, 2000, promised, wander)) > budget {
			wrong++
		}
	}
	t.Logf("open loop: %d of %d wrong", wrong, trials)
	assert.Greater(t, wrong, trials*9/10)
}
