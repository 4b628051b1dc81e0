// Package certify tests with decoded answers whether a router's threshold keeps to a budget: the large model chooses at
// most the share β of the tokens. The result holds with a chosen confidence 1 - δ over the draw of the prompts. It
// assumes that all prompts are drawn from the same distribution.
//
// The unit is the prompt, since tokens of one answer depend on each other. An answer of n tokens, m of them escalated,
// n at most N, is the number
//
//	X = (m - β·n + β·N) / N      within [0, 1], and E[X] ≤ β exactly if E[m] ≤ β·E[n]
//
// so that a test of the mean of X is one of the share of all tokens. The hypothesis H: E[X] > β is tested by a p-value,
// with one of two bounds:
//
//   - Hoeffding–Bentkus (Bates, Angelopoulos, Lei, Malik and Jordan, arXiv 2101.02703), with X̄ the mean of k numbers:
//     p = min( exp(-k·h(min(X̄, β), β)), e·P[Bin(k, β) ≤ ⌈k·X̄⌉] ), h(a, b) = a·ln(a/b) + (1-a)·ln((1-a)/(1-b)).
//   - betting (Waudby-Smith and Ramdas, arXiv 2010.09686): see [Test.PValue]. It uses how little X varies and needs far
//     fewer prompts.
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
	"slices"
	"strings"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// Method is the name of a p-value.
type Method string

// The methods.
const (
	Betting          Method = "betting"
	HoeffdingBentkus Method = "hoeffding-bentkus"
	Best             Method = "best" // twice the smaller of both, by Bonferroni
)

const (
	caution   = 0.9    // largest bet, as a part of the one that an answer of N escalations would lose all with
	smallestP = 1e-300 // none is 0
)

// Methods returns all methods in the order in which they are listed to users.
func Methods() []Method { return []Method{Betting, HoeffdingBentkus, Best} }

// ParseMethod returns the method of that name.
func ParseMethod(name string) (Method, error) {
	if m := Method(name); slices.Contains(Methods(), m) {
		return m, nil
	}
	var names []string
	for _, m := range Methods() {
		names = append(names, string(m))
	}
	return "", fmt.Errorf("%q is not a method: choose one of %s", name, strings.Join(names, ", "))
}

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
	Method     Method  // "" means [Betting]
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
	if t.Method != "" {
		_, err := ParseMethod(string(t.Method))
		return err
	}
	return nil
}

// losses returns the numbers X of answers.
func (t Test) losses(answers []Answer) ([]float64, error) {
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
	x, err := t.losses(answers)
	if err != nil {
		return 1, err
	}
	switch t.Method {
	case HoeffdingBentkus:
		return hoeffdingBentkus(x, t.Budget), nil
	case Best:
		return min(1, 2*min(hoeffdingBentkus(x, t.Budget), betting(x, t.Budget))), nil
	}
	return betting(x, t.Budget), nil
}

// betting returns one over the highest capital, at most 1. The bets are predictable and make the capital grow fastest
// for the mean and variance so far (aGRAPA in the paper's appendix B): λ = (β-μ)/(σ²+(β-μ)²), limited to a part of the
// allowed stake. Mean and variance begin as if one answer had been seen, at the budget and with the variance of a coin.
func betting(x []float64, budget float64) float64 {
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

// hoeffdingBentkus returns the smaller of both bounds, at most 1.
func hoeffdingBentkus(x []float64, budget float64) float64 {
	sum, n := 0.0, float64(len(x))
	for _, v := range x {
		sum += v
	}
	hoeffding := math.Exp(-n * divergence(min(sum/n, budget), budget))
	bentkus := math.E * stat.BinomialCDF(len(x), budget, int(math.Ceil(sum)))
	return min(1, max(min(hoeffding, bentkus), smallestP))
}

// divergence returns the divergence of two coins, h(a, b) above, in nats.
func divergence(a, b float64) float64 {
	part := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log(p/q)
	}
	return part(a, b) + part(1-a, 1-b)
}
