// Package certify tests with decoded answers whether a router's threshold keeps to a budget: the large model chooses at
// most the share β of the tokens. The result holds with a chosen confidence 1 - δ over the draw of the prompts. It
// assumes that all prompts are drawn from the same distribution.
//
// The unit is the prompt, since tokens of one answer depend on each other. An answer of n tokens, m of them escalated,
// n at most N, is the number
//
//	X = (m - β·n + β·N) / N      within [0, 1], and E[X] ≤ β exactly if E[m] ≤ β·E[n]
//
// so that a test of the mean of X is one of the share of all tokens. The hypothesis H: E[X] > β is tested by a p-value
// from betting (Waudby-Smith and Ramdas, arXiv 2010.09686): see [Test.PValue]. It uses how little X varies.
//
// A changed threshold changes the text that follows, so the share is not monotone in the threshold, and one decoding
// does not show the share of another threshold. Hence each threshold is decoded anew. [Test.Walk] goes from few to many
// escalations and ends at the first threshold that is not shown to keep the budget. This is Learn then Test with a
// fixed sequence (Angelopoulos, Bates, Candès, Jordan and Lei, arXiv 2110.01052). It needs no correction for the number
// of thresholds, as long as the thresholds are not chosen by the answers that they are tested with.
package certify

import (
	"errors"
	"fmt"
	"math"
)

const (
	caution   = 0.9    // largest bet, as a part of the one that an answer of N escalations would lose all with
	smallestP = 1e-300 // none is 0
)

// Answer counts the tokens of one decoded answer: one observation of the test.
type Answer struct {
	Escalated int // tokens that the large model chose
	Tokens    int // all, an end token included; 1 or more
}

// Test describes the claim to be tested.
type Test struct {
	Budget     float64 // β, share of tokens, above 0 and below 1
	Confidence float64 // 1 - δ, above 0 and below 1
	MaxTokens  int     // N, maximum tokens of an answer
}

// Validate reports a value that is out of range.
func (t Test) Validate() error {
	switch {
	case !(t.Budget > 0 && t.Budget < 1):
		return fmt.Errorf("budget: %v is not between 0 and 1", t.Budget)
	case !(t.Confidence > 0 && t.Confidence < 1):
		return fmt.Errorf("confidence: %v is not between 0 and 1", t.Confidence)
	case t.MaxTokens < 1:
		return fmt.Errorf("most tokens: %d is less than 1", t.MaxTokens)
	}
	return nil
}

func (t Test) normalizedLosses(answers []Answer) ([]float64, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, errors.New("no answers: nothing can be shown")
	}
	x := make([]float64, len(answers))
	for i, a := range answers {
		if a.Escalated < 0 || a.Escalated > a.Tokens || a.Tokens < 1 || a.Tokens > t.MaxTokens {
			return nil, fmt.Errorf("answer %d has %d tokens, %d of them escalated, where at most %d are possible",
				i+1, a.Tokens, a.Escalated, t.MaxTokens)
		}
		most := float64(t.MaxTokens)
		x[i] = (float64(a.Escalated) - t.Budget*float64(a.Tokens) + t.Budget*most) / most
		x[i] = min(max(x[i], 0), 1) // apart from rounding it is
	}
	return x, nil
}

// PValue is a p-value, in (0, 1], of the hypothesis that the share is above the budget: if it is, the chance that the
// p-value is δ or less is at most δ, whatever the answers are like.
//
// Betting begins with a capital of 1 and, for one answer after the other, stakes λᵢ on the next X being less than β:
//
//	Kᵢ = Kᵢ₋₁·(1 + λᵢ·(β - Xᵢ)),  0 ≤ λᵢ < 1/(1-β)
//
// As X is at most 1, no factor is negative. λᵢ depends on the answers before alone, so where E[X] ≥ β the factor's
// expectation, given those, is 1 + λᵢ·(β - E[X]) ≤ 1: the capital is a nonnegative supermartingale, and by Ville's
// inequality the chance that it ever reaches 1/δ is at most δ. So the p-value is one over the highest capital. The
// answers must come in an order that does not depend on them; they may end anywhere.
func (t Test) PValue(answers []Answer) (float64, error) {
	x, err := t.normalizedLosses(answers)
	if err != nil {
		return 1, err
	}
	return bettingPValue(x, t.Budget), nil
}

// bettingPValue returns one over the highest capital, at most 1. The bets are predictable and make the capital grow
// fastest for the mean and variance so far (aGRAPA in the paper's appendix B): λ = (β-μ)/(σ²+(β-μ)²), limited to a part
// of the allowed stake. Mean and variance begin as if one answer had been seen, at the budget and with the variance of
// a coin.
func bettingPValue(x []float64, budget float64) float64 {
	most := caution / (1 - budget)
	sum, squares, n := budget, budget*(1-budget), 1.0 // squares: of the distances to the mean of their time
	capital, highest := 0.0, 0.0                      // natural logarithms
	for _, v := range x {
		mean := sum / n
		gap := budget - mean
		bet := 0.0
		if gap > 0 {
			bet = min(gap/(squares/n+gap*gap), most)
		}
		capital += math.Log1p(bet * (budget - v))
		highest = max(highest, capital)
		sum, n = sum+v, n+1
		squares += (v - mean) * (v - sum/n)
	}
	return max(math.Exp(-highest), smallestP)
}
