package router

import (
	"errors"
	"fmt"
	"math"
)

// liveStep is how far a live threshold moves for each token too few or too many.
const liveStep = 0.02

// Live is a threshold that is constant within an answer and follows a budget from one answer to the next: online
// conformal inference (Gibbs and Candès, arXiv 2106.00170), which is the stochastic approximation of Robbins and Monro.
// After an answer of n tokens, m of them escalated,
//
//	θ ← θ + γ·(β·n - m)
//
// Where θ is above 1 every token is escalated, and θ falls; at 0 or below none is, and θ rises. So, for any answers of
// at most L tokens, θ stays within -γ·(1-β)·L and 1 + γ·β·L, and as the sum of all steps is γ·(β·N - M), after N tokens
// in all, M of them escalated,
//
//	|M/N - β| ≤ (1/γ + L)/N      with γ = 0.02: (50 + L)/N
//
// No assumption about the texts is needed, nor that the share is monotone in θ. The state before an answer and the
// answer give the state after it, so that a run can be repeated. It can be stored as JSON.
type Live struct {
	Budget    float64 `json:"budget"`    // β, share of tokens, above 0 and below 1
	Value     float64 `json:"threshold"` // θ: escalate below this confidence; below 0 and above 1 it may be
	Tokens    int     `json:"tokens"`    // N
	Escalated int     `json:"escalated"` // M
}

// NewLive returns the state before the first answer. The threshold is where the search begins.
func NewLive(budget, threshold float64) *Live { return &Live{Budget: budget, Value: threshold} }

// Validate refuses a state that no sequence of answers leaves.
func (l *Live) Validate() error {
	switch {
	case !(l.Budget > 0 && l.Budget < 1):
		return fmt.Errorf("the budget of the live threshold is %v, not between 0 and 1", l.Budget)
	case math.IsNaN(l.Value) || math.IsInf(l.Value, 0):
		return fmt.Errorf("the live threshold is %v", l.Value)
	case l.Tokens < 0 || l.Escalated < 0 || l.Escalated > l.Tokens:
		return errors.New("the live threshold counts more escalations than tokens, or less than none")
	}
	return nil
}

// Threshold is the confidence below which to escalate in the next answer.
func (l *Live) Threshold() float64 { return l.Value }

// Share is that of the tokens so far which were escalated; 0 before the first.
func (l *Live) Share() float64 { return float64(l.Escalated) / float64(max(l.Tokens, 1)) }

// Update takes an answer into account: tokens, an end token included, and how many of them were escalated. Counts that
// no answer has change nothing.
func (l *Live) Update(escalated, tokens int) {
	if escalated < 0 || escalated > tokens || l.Tokens > math.MaxInt-tokens {
		return
	}
	l.Tokens, l.Escalated = l.Tokens+tokens, l.Escalated+escalated
	l.Value += liveStep * (l.Budget*float64(tokens) - float64(escalated))
}

// Bound is the most that the share can be off the budget by now, where no answer was longer than most tokens.
func (l *Live) Bound(most int) float64 {
	return (1/liveStep + float64(most)) / float64(max(l.Tokens, 1))
}
