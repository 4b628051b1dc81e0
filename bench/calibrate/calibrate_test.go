package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
)

var learned = []router.Policy{router.Learned}

// confidencesOf returns the confidences of all tokens.
func confidencesOf(decoded []Decoded) (all []float32) {
	for _, d := range decoded {
		all = append(all, d.Confidences...)
	}
	return all
}

// TestRun: pilots choose ascending thresholds, the other prompts are decoded at each until one fails, and the last
// certified threshold is chosen. A second run gives the same result. Another order of the prompts gives the same
// shares.
func TestRun(t *testing.T) {
	racing.Spare(t)
	p, net := demoPair(t)
	const all, confidence = 40, 0.6
	pilots := max(8, all/10)
	prompts := demoPrompts(t, p.Edge, all)
	calls := map[string]int{}
	o := Options{
		Pair: p, Policies: learned, Net: net, Prompts: prompts, Budget: 0.07, Confidence: confidence,
		Progress: func(stage string, done, of int) {
			calls[stage]++
			assert.Equal(t, calls[stage], done)
			if stage == "learned: choosing thresholds" {
				assert.Equal(t, pilots, of)
			} else {
				assert.LessOrEqual(t, of, all-pilots)
			}
		},
	}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, pilots, r.Pilots)
	assert.Equal(t, all-pilots, r.Prompts)
	require.Len(t, r.Ladders, 1)
	l := r.Ladders[0]
	require.NotEmpty(t, l.Steps)
	require.GreaterOrEqual(t, l.Chosen, 0)
	assert.Equal(t, &Choice{router.Learned, l.Thresholds[l.Chosen], l.Steps[l.Chosen], 0}, r.Chosen)
	assert.Equal(t, certify.Test{Budget: 0.07, Confidence: confidence, MaxTokens: 48}, r.Test)
	assert.IsIncreasing(t, l.Thresholds)
	assert.Len(t, calls, 1+len(l.Steps))
	assertSteps(t, &o, r)
	o.Progress, o.Parallel = nil, 1
	again, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, r, again, "the same for any number of prompts at a time")
	o.Seed = 1
	other, err := Run(t.Context(), o)
	require.NoError(t, err)
	first := other.Ladders[0]
	assert.Equal(t, l.Thresholds, first.Thresholds)
	assert.Equal(t, l.Steps[0].Escalated, first.Steps[0].Escalated)
	assert.NotEqual(t, l.Steps[0].PValue, first.Steps[0].PValue, "the order differs")
	o.Thresholds = []float64{0.5, 0.999}
	named, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Zero(t, named.Pilots, "no pilots with given thresholds")
	assert.Equal(t, all, named.Prompts)
	assert.Equal(t, o.Thresholds, named.Ladders[0].Thresholds)
}

// assertSteps checks the steps of the only ladder by decoding at each of its thresholds.
func assertSteps(t *testing.T, o *Options, r *Result) {
	l, longest := r.Ladders[0], 0
	for i, s := range l.Steps {
		assert.Equal(t, i <= l.Chosen, s.Certified)
		if i == l.Chosen {
			assert.Len(t, r.Confidences, s.Tokens)
		}
		v := l.Thresholds[i]
		at := router.Options{Policy: router.Learned, Net: o.Net, Threshold: &v}
		decoded, err := o.Decode(t.Context(), o.Prompts[r.Pilots:], at, func() {})
		require.NoError(t, err)
		var answers []certify.Answer
		for _, d := range decoded {
			answers = append(answers, d.Answer)
			longest = max(longest, d.Tokens)
		}
		assert.Equal(t, shareOf(answers), s.Share())
	}
	assert.Equal(t, longest, r.Longest)
}

// TestNextThreshold: a token with a confidence equal to a threshold is not escalated there, but at the next threshold.
func TestNextThreshold(t *testing.T) {
	racing.Spare(t)
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	none := 1e-9
	alone, err := p.Decode(t.Context(), prompts,
		router.Options{Policy: router.Learned, Net: net, Threshold: &none}, func() {})
	require.NoError(t, err)
	low := float64(slices.Min(confidencesOf(alone)))
	require.Greater(t, low, none)
	r, err := Run(t.Context(), Options{Pair: p, Policies: learned, Net: net, Prompts: prompts, Budget: 0.5,
		Confidence: 0.6, Thresholds: []float64{low, math.Nextafter(low, 1)}})
	require.NoError(t, err)
	steps := r.Ladders[0].Steps
	require.Len(t, steps, 2)
	assert.Zero(t, steps[0].Escalated)
	assert.NotZero(t, steps[1].Escalated)
	assert.Equal(t, 1, r.Ladders[0].Chosen, "not a threshold that asks nothing")
}

// TestBest: the certified threshold with the most right answers is chosen, the first of equal ones; without graded
// answers, the last certified threshold.
func TestBest(t *testing.T) {
	for name, c := range map[string]struct {
		certified int
		graded    bool
		want      int
		right     []int
	}{
		"nothing graded":                {4, false, 3, []int{0, 0, 0, 0, 0}},
		"most right":                    {4, true, 2, []int{9, 4, 6, 5, 9}},
		"the first of equal ones":       {4, true, 2, []int{9, 4, 6, 6, 9}},
		"none right":                    {4, true, 1, []int{0, 0, 0, 0, 0}},
		"only one that asks nothing":    {1, true, -1, []int{3, 3}},
		"that one, with nothing graded": {1, false, -1, []int{0, 0}},
		"the last certified one":        {3, true, 2, []int{9, 1, 2}},
	} {
		l := Ladder{Right: c.right}
		for i := range c.right {
			l.Steps = append(l.Steps, certify.Step{Certified: i < c.certified, Escalated: i}) // the first asks nothing
		}
		assert.Equal(t, c.want, l.bestStep(c.graded), name)
	}
}

// TestChoice: the policy with the most right answers is chosen, of equal ones the one with the fewest tokens of the
// large model, which may be the small model alone.
func TestChoice(t *testing.T) {
	ladder := func(p router.Policy, escalated, right int) Ladder {
		return Ladder{Policy: p, Thresholds: []float64{0.5}, Right: []int{right},
			Steps:  []certify.Step{{Escalated: escalated, Tokens: 100, Certified: escalated > 0}},
			Chosen: min(escalated, 1) - 1, seen: [][]float32{nil}}
	}
	for name, c := range map[string]struct {
		graded, alone int
		ladders       []Ladder
		want          router.Policy
	}{
		"most right":       {9, 2, []Ladder{ladder(router.Margin, 1, 4), ladder(router.Verify, 5, 5)}, router.Verify},
		"equal, cheaper":   {9, 2, []Ladder{ladder(router.Learned, 5, 4), ladder(router.Verify, 4, 4)}, router.Verify},
		"equal, the first": {9, 2, []Ladder{ladder(router.Margin, 4, 4), ladder(router.Verify, 4, 4)}, router.Margin},
		"none is better":   {9, 4, []Ladder{ladder(router.Margin, 1, 4), ladder(router.Verify, 5, 3)}, router.Never},
		"one not shown":    {9, 4, []Ladder{ladder(router.Margin, 0, 9), ladder(router.Verify, 5, 5)}, router.Verify},
		"not graded":       {0, 0, []Ladder{ladder(router.Margin, 1, 0), ladder(router.Verify, 5, 0)}, router.Verify},
		"nothing shown":    {9, 4, []Ladder{ladder(router.Margin, 0, 9)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Result{Graded: c.graded, Alone: c.alone, Ladders: c.ladders}
			r.choosePolicy(nil)
			if c.want == "" {
				assert.Nil(t, r.Chosen)
				return
			}
			assert.Equal(t, c.want, r.Chosen.Policy)
		})
	}
}

// TestPolicies: with several policies each has a ladder, with a smaller error probability each, and all are decoded as
// they are used: that of verify at margin 0 has the large model's own text.
func TestPolicies(t *testing.T) {
	racing.Spare(t)
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 40)
	judge := anyJudge(t, opened(t, demo.Large())).Fingerprint()
	o := Options{Pair: p, Policies: []router.Policy{router.Margin, router.Learned, router.Judged, router.Verify},
		Net: net, Judge: judge, Prompts: prompts, Budget: 0.2, Confidence: 0.6}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.InDelta(t, 0.9, r.Test.Confidence, 1e-12)
	require.Len(t, r.Ladders, 4)
	require.NotNil(t, r.Chosen)
	assert.Equal(t, router.Verify, r.Chosen.Policy, "nothing is graded")
	assert.GreaterOrEqual(t, r.Ladders[3].Chosen, 0)
	for _, l := range r.Ladders[2:] {
		assertVerified(t, p, l, r.Pilots, prompts, judge)
	}
}

// assertVerified checks the ladder of a policy that verifies.
func assertVerified(t *testing.T, p Pair, l Ladder, pilots int, prompts []Prompt, judge string) {
	at := func(threshold float64) []Decoded {
		o := router.Options{Policy: l.Policy, Threshold: &threshold, Judge: judge}
		decoded, err := p.Decode(t.Context(), prompts, o, func() {})
		require.NoError(t, err)
		return decoded
	}
	share := func(decoded []Decoded) float64 {
		var answers []certify.Answer
		for _, d := range decoded {
			assert.Len(t, d.Confidences, d.Tokens)
			assert.Len(t, d.Seen, d.Tokens)
			answers = append(answers, d.Answer)
		}
		return shareOf(answers)
	}
	whole := at(1)
	below := 0
	for _, c := range confidencesOf(whole) {
		if c < 1 {
			below++
		}
	}
	total := 0
	for _, d := range whole {
		total += d.Escalated
	}
	assert.Equal(t, total, below, "what is replaced is what has a ratio below the threshold")
	assert.Less(t, share(at(1e-6)), share(whole))
	for i, s := range l.Steps {
		decoded := at(l.Thresholds[i])[pilots:]
		assert.Equal(t, shareOf(answersOf(decoded)), s.Share(), "answers are those of the threshold")
	}
}

func answersOf(decoded []Decoded) (all []certify.Answer) {
	for _, d := range decoded {
		all = append(all, d.Answer)
	}
	return all
}

// TestRight: answers are graded at each threshold as soon as they are decoded. An error of grading ends the run.
func TestRight(t *testing.T) {
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	o := Options{Pair: p, Policies: learned, Net: net, Thresholds: []float64{0.3, 0.9}, Budget: 0.5, Confidence: 0.5}
	var mu sync.Mutex
	seen := map[string]bool{}
	for i := range prompts[:15] {
		prompts[i].Right = func(_ context.Context, answer string, _ bool) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			seen[answer] = true
			return i < 10, nil
		}
	}
	o.Prompts = prompts
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, 15, r.Graded)
	l := r.Ladders[0]
	assert.Equal(t, []int{10, 10}, l.Right)
	assert.Zero(t, l.Chosen)
	assert.Equal(t, 10, r.Alone)
	assert.Equal(t, router.Never, r.Chosen.Policy, "no policy is better than the small model alone")
	r.Alone = 9
	r.choosePolicy(nil)
	for i, v := range o.Thresholds { // another order of the prompts
		decoded, err := p.Decode(t.Context(), prompts, router.Options{Policy: router.Learned, Net: net, Threshold: &v},
			func() {})
		require.NoError(t, err)
		same := slices.Equal(slices.Sorted(slices.Values(confidencesOf(decoded))),
			slices.Sorted(slices.Values(r.Confidences)))
		assert.Equal(t, i == l.Chosen, same, "the confidences are those of the chosen threshold")
	}
	for answer := range seen {
		assert.Regexp(t, `^[A-Z].*\.$`, answer, "a sentence of the demo, without an end token")
	}
	prompts[3].Right = func(context.Context, string, bool) (bool, error) { return false, errAway }
	_, err = Run(t.Context(), o)
	assert.ErrorIs(t, err, errAway)
}

// TestChoose: the thresholds are the confidences below which given parts of the budget lie, in the tokens of the
// pilots.
func TestChoose(t *testing.T) {
	racing.Spare(t)
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	o := Options{Pair: p, Net: net, Budget: 0.1}
	got, err := o.chooseThresholds(t.Context(), router.Learned, prompts)
	require.NoError(t, err)
	p.Parallel = 1 // the state of a balance depends on the order of the answers
	decoded, err := p.Decode(t.Context(), prompts, router.Options{Policy: router.Learned, Net: net, Budget: 0.1},
		func() {})
	require.NoError(t, err)
	n, below := 0, make([]int, len(got))
	for _, d := range decoded {
		assert.Len(t, d.Confidences, d.Tokens)
		for _, c := range d.Confidences {
			n++
			for i, v := range got {
				if float64(c) < v {
					below[i]++
				}
			}
		}
	}
	require.Len(t, got, 6)
	for i, part := range []float64{0.25, 0.5, 0.65, 0.8, 0.9, 1} {
		assert.Equal(t, int(part*0.1*float64(n)), below[i])
	}
}

// TestNothingShown: with too few prompts, or a share above the budget, no threshold is chosen. Where more prompts would
// help, the result says how many are needed.
func TestNothingShown(t *testing.T) {
	racing.Spare(t)
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	o := Options{Pair: p, Policies: learned, Net: net, Prompts: prompts, Thresholds: []float64{0.5, 0.9}, Budget: 0.07,
		Confidence: 0.9}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Nil(t, r.Chosen)
	assert.Len(t, r.Ladders[0].Steps, 1)
	assert.InDelta(t, 60, r.Ladders[0].Needed, 30)
	o.Budget = 0.005
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	assert.Nil(t, r.Chosen)
	assert.Zero(t, r.Ladders[0].Needed)
}

// silent is a large model that never answers.
type silent struct{ engine.Cloud }

var errAway = errors.New("away")

func (silent) Ask(context.Context, engine.CloudQuestion) (engine.CloudAnswer, error) {
	return engine.CloudAnswer{}, errAway
}

func (silent) Session(context.Context) (engine.Cloud, func(), error) { return silent{}, func() {}, nil }

// fleeting is a large model that answers the first question of a session and no other.
type fleeting struct {
	engine.Cloud
	far   engine.Far
	asked *atomic.Bool
}

func (f fleeting) Session(ctx context.Context) (engine.Cloud, func(), error) {
	cloud, end, err := f.far.Session(ctx)
	return fleeting{cloud, f.far, new(atomic.Bool)}, end, err
}

func (f fleeting) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	if f.asked.Swap(true) {
		return engine.CloudAnswer{}, errAway
	}
	return f.Cloud.Ask(ctx, q)
}

// patient is a large model that fails the test if an ask has a deadline, or if a text is sent before a question about
// it.
type patient struct {
	engine.Cloud
	far  engine.Far
	open *atomic.Int32 // sessions
	t    *testing.T
}

func (p patient) Session(ctx context.Context) (engine.Cloud, func(), error) {
	cloud, end, err := p.far.Session(ctx)
	p.open.Add(1)
	return patient{cloud, p.far, p.open, p.t}, func() { p.open.Add(-1); end() }, err
}

func (p patient) Ask(ctx context.Context, q engine.CloudQuestion) (engine.CloudAnswer, error) {
	_, limited := ctx.Deadline()
	assert.False(p.t, limited, "a late answer would not count, and the share would look smaller than it is")
	return p.Cloud.Ask(ctx, q)
}

func (p patient) Warm(context.Context, []int32) (up, down int, err error) {
	p.t.Error("text was sent early")
	return 0, 0, nil
}

// TestWaits: calibration waits for the large model, however long it takes.
func TestWaits(t *testing.T) {
	p, net := demoPair(t)
	far := patient{far: p.Far, open: new(atomic.Int32), t: t}
	p.Far = far
	threshold := 1.
	decoded, err := p.Decode(t.Context(), demoPrompts(t, p.Edge, 2),
		router.Options{Policy: router.Learned, Net: net, Threshold: &threshold}, func() {})
	require.NoError(t, err)
	for _, d := range decoded {
		assert.NotZero(t, d.Escalated)
	}
	assert.Zero(t, far.open.Load(), "open sessions")
}

// unreachable is a large model that cannot be reached.
type unreachable struct{}

func (unreachable) Session(context.Context) (engine.Cloud, func(), error) { return nil, nil, errAway }

// TestFails: a token without an answer does not count as a token of the small model, and an error that ends decoding is
// returned.
func TestFails(t *testing.T) {
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	good := Options{Pair: p, Policies: learned, Net: net, Prompts: prompts, Thresholds: []float64{1}, Budget: 0.07,
		Confidence: 0.9}
	for want, change := range map[string]func(*Options){
		"did not answer: away": func(o *Options) { o.Far = silent{} },
		"not answer: away":     func(o *Options) { o.Far = fleeting{far: o.Far} },
		"away":                 func(o *Options) { o.Far = unreachable{} },
		"at least 2":           func(o *Options) { o.Prompts = prompts[:1] },
		"at least 10":          func(o *Options) { o.Thresholds, o.Prompts = nil, prompts[:9] },
		"no router":            func(o *Options) { o.Net = nil },
		"width":                func(o *Options) { o.Net = narrow(t) },
		"leaves no room":       func(o *Options) { o.Prompts = []Prompt{{IDs: make([]int32, 600)}, {IDs: []int32{1}}} },
	} {
		o := good
		change(&o)
		r, err := Run(t.Context(), o)
		assert.ErrorContains(t, err, want)
		assert.Nil(t, r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	good.Progress = func(string, int, int) { cancel(fmt.Errorf("enough: %w", errAway)) }
	_, err := Run(ctx, good)
	assert.ErrorIs(t, err, errAway)
	for n, want := range map[int]int{1: 8, 80: 8, 90: 9, 400: 40, 5000: 50} {
		assert.Equal(t, want, pilotCount(n))
	}
}

func narrow(t *testing.T) *router.Net {
	n, err := router.NewNet([]router.Layer{{In: 3, Out: 1, Weight: []float32{1, 2, 3}, Bias: []float32{4}}}, false)
	require.NoError(t, err)
	return n
}
