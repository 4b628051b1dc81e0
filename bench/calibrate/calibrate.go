// Package calibrate tests whether a policy, with a pair of models, keeps to a budget of tokens from the large model at
// some threshold, and which policy has the most right answers. It decodes the prompts at each threshold, as the program
// would, and package certify evaluates the results.
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
	Policies []router.Policy // to test, each at thresholds of its own: margin, learned, verify, judge
	Net      *router.Net     // of the policy learned
	Judge    string          // fingerprint of the large model's judge; of the policy judge
	Prompts  []Prompt        // the unit of the test
	// Thresholds to test, ascending, above 0 up to 1, chosen without knowledge of the prompts. If there are none, the
	// first prompts (see [pilotCount]) are used to choose thresholds, and are not part of the test.
	Thresholds []float64
	Budget     float64
	Confidence float64                          // of the certificate, whichever policy it is for
	Seed       uint64                           // of the order of the prompts in the test
	Progress   func(stage string, done, of int) // called after each answer, if set
}

// Result is the result of a calibration.
type Result struct {
	Test    certify.Test // of each policy
	Pilots  int          // prompts that were used to choose the thresholds
	Prompts int          // prompts of the test
	Longest int          // tokens of the longest answer to them
	Graded  int          // number of Prompts with graded answers
	Alone   int          // right answers of the small model to these; 0 if none is graded
	Ladders []Ladder     // by policy
	// Confidences are the router's of all tokens decoded with the choice, in the order of the prompts. Those of the
	// policies verify and judge are the small model's margins, as a router sees them.
	Confidences []float32
	Chosen      *Choice // the policy to use; nil: nothing was certified
}

// Ladder is what was measured of one policy.
type Ladder struct {
	Policy     router.Policy
	Thresholds []float64
	Steps      []certify.Step // one for each tested threshold, in order
	Right      []int          // number of right answers to the graded prompts, by step
	// the step to use: among the certified ones that ask at all the one with the most right answers, the first of them
	// if several; the last one if answers are not graded; -1: none
	Chosen int
	Needed int // if none was certified: about how many prompts would be needed; 0: more do not help
	seen   [][]float32
}

// Choice is a policy at a tested threshold. That of the policy never has no step.
type Choice struct {
	Policy    router.Policy
	Threshold float64
	Step      certify.Step
	Right     int
}

// Limits of the numbers of prompts and thresholds.
const (
	minPrompts = 2
	minPilots  = 8
	maxPilots  = 50
)

func pilotShares() []float64 { return []float64{0.25, 0.5, 0.65, 0.8, 0.9, 1} }

// pilotCount returns how many of n prompts are used to choose thresholds: a tenth, 8 at least and 50 at most.
func pilotCount(n int) int { return min(max(n/10, minPilots), maxPilots) }

// ErrFew means that there are too few prompts to test any threshold.
var ErrFew = errors.New("too few prompts")

// Run tests the thresholds of each policy in the order of increasing escalations. The error probability is divided
// among the policies, so that the claim holds for whichever is chosen by the results.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Test: certify.Test{Budget: o.Budget, MaxTokens: o.MaxTokens}}
	r.Test.Confidence = 1 - (1-o.Confidence)/float64(max(1, len(o.Policies)))
	if len(o.Thresholds) == 0 {
		r.Pilots = pilotCount(len(o.Prompts))
	}
	if least := r.Pilots + minPrompts; len(o.Prompts) < least {
		return nil, fmt.Errorf("%w: %d, where at least %d are needed", ErrFew, len(o.Prompts), least)
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
	alone, err := o.gradeSmallAlone(ctx, r, prompts)
	if err != nil {
		return nil, err
	}
	for _, policy := range o.Policies {
		thresholds := o.Thresholds
		if len(thresholds) == 0 {
			if thresholds, err = o.chooseThresholds(ctx, policy, o.Prompts[:r.Pilots]); err != nil {
				return nil, err
			}
		}
		l, err := o.testThresholds(ctx, r, policy, thresholds, prompts)
		if err != nil {
			return nil, err
		}
		r.Ladders = append(r.Ladders, l)
	}
	r.choosePolicy(alone)
	return r, nil
}

func (o *Options) gradeSmallAlone(ctx context.Context, r *Result, prompts []Prompt) (confidences []float32, err error) {
	if r.Graded == 0 {
		return nil, nil
	}
	decoded, err := o.decodePrompts(ctx, "small alone", prompts, router.Options{Policy: router.Never})
	for _, d := range decoded {
		confidences = append(confidences, d.Seen...)
		if d.Right {
			r.Alone++
		}
	}
	return confidences, err
}

func (o *Options) testThresholds(
	ctx context.Context, r *Result, policy router.Policy, thresholds []float64, prompts []Prompt,
) (Ladder, error) {
	l := Ladder{Policy: policy, Thresholds: thresholds}
	var last []certify.Answer
	decoded, before := make([]Decoded, len(prompts)), 0.0
	var err error
	l.Steps, err = r.Test.Walk(len(thresholds), func(i int) ([]certify.Answer, error) {
		err := o.advanceThreshold(ctx, policy, prompts, decoded, before, thresholds[i])
		before, last = thresholds[i], nil
		right, seen := 0, []float32(nil)
		for _, d := range decoded {
			last, seen = append(last, d.Answer), append(seen, d.Seen...)
			r.Longest = max(r.Longest, d.Tokens)
			if d.Right {
				right++
			}
		}
		l.Right, l.seen = append(l.Right, right), append(l.seen, seen)
		return last, err
	})
	if err != nil {
		return l, err
	}
	if l.Chosen = l.bestStep(r.Graded > 0); l.Chosen < 0 {
		l.Needed, _ = r.Test.Needed(last)
	}
	return l, nil
}

// bestStep returns the step to use. Choosing it by the test's results does not invalidate the certificate: all
// certified thresholds keep the budget with the same joint confidence.
func (l *Ladder) bestStep(graded bool) int {
	best := -1
	for i, s := range l.Steps {
		if s.Certified && s.Escalated > 0 && (best < 0 || !graded || l.Right[i] > l.Right[best]) {
			best = i
		}
	}
	return best
}

// choosePolicy chooses the policy with the most right answers, and of equal ones that with the fewest tokens from the
// large model, which may be none. Without graded answers the last policy is chosen that has a certified threshold.
func (r *Result) choosePolicy(alone []float32) {
	if r.Graded > 0 && slices.ContainsFunc(r.Ladders, func(l Ladder) bool { return l.Chosen >= 0 }) {
		r.Chosen, r.Confidences = &Choice{Policy: router.Never, Right: r.Alone}, alone
	}
	for _, l := range r.Ladders {
		if l.Chosen < 0 {
			continue
		}
		c := &Choice{l.Policy, l.Thresholds[l.Chosen], l.Steps[l.Chosen], l.Right[l.Chosen]}
		if r.Graded == 0 || c.Right > r.Chosen.Right ||
			c.Right == r.Chosen.Right && c.Step.Share() < r.Chosen.Step.Share() {
			r.Chosen, r.Confidences = c, l.seen[l.Chosen]
		}
	}
}

// near is the part of a threshold by which a confidence may lie beside it through rounding.
const near = 1e-5

// advanceThreshold updates the answers of the previous threshold (0: none) for the next one. It only decodes answers
// with a confidence between the two: for all others the same tokens are escalated.
func (o *Options) advanceThreshold(
	ctx context.Context, policy router.Policy, prompts []Prompt, known []Decoded, before, next float64,
) error {
	var changed []int
	var left []Prompt
	for i, d := range known {
		asks := func(c float32) bool { return float64(c) >= before*(1-near) && float64(c) < next*(1+near) }
		if d.Tokens == 0 || slices.ContainsFunc(d.Confidences, asks) {
			changed, left = append(changed, i), append(left, prompts[i])
		}
	}
	decoded, err := o.decodePrompts(ctx, fmt.Sprintf("%s %v", policy, next), left,
		router.Options{Policy: policy, Threshold: &next})
	for i, d := range decoded {
		known[changed[i]] = d
	}
	return err
}

func (o *Options) decodePrompts(
	ctx context.Context, stage string, prompts []Prompt, r router.Options,
) ([]Decoded, error) {
	if r.Net = o.Net; r.Policy == router.Judged {
		r.Judge = o.Judge
	}
	done := 0
	return o.Decode(ctx, prompts, r, func() {
		if done++; o.Progress != nil {
			o.Progress(stage, done, len(prompts))
		}
	})
}

// shortestDecimal returns the number above low and up to high with the fewest decimals, since people read thresholds
// and type them.
func shortestDecimal(low, high float64) float64 {
	for scale := 10.0; scale <= 1e15; scale *= 10 {
		if x := math.Floor(high*scale) / scale; low < x && x <= high {
			return x
		}
	}
	return high
}

// chooseThresholds determines one threshold for each share of the budget: the pilots' tokens with a confidence below it
// use this share of the budget. The pilots are decoded in sequence with the budget, or verified with a usual margin, so
// that their texts resemble those that the thresholds will give. The test does not depend on this choice.
func (o *Options) chooseThresholds(ctx context.Context, policy router.Policy, pilots []Prompt) ([]float64, error) {
	as, by := *o, router.Options{Policy: policy, Budget: o.Budget}
	if policy.Verifies() {
		by.Budget, by.Threshold = 0, new(math.Exp(-1))
	} else {
		as.Parallel = 1 // the balance of the budget depends on the order of the answers
	}
	decoded, err := as.decodePrompts(ctx, fmt.Sprintf("%s: choosing thresholds", policy), pilots, by)
	if err != nil {
		return nil, err
	}
	var all []float32
	for _, d := range decoded {
		all = append(all, d.Confidences...)
	}
	slices.Sort(all)
	var thresholds []float64
	for _, part := range pilotShares() {
		at := min(int(part*o.Budget*float64(len(all))), len(all)-1)
		first, _ := slices.BinarySearch(all, all[at]) // of equal ones
		v := shortestDecimal(float64(all[max(0, first-1)])*float64(min(1, first)), float64(all[at]))
		if v > 0 && (len(thresholds) == 0 || v > thresholds[len(thresholds)-1]) {
			thresholds = append(thresholds, v)
		}
	}
	if len(thresholds) == 0 {
		return nil, fmt.Errorf("the policy %s has no confidence above 0 in its surest tokens within the budget: "+
			"name thresholds, or train the router again", policy)
	}
	return thresholds, nil
}
