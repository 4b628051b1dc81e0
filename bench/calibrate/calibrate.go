// Package calibrate tests whether a router, with a pair of models, keeps to a budget of tokens from the large model at
// some threshold. It decodes the prompts at each threshold, as the program would, and package certify evaluates the
// results.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
)

// Options configure a calibration.
type Options struct {
	Pair
	Net     *router.Net
	Prompts []Prompt // the unit of the test
	// Thresholds to test, ascending, above 0 up to 1, chosen without knowledge of the prompts. If there are none, the
	// first prompts (see [pilots]) are used to choose thresholds, and are not part of the test.
	Thresholds []float64
	Budget     float64
	Confidence float64
	Seed       uint64                           // of the order of the prompts in the test
	Progress   func(stage string, done, of int) // called after each answer, if set
}

// Result is the result of a calibration.
type Result struct {
	Test       certify.Test
	Pilots     int // prompts that were used to choose the thresholds
	Prompts    int // prompts of the test
	Longest    int // tokens of the longest answer to them
	Thresholds []float64
	Steps      []certify.Step // one for each tested threshold, in order
	Graded     int            // number of Prompts with graded answers
	Right      []int          // number of right answers to these, by step
	// the step to use: among the certified ones the one with the most right answers, the first of them if several; the
	// last certified one if answers are not graded; -1: none was certified
	Chosen int
	Needed int // if none was certified: about how many prompts would be needed; 0: more do not help
	// Confidences are those of all tokens decoded at the chosen threshold, in the order of the prompts.
	Confidences []float32
}

// Limits of the numbers of prompts and thresholds.
const (
	minPrompts = 2
	minPilots  = 8
	maxPilots  = 50
)

// pilotShares are the shares of the budget for which the pilots determine a threshold each.
func pilotShares() []float64 { return []float64{0.25, 0.5, 0.65, 0.8, 0.9, 1} }

// pilots returns how many of n prompts are used to choose thresholds: a tenth, 8 at least and 50 at most.
func pilots(n int) int { return min(max(n/10, minPilots), maxPilots) }

// ErrFew means that there are too few prompts to test any threshold.
var ErrFew = errors.New("too few prompts")

// Run tests thresholds in the order of increasing escalations.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Chosen: -1, Thresholds: o.Thresholds, Test: certify.Test{
		Budget: o.Budget, Confidence: o.Confidence, MaxTokens: o.MaxTokens,
	}}
	if len(o.Thresholds) == 0 {
		r.Pilots = pilots(len(o.Prompts))
	}
	if least := r.Pilots + minPrompts; len(o.Prompts) < least {
		return nil, fmt.Errorf("%w: %d, where at least %d are needed", ErrFew, len(o.Prompts), least)
	}
	if len(o.Thresholds) == 0 {
		var err error
		if r.Thresholds, err = o.choose(ctx, o.Prompts[:r.Pilots]); err != nil {
			return nil, err
		}
	}
	prompts := slices.Clone(o.Prompts[r.Pilots:])
	r.Prompts = len(prompts)
	rand.New(rand.NewPCG(o.Seed, 0)).Shuffle(len(prompts), func(i, j int) {
		prompts[i], prompts[j] = prompts[j], prompts[i]
	})
	for _, p := range prompts {
		if p.Right != nil {
			r.Graded++
		}
	}
	var last []certify.Answer
	var confidences [][]float32 // by threshold
	decoded, before := make([]Decoded, len(prompts)), 0.0
	var err error
	r.Steps, err = r.Test.Walk(len(r.Thresholds), func(i int) ([]certify.Answer, error) {
		err := o.advance(ctx, prompts, decoded, before, r.Thresholds[i])
		before, last = r.Thresholds[i], r.note(decoded)
		confidences = append(confidences, confidencesOf(decoded))
		return last, err
	})
	if err != nil {
		return nil, err
	}
	if r.Chosen = r.best(); r.Chosen < 0 {
		r.Needed, _ = r.Test.Needed(last)
		return r, nil
	}
	r.Confidences = confidences[r.Chosen]
	return r, nil
}

// note records the answers at a threshold, and returns what the test needs of them.
func (r *Result) note(decoded []Decoded) (all []certify.Answer) {
	right := 0
	for _, d := range decoded {
		all = append(all, d.Answer)
		r.Longest = max(r.Longest, d.Tokens)
		if d.Right {
			right++
		}
	}
	r.Right = append(r.Right, right)
	return all
}

// best returns the step to use. Choosing it by the test's results does not invalidate the certificate: all certified
// thresholds keep the budget with the same joint confidence.
func (r *Result) best() int {
	best := -1
	for i, s := range r.Steps {
		if s.Certified && (best < 0 || r.Graded == 0 || r.Right[i] > r.Right[best]) {
			best = i
		}
	}
	return best
}

func confidencesOf(decoded []Decoded) (all []float32) {
	for _, d := range decoded {
		all = append(all, d.Confidences...)
	}
	return all
}

// advance updates the answers of the previous threshold (0: none) for the next one. It only decodes answers with a
// confidence between the two: for all others the same tokens are escalated.
func (o *Options) advance(ctx context.Context, prompts []Prompt, known []Decoded, before, next float64) error {
	var changed []int
	var left []Prompt
	for i, d := range known {
		asks := func(c float32) bool { return float64(c) >= before && float64(c) < next }
		if d.Tokens == 0 || slices.ContainsFunc(d.Confidences, asks) {
			changed, left = append(changed, i), append(left, prompts[i])
		}
	}
	decoded, err := o.decode(ctx, fmt.Sprintf("threshold %v", next), left, router.Options{Threshold: &next})
	for i, d := range decoded {
		known[changed[i]] = d
	}
	return err
}

// decode answers prompts with the learned policy.
func (o *Options) decode(
	ctx context.Context, stage string, prompts []Prompt, r router.Options,
) ([]Decoded, error) {
	r.Policy, r.Net = router.Learned, o.Net
	done := 0
	return o.Decode(ctx, prompts, r, func() {
		if done++; o.Progress != nil {
			o.Progress(stage, done, len(prompts))
		}
	})
}

// short returns the number above low and up to high with the fewest decimals, since people read thresholds and type
// them.
func short(low, high float64) float64 {
	for scale := 10.0; scale <= 1e15; scale *= 10 {
		if x := math.Floor(high*scale) / scale; low < x && x <= high {
			return x
		}
	}
	return high
}

// choose determines one threshold for each share of the budget: the pilots' tokens with a confidence below it use this
// share of the budget. The pilots are decoded in sequence with the budget, so that their texts resemble those that the
// thresholds will give. The test does not depend on this choice.
func (o *Options) choose(ctx context.Context, pilots []Prompt) ([]float64, error) {
	serial := *o
	serial.Parallel = 1 // the balance of the budget depends on the order of the answers
	decoded, err := serial.decode(ctx, "choosing thresholds", pilots, router.Options{Budget: o.Budget})
	if err != nil {
		return nil, err
	}
	all := confidencesOf(decoded)
	slices.Sort(all)
	var thresholds []float64
	for _, part := range pilotShares() {
		at := min(int(part*o.Budget*float64(len(all))), len(all)-1)
		first, _ := slices.BinarySearch(all, all[at]) // of equal ones
		v := short(float64(all[max(0, first-1)])*float64(min(1, first)), float64(all[at]))
		if v > 0 && (len(thresholds) == 0 || v > thresholds[len(thresholds)-1]) {
			thresholds = append(thresholds, v)
		}
	}
	if len(thresholds) == 0 {
		return nil, errors.New("the router has no confidence above 0 in its surest tokens within the budget: " +
			"name thresholds, or train it again")
	}
	return thresholds, nil
}
