package router

import (
	"cmp"
	"math"
	"slices"
)

// Verdict is a policy's confidence in one token, with the token's label.
type Verdict struct {
	Confidence float32
	Stands     bool // its label: it may stand
}

func sortVerdicts(all []Verdict) []Verdict {
	s := slices.Clone(all)
	slices.SortFunc(s, func(a, b Verdict) int { return cmp.Compare(a.Confidence, b.Confidence) })
	return s
}

// AUC returns the probability that a token that may stand has more confidence than one that may not, with equal ones
// counted half: the area under the receiver operating curve, by the statistic of Mann and Whitney. It is NaN if one of
// the kinds is missing.
func AUC(all []Verdict) float64 {
	won, stand, fall := 0.0, 0.0, 0.0 // of those that were passed
	s := sortVerdicts(all)
	for i := 0; i < len(s); {
		up, down := 0.0, 0.0 // of equal confidence
		for c := s[i].Confidence; i < len(s) && s[i].Confidence == c; i++ {
			if s[i].Stands {
				up++
			} else {
				down++
			}
		}
		won += up * (fall + down/2)
		stand, fall = stand+up, fall+down
	}
	return won / (stand * fall)
}

// CrossEntropy returns the mean of -ln of the confidence in the true label, in nats. Confidences are limited to a
// distance of 1e-7 from 0 and 1, about the resolution of a float32.
func CrossEntropy(all []Verdict) float64 {
	sum := 0.0
	for _, v := range all {
		p := float64(v.Confidence)
		if !v.Stands {
			p = 1 - p
		}
		sum -= math.Log(max(p, 1e-7))
	}
	return sum / float64(len(all))
}

// Bin holds the tokens with a confidence in one range.
type Bin struct {
	Low        float64 `json:"low"`  // of the confidence
	High       float64 `json:"high"` // belongs to it in the last bin only
	Tokens     int     `json:"tokens"`
	Confidence float64 `json:"confidence"` // mean; 0 without tokens
	Stand      float64 `json:"may_stand"`  // share of them that may stand; 0 without tokens
}

// bins is the number of bins of a reliability diagram, all of one width.
const bins = 10

// Reliability compares confidence with truth, in ten bins of equal width.
func Reliability(all []Verdict) []Bin {
	b := make([]Bin, bins)
	for _, v := range all {
		one := &b[min(int(float64(v.Confidence)*bins), bins-1)]
		one.Tokens++
		one.Confidence += float64(v.Confidence)
		if v.Stands {
			one.Stand++
		}
	}
	for i := range b {
		b[i].Low, b[i].High = float64(i)/bins, float64(i+1)/bins
		if n := float64(b[i].Tokens); n > 0 {
			b[i].Confidence /= n
			b[i].Stand /= n
		}
	}
	return b
}

// CalibrationError returns the expected calibration error: |mean confidence - share that may stand| over the bins,
// weighted by their tokens.
func CalibrationError(b []Bin) float64 {
	sum, tokens := 0.0, 0.0
	for _, one := range b {
		sum += math.Abs(one.Confidence-one.Stand) * float64(one.Tokens)
		tokens += float64(one.Tokens)
	}
	return sum / tokens
}

// Point is the effect of one threshold on given tokens. In use the effect can differ, because each escalation changes
// the text that follows.
type Point struct {
	Threshold float64
	Share     float64 // of the tokens that are escalated
	Precision float64 // share of the escalated that must not stand; NaN if none is escalated
	Recall    float64 // share of those that must not stand which are escalated; NaN if there are none
}

// Ranking holds verdicts in the order of their confidence.
type Ranking struct {
	sorted []Verdict
	fallen []int // for each n, the number of the first n that must not stand
}

// Rank puts verdicts in order, the least confident first.
func Rank(all []Verdict) *Ranking {
	r := &Ranking{sorted: sortVerdicts(all), fallen: make([]int, len(all)+1)}
	for i, v := range r.sorted {
		r.fallen[i+1] = r.fallen[i]
		if !v.Stands {
			r.fallen[i+1]++
		}
	}
	return r
}

// At returns the effect of a threshold.
func (r *Ranking) At(threshold float64) Point {
	n, _ := slices.BinarySearchFunc(r.sorted, threshold, func(v Verdict, t float64) int {
		return cmp.Compare(float64(v.Confidence), t)
	})
	all, fallen := len(r.sorted), float64(r.fallen[n])
	return Point{threshold, float64(n) / float64(all), fallen / float64(n), fallen / float64(r.fallen[all])}
}

// Threshold returns the threshold that escalates the largest share of tokens that is not above the wanted one. Tokens
// of equal confidence are escalated together or not at all.
func (r *Ranking) Threshold(share float64) float64 {
	all := len(r.sorted)
	n := int(share * float64(all))
	if float64(n+1)/float64(all) <= share { // the product was rounded down
		n++
	}
	if n >= all {
		return 1
	}
	return float64(r.sorted[n].Confidence)
}
