package router

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addVerifiedAnswer adds an answer of n tokens that a router verifies. The large model would replace tokens as replaces
// says.
func addVerifiedAnswer(t *testing.T, r *Router, n int, replaces func() bool) {
	r = r.Begin()
	a, path := Answer{Tokens: n}, uint64(0)
	for range n {
		margin := r.Margin(path)
		require.True(t, margin > 0 && margin < preferred || math.IsInf(margin, 1))
		replaced := replaces() && margin < preferred
		if path = r.Count(path, replaced); replaced {
			a.Escalations++
		}
	}
	r.Add(a)
}

// TestBudgetOfVerified: however many tokens the large model would replace, and however long answers are, those so far
// have at most the budget's share replaced, with what is lent before they have brought a budget of 12 tokens. What may
// be replaced is.
func TestBudgetOfVerified(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, replaces := range map[string]func() bool{
		"each": func() bool { return true }, "some": func() bool { return rng.IntN(12) == 0 },
		"by turns": func() bool { return rng.IntN(400) < 200*rng.IntN(2) },
	} {
		for _, budget := range []float64{0.01, 0.03, 0.07, 0.15, 0.9} {
			r, err := New(Options{Policy: Verify, Budget: budget})
			require.NoError(t, err)
			for range 300 {
				addVerifiedAnswer(t, r, 1+rng.IntN(60)*rng.IntN(2), replaces)
				sum := r.Balance().Total()
				brought := budget * float64(sum.Tokens)
				loan := 0.0
				if brought < 12 {
					loan = 6
				}
				require.LessOrEqual(t, float64(sum.Escalations), brought+loan+1e-6, "%s: %+v", name, sum)
			}
			if sum := r.Balance().Total(); name == "each" {
				assert.InDelta(t, budget*float64(sum.Tokens), sum.Escalations, 2, "what may be replaced is")
			}
		}
	}
}

// TestThriftIsSaved: what easy answers leave is of use to later ones, up to 100 tokens.
func TestThriftIsSaved(t *testing.T) {
	never, always := func() bool { return false }, func() bool { return true }
	r, err := New(Options{Policy: Verify, Budget: 0.05})
	require.NoError(t, err)
	addVerifiedAnswer(t, r, 1000, never)
	before := r.Balance().Total()
	addVerifiedAnswer(t, r, 500, always)
	assert.Equal(t, 74, r.Balance().Total().Escalations-before.Escalations, "50 are saved, 24.95 its own")
	addVerifiedAnswer(t, r, 100_000, never)
	before = r.Balance().Total()
	addVerifiedAnswer(t, r, 1000, always)
	assert.Equal(t, 149, r.Balance().Total().Escalations-before.Escalations, "100 are saved, 49.95 its own")
}

// TestAnswersAtOnce: answers that run at the same time may exceed the budget together, and later ones pay it back.
func TestAnswersAtOnce(t *testing.T) {
	r, err := New(Options{Policy: Verify, Budget: 0.1})
	require.NoError(t, err)
	for range 10 {
		r.Add(Answer{Tokens: 10, Escalations: 6})
	}
	begun := r.Begin()
	assert.True(t, math.IsInf(begun.Margin(0), 1))
	assert.True(t, math.IsInf(begun.Margin(pathCount{500, 0}.packPath()), 1), "60 - 10 of the budget")
	assert.InDelta(t, 3/(1+1.1*1.1/36), begun.Margin(pathCount{511, 0}.packPath()), 1e-9)
}

// TestMarginOfVerified: the less is left of the budget, the more must the large model prefer its token; with nothing
// left, none takes the place of another.
func TestMarginOfVerified(t *testing.T) {
	r, err := New(Options{Policy: Verify, Budget: 0.07})
	require.NoError(t, err)
	assert.True(t, r.Verifies())
	path := uint64(0)
	for _, margin := range []float64{1.5, 1.75, 2.07, 2.39, 2.69, 2.91} {
		assert.InDelta(t, margin, r.Margin(path), 0.04)
		path = r.Count(path, true)
	}
	assert.True(t, math.IsInf(r.Margin(path), 1), "6 are lent")
	tiny, err := New(Options{Policy: Verify, Budget: 0.001})
	require.NoError(t, err)
	assert.InDelta(t, 3/(1+1.0/36), tiny.Margin(0), 1e-9)
	assert.True(t, math.IsInf(tiny.Margin(pathCount{1, 1}.packPath()), 1), "of 0.1% one is lent")
	whole, err := New(Options{Policy: Verify, Budget: 1})
	require.NoError(t, err)
	assert.Zero(t, whole.Margin(pathCount{1, 1}.packPath()), "all that differs is replaced")
}

// TestMarginOfJudged: the margin of a judge is a threshold of its confidence. It rises as the budget is spent, and
// falls as earlier answers leave some of it.
func TestMarginOfJudged(t *testing.T) {
	judge, err := New(Options{Policy: Judged, Budget: 0.07, Judge: "j"})
	require.NoError(t, err)
	assert.InDelta(t, -math.Log(36.0/(36+4)), judge.Margin(0), 1e-12, "what is lent")
	left := 0.07*100 - 5 + 6 - 0.07*100/2
	assert.InDelta(t, -math.Log(left*left/(left*left+4)), judge.Margin(pathCount{100, 5}.packPath()), 1e-12)
	assert.True(t, math.IsInf(judge.Margin(pathCount{6, 6}.packPath()), 1))
	for range 8 {
		judge.Add(Answer{Tokens: 100, Escalations: 2})
	}
	left = 8*5 + 0.07*10
	margin := judge.Begin().Margin(pathCount{10, 0}.packPath())
	assert.InDelta(t, math.Log1p(4/left/left), margin, 1e-12, "no loan is left")
	judge.Add(Answer{Tokens: 10_000, Escalations: 0})
	assert.InDelta(t, math.Log1p(4.0/100/100), judge.Begin().Margin(pathCount{1000, 0}.packPath()), 1e-12, "the most")
	whole, err := New(Options{Policy: Judged, Budget: 1, Judge: "j"})
	require.NoError(t, err)
	assert.Zero(t, whole.Margin(pathCount{100, 100}.packPath()), "all that differs is replaced")
	assert.Equal(t, "j", judge.Judge())
	judge, err = New(Options{Policy: Judged, Threshold: new(0.9), Judge: "j"})
	require.NoError(t, err)
	assert.InDelta(t, -math.Log(0.9), judge.Margin(0), 1e-12)
	assert.InDelta(t, 0.05, judge.Threshold(), 1e-3, "of margins, where the large model has no such judge")
	_, err = New(Options{Policy: Judged, Budget: 0.07})
	assert.ErrorContains(t, err, "no judge was given")
}

// TestBudgetAfterAnswers: a balance that had answers before its budget was known is like one that had it.
func TestBudgetAfterAnswers(t *testing.T) {
	early, late := NewBalance(0.07), new(Balance)
	for n := range 40 {
		a := Answer{Tokens: 10 * n, Escalations: n % 5}
		early.Add(a)
		late.Add(a)
	}
	for _, b := range []*Balance{early, late} {
		_, err := New(Options{Policy: Verify, Budget: 0.07, Balance: b})
		require.NoError(t, err)
	}
	assert.NotZero(t, early.copyState().Unspent)
	assert.Equal(t, early.copyState(), late.copyState())
}

// TestAccountIsKept: a written balance gives the same margins, also one at its limits.
func TestAccountIsKept(t *testing.T) {
	for _, a := range []Answer{{}, {Tokens: 40, Escalations: 1}, {Tokens: 10, Escalations: 10},
		{Tokens: maxTokens}, {Escalations: maxTokens}} {
		r, err := New(Options{Policy: Judged, Budget: 0.07, Judge: "j"})
		require.NoError(t, err)
		r.Add(a)
		text, err := json.Marshal(r.Balance())
		require.NoError(t, err)
		var b Balance
		require.NoError(t, json.Unmarshal(text, &b))
		again, err := New(Options{Policy: Judged, Budget: 0.07, Judge: "j", Balance: &b})
		require.NoError(t, err)
		assert.Equal(t, r.Begin().verified, again.verified)
	}
}
