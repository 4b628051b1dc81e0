package router

import (
	"cmp"
	"math"
	"slices"
)

const (
	// window is how many consecutive answers keep a budget together. Small budgets need more, up to maxWindow, to lend
	// enough.
	window, maxWindow = 10, 100
	// shortest is how many tokens the later answers of a window are expected to have at least. What these bring is lent
	// to the first ones, up to lent escalations.
	shortest = 3
	lent     = 1.85
	// reserve is the average number of escalations that a budget holds back, so that the next token that needs one can
	// have it.
	reserve = 1.8
	// A sample of confidences from before the first answer has the weight of priorWeight confidences of answers. Its
	// weight fades out as the answers reach priorEnd confidences.
	priorWeight = 32
	priorEnd    = 256
	everything  = 2.0 // a threshold above all confidences
)

// pathCount counts the decisions on a path, and the escalations among them.
type pathCount struct{ tokens, escalations uint32 }

func unpackPath(path uint64) pathCount { return pathCount{uint32(path >> 32), uint32(path)} }

func (c pathCount) packPath() uint64 { return uint64(c.tokens)<<32 | uint64(c.escalations) }

func (c pathCount) addDecision(escalated bool) pathCount {
	if c.tokens == math.MaxUint32 {
		return c
	}
	c.tokens++
	if escalated {
		c.escalations++
	}
	return c
}

// windowLength returns how many consecutive answers keep a budget together.
func windowLength(budget float64) int {
	return int(min(maxWindow, max(window, math.Ceil(lent/(shortest*budget))+1)))
}

// budgetStart is the state from which the decisions of one answer start. It does not change.
//
// A budget β holds for any w consecutive answers of s = 3 tokens or more on average, w = 10 for budgets of 6.9% and
// more. Let N and M be the tokens and escalations of the last j < w answers, and n and m those of this one so far. The
// w-1-j answers that complete their window bring at least s tokens each, so
//
//	l = min(s·(w-1-j), lent/β)                      tokens that are lent
//	d = min over j of β·(N+n+l) - (M+m)             escalations that the budget has left
//	b = β·(d/reserve)²                              share to escalate now: β where d is the reserve
//	θ = the b-quantile of the confidences seen last; above all of them where b ≥ 1
//
// A token is escalated if its confidence is below θ, or equal to it while d ≥ reserve, and only if d ≥ 1. So at j = w-1
// any w answers keep the budget, for any confidences, and the first ones borrow 1.85 escalations, which the others pay
// back. All answers so far are one more window, which borrows as much: it binds only after concurrent answers, which
// each start from the same state. With verification the budget is an [account] instead.
//
// The square has two reasons. Near d = 1, where little is left for a token that needs the large model, only the least
// confident tokens are escalated; and with a large d the threshold rises fast, so that the budget is used even if
// confidences change. A budget of 1 escalates everything.
type budgetStart struct {
	budget      float64
	windows     []windowSum // that this answer belongs to
	values      []float64   // confidences, ascending
	probability []float64   // of each value: the share of the confidences below it, its own weight counted half
}

// windowSum is the sum of consecutive answers before this one.
type windowSum struct{ tokens, escalations float64 } // tokens: with what is lent

func windowSums(s balanceState) []windowSum {
	later := windowLength(s.Budget) - 1
	loan := func(answers int) float64 { return min(float64(shortest*answers), lent/s.Budget) }
	all := []windowSum{{float64(s.Tokens) + loan(later), float64(s.Escalations)}}
	sum := spending{}
	all = append(all, windowSum{tokens: loan(later)})
	for _, a := range slices.Backward(s.Recent[max(0, len(s.Recent)-later):]) {
		later--
		sum.Tokens, sum.Escalations = sum.Tokens+a.Tokens, sum.Escalations+a.Escalations
		all = append(all, windowSum{float64(sum.Tokens) + loan(later), float64(sum.Escalations)})
	}
	return all
}

// newBudgetStart returns the start of an answer from a state and a sample of confidences from before, ascending.
func newBudgetStart(s balanceState, prior []float32) *budgetStart {
	type weighted struct{ value, weight float64 }
	all := make([]weighted, 0, len(s.Confidences)+len(prior))
	sum := 0.0
	for _, c := range s.Confidences {
		all, sum = append(all, weighted{float64(c), 1}), sum+1
	}
	fade := 1 - float64(len(s.Confidences))/priorEnd
	for _, c := range prior {
		if w := priorWeight * fade / float64(len(prior)); w > 0 {
			all, sum = append(all, weighted{float64(c), w}), sum+w
		}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	o := &budgetStart{budget: s.Budget, values: make([]float64, len(all)), probability: make([]float64, len(all))}
	if s.Budget > 0 {
		o.windows = windowSums(s)
	}
	below := 0.0
	for i, w := range all {
		o.values[i], o.probability[i] = w.value, (below+w.weight/2)/sum
		below += w.weight
	}
	return o
}

// confidenceQuantile returns the confidence below which a share b of them lies, by linear interpolation, also between 0
// and the smallest and between the largest and 1.
func (o *budgetStart) confidenceQuantile(b float64) float64 {
	if b >= 1 {
		return everything
	}
	i, _ := slices.BinarySearch(o.probability, b)
	var p0, v0, p1, v1 float64 = 0, 0, 1, 1
	if i > 0 {
		p0, v0 = o.probability[i-1], o.values[i-1]
	}
	if i < len(o.values) {
		p1, v1 = o.probability[i], o.values[i]
	}
	if p1 <= p0 {
		return v1
	}
	return v0 + (v1-v0)*max(b-p0, 0)/(p1-p0)
}

// escalationsLeft returns what the budget has left for escalations after a path of this answer: 0 if it is less than
// one.
func (o *budgetStart) escalationsLeft(c pathCount) float64 {
	left := math.Inf(1)
	if o.budget >= 1 {
		return left
	}
	for _, w := range o.windows {
		given, spent := w.tokens+float64(c.tokens), w.escalations+float64(c.escalations)
		if (spent+1)/given > o.budget { // as a share is computed, rounding included
			return 0
		}
		left = min(left, o.budget*given-spent)
	}
	return left
}

// thresholdAfter returns the confidence below which to escalate after a path of this answer: 0 if the budget is used
// up.
func (o *budgetStart) thresholdAfter(c pathCount) float64 {
	if o.budget >= 1 {
		return everything
	}
	left := o.escalationsLeft(c)
	if left == 0 {
		return 0
	}
	at := o.confidenceQuantile(o.budget * (left / reserve) * (left / reserve))
	if left >= reserve {
		return math.Nextafter(at, everything)
	}
	return at
}

// Calibration returns a sample of confidences for a [File]: all of them in ascending order, or if there are more than
// [maxConfidences], as many quantiles. Values outside of 0 to 1 are left out.
func Calibration(confidences []float32) []float32 {
	all := slices.DeleteFunc(slices.Clone(confidences), isInvalidConfidence)
	slices.Sort(all)
	if len(all) <= maxConfidences {
		return all
	}
	few := make([]float32, maxConfidences)
	for i := range few {
		few[i] = all[(2*i+1)*len(all)/(2*maxConfidences)]
	}
	return few
}

// quantiles are values by the share of tokens with less confidence, ascending in both.
type quantiles []struct{ share, confidence float64 }

// measuredQuantiles returns the confidences of Qwen2.5-Coder-0.5B-Instruct (Q4_K_M) in 296 tokens of 24 short chats,
// for a policy that needs no training; nil for others.
func measuredQuantiles(p Policy) quantiles {
	switch p {
	case Margin, Verify, Judged:
		return quantiles{
			{0.01, 0.002}, {0.03, 0.028}, {0.05, 0.044}, {0.07, 0.06}, {0.1, 0.11}, {0.2, 0.33}, {0.3, 0.55},
			{0.5, 0.88}, {0.7, 0.987},
		}
	case Entropy:
		return quantiles{
			{0.01, 0.004}, {0.03, 0.009}, {0.05, 0.016}, {0.07, 0.036}, {0.1, 0.087}, {0.2, 0.21}, {0.3, 0.4},
			{0.5, 0.69}, {0.7, 0.94},
		}
	}
	return nil
}

// priorConfidences returns a sample of confidences for the time before the first answer: that of a calibration, or
// measured values, or uniform ones.
func priorConfidences(p Policy, calibration []float32) []float32 {
	if len(calibration) > 0 {
		return calibration
	}
	points := append(append(quantiles{{0, 0}}, measuredQuantiles(p)...), quantiles{{1, 1}}...)
	all := make([]float32, 256)
	for i := range all {
		share := (float64(i) + 0.5) / float64(len(all))
		k := slices.IndexFunc(points, func(q struct{ share, confidence float64 }) bool { return q.share >= share })
		a, b := points[k-1], points[k]
		all[i] = float32(a.confidence + (b.confidence-a.confidence)*(share-a.share)/(b.share-a.share))
	}
	return all
}
