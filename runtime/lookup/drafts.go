package lookup

import (
	"math"
	"slices"
)

// draftGain is the factor by which the tokens per time must rise for drafts to be made. It is greater than that of
// guesses, because drafts cost time before any is evaluated.
const draftGain = 1.15

// Length returns the number of drafts of a small model with the most tokens per time, from 0 to len(curve)-1, and these
// tokens per time. accept is the probability that a draft is accepted if the drafts before it are, draft is the time of
// a draft, and curve[n] the time of a forward call of the large model with n drafts (Leviathan et al., arXiv
// 2211.17192, theorem 3.8, with a cost for each row):
//
//	E(k) = 1 + a + a² + … + aᵏ    tokens for the time k·draft + curve[k]
//
// Drafts must be well worth their time, as with guesses in [Share]: the result is 0 if they gain less than draftGain.
func Length(accept, draft float64, curve []float64) (k int, rate float64) {
	alone := 1 / curve[0]
	best := draftGain * alone
	rate = alone
	tokens, chance := 1.0, 1.0
	for n := 1; n < len(curve); n++ {
		chance *= accept
		tokens += chance
		if r := tokens / (float64(n)*draft + curve[n]); r > best {
			k, rate, best = n, r, r
		}
	}
	return k, rate
}

// levels are the lower bounds of the probabilities that have a common rate in [Drafts], but for the first.
var levels = [...]float64{0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98}

// Drafts estimates how often the drafts of a small model are accepted, by their probability under it. The zero value
// assumes this probability. Old observations fade, because texts change.
type Drafts struct {
	rates [len(levels) + 1]fadingRate
	all   fadingRate
}

// fadingRate is a ratio of two sums that forget.
type fadingRate struct{ right, seen float64 }

// draftMemory is the approximate number of drafts that [Drafts] remembers, for each level of probability.
const draftMemory = 48

func (f *fadingRate) learnOutcome(assumed float64, right bool) {
	const keep = 1 - 1./draftMemory
	if f.seen == 0 {
		f.right, f.seen = priorWeight*assumed, priorWeight
	}
	f.right, f.seen = f.right*keep, f.seen*keep+1
	if right {
		f.right++
	}
}

func (f *fadingRate) boundedRate(assumed float64) float64 {
	if f.seen == 0 {
		return assumed
	}
	return max(rarest, min(f.right/f.seen, surest))
}

// levelRate returns the rate for a probability, and what it assumes: the middle of the level.
func (d *Drafts) levelRate(p float64) (f *fadingRate, assumed float64) {
	i, found := slices.BinarySearch(levels[:], p)
	if found {
		i++
	}
	bounds := append(append([]float64{0}, levels[:]...), 1)
	return &d.rates[i], (bounds[i] + bounds[i+1]) / 2
}

// assumedDrafts is the assumed share of drafts that are accepted before any was evaluated.
const assumedDrafts = 0.6

// Learn records whether a draft with a probability was accepted. The drafts before it were.
func (d *Drafts) Learn(p float64, accepted bool) {
	f, assumed := d.levelRate(p)
	f.learnOutcome(assumed, accepted)
	d.all.learnOutcome(assumedDrafts, accepted)
}

// Of returns the probability that a draft with this probability under the small model is accepted.
func (d *Drafts) Of(p float64) float64 {
	if math.IsNaN(p) {
		return rarest
	}
	f, assumed := d.levelRate(p)
	return f.boundedRate(assumed)
}

// Next returns the probability that the next draft is accepted, before it is known: the share of all drafts, and one
// standard error more, so that a few rejected drafts do not end drafting for good.
func (d *Drafts) Next() float64 {
	seen := max(d.all.seen, priorWeight)
	return min(d.all.boundedRate(assumedDrafts)+0.5/math.Sqrt(seen), surest)
}
