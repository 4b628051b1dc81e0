package certify

import (
	"fmt"
	"math"
)

// Step is the result of testing one threshold.
type Step struct {
	Escalated, Tokens int // of all answers
	PValue            float64
	Certified         bool // shown to keep the budget
}

// Share returns the share of tokens that the large model chose.
func (s Step) Share() float64 { return float64(s.Escalated) / float64(max(s.Tokens, 1)) }

// Walk tests thresholds, numbered from 0 to n-1 from few escalations to many, until one is not certified, and returns
// the tested ones. Use the last certified threshold: the probability that any certified one has a share above the
// budget is at most 1 - Confidence. Walk calls answers, which decodes at a threshold, only for the thresholds that it
// tests. The thresholds of the numbers must be fixed without knowledge of the answers.
func (t Test) Walk(n int, answers func(step int) ([]Answer, error)) (steps []Step, err error) {
	for i := range n {
		all, err := answers(i)
		if err != nil {
			return steps, err
		}
		p, err := t.PValue(all)
		if err != nil {
			return steps, fmt.Errorf("threshold %d: %w", i+1, err)
		}
		s := Step{PValue: p, Certified: p <= 1-t.Confidence}
		for _, a := range all {
			s.Escalated, s.Tokens = s.Escalated+a.Escalated, s.Tokens+a.Tokens
		}
		steps = append(steps, s)
		if !s.Certified {
			break
		}
	}
	return steps, nil
}

// maxNeeded is a number of prompts that is too large to decode.
const maxNeeded = 1_000_000

// Needed returns about how many prompts like these are needed to certify their threshold. It returns false if their
// share is not below the budget, or if more than a million prompts would be needed.
func (t Test) Needed(answers []Answer) (prompts int, ok bool) {
	x, err := t.normalizedLosses(answers)
	if err != nil {
		return 0, false
	}
	rate := maxLogGrowth(x, t.Budget)
	n := max(1, math.Ceil(-math.Log(1-t.Confidence)/rate))
	if !(rate > 0) || n > maxNeeded {
		return 0, false
	}
	return int(n), true
}

func maxLogGrowth(x []float64, budget float64) float64 {
	best := 0.0
	for i := 1; i <= 100; i++ {
		bet, sum := float64(i)/100*caution/(1-budget), 0.0
		for _, v := range x {
			sum += math.Log1p(bet * (budget - v))
		}
		best = max(best, sum/float64(len(x)))
	}
	return best
}
