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

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
)

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
		Pair: p, Net: net, Prompts: prompts, Budget: 0.07, Confidence: confidence,
		Progress: func(stage string, done, of int) {
			calls[stage]++
			assert.Equal(t, calls[stage], done)
			if stage == "choosing thresholds" {
				assert.Equal(t, pilots, of)
			} else {
				assert.LessOrEqual(t, of, all-pilots)
			}
		},
	}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []int{pilots, all - pilots}, []int{r.Pilots, r.Prompts})
	require.NotEmpty(t, r.Steps)
	require.GreaterOrEqual(t, r.Chosen, 0)
	assert.Equal(t, certify.Test{Budget: 0.07, Confidence: confidence, MaxTokens: 48}, r.Test)
	assert.IsIncreasing(t, r.Thresholds)
	assert.Len(t, calls, 1+len(r.Steps))
	longest := 0
	for i, s := range r.Steps {
		assert.Equal(t, i <= r.Chosen, s.Certified)
		if i == r.Chosen {
			assert.Len(t, r.Confidences, s.Tokens)
		}
		v := r.Thresholds[i]
		at := router.Options{Policy: router.Learned, Net: net, Threshold: &v}
		decoded, err := p.Decode(t.Context(), prompts[pilots:], at, func() {})
		require.NoError(t, err)
		var answers []certify.Answer
		for _, d := range decoded {
			answers = append(answers, d.Answer)
			longest = max(longest, d.Tokens)
		}
		assert.Equal(t, shareOf(answers), s.Share())
	}
	assert.Equal(t, longest, r.Longest)
	o.Progress, o.Parallel = nil, 1
	again, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, r, again, "the same for any number of prompts at a time")
	o.Seed = 1
	other, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, r.Thresholds, other.Thresholds)
	assert.Equal(t, r.Steps[0].Escalated, other.Steps[0].Escalated)
	assert.NotEqual(t, r.Steps[0].PValue, other.Steps[0].PValue, "the order differs")
	o.Thresholds = []float64{0.5, 0.999}
	named, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []int{0, all}, []int{named.Pilots, named.Prompts}, "no pilots with given thresholds")
	assert.Equal(t, o.Thresholds, named.Thresholds)
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
	r, err := Run(t.Context(), Options{Pair: p, Net: net, Prompts: prompts, Budget: 0.5, Confidence: 0.6,
		Thresholds: []float64{low, math.Nextafter(low, 1)}})
	require.NoError(t, err)
	require.Len(t, r.Steps, 2)
	assert.Zero(t, r.Steps[0].Escalated)
	assert.NotZero(t, r.Steps[1].Escalated)
}

// TestBest: the certified threshold with the most right answers is chosen, the first of equal ones; without graded
// answers, the last certified threshold.
func TestBest(t *testing.T) {
	for _, c := range []struct {
		certified, graded, want int
		right                   []int
	}{
		{3, 0, 2, []int{0, 0, 0, 0}}, {3, 9, 1, []int{4, 6, 5, 9}}, {3, 9, 1, []int{4, 6, 6, 9}},
		{3, 9, 0, []int{0, 0, 0, 0}}, {0, 9, -1, []int{3}}, {0, 0, -1, []int{0}}, {2, 9, 1, []int{1, 2}},
	} {
		r := Result{Graded: c.graded, Right: c.right}
		for i := range c.right {
			r.Steps = append(r.Steps, certify.Step{Certified: i < c.certified})
		}
		assert.Equal(t, c.want, r.best(), "%+v", c)
	}
}

// TestRight: answers are graded at each threshold as soon as they are decoded. An error of grading ends the run.
func TestRight(t *testing.T) {
	p, net := demoPair(t)
	prompts := demoPrompts(t, p.Edge, 20)
	o := Options{Pair: p, Net: net, Thresholds: []float64{0.3, 0.9}, Budget: 0.5, Confidence: 0.5}
	var mu sync.Mutex
	seen := map[string]bool{}
	for i := range prompts[:15] {
		prompts[i].Right = func(_ context.Context, answer string) (bool, error) {
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
	assert.Equal(t, []int{10, 10}, r.Right)
	assert.Zero(t, r.Chosen)
	for i, v := range o.Thresholds { // another order of the prompts
		decoded, err := p.Decode(t.Context(), prompts, router.Options{Policy: router.Learned, Net: net, Threshold: &v},
			func() {})
		require.NoError(t, err)
		same := slices.Equal(slices.Sorted(slices.Values(confidencesOf(decoded))),
			slices.Sorted(slices.Values(r.Confidences)))
		assert.Equal(t, i == r.Chosen, same, "the confidences are those of the chosen threshold")
	}
	for answer := range seen {
		assert.Regexp(t, `^[A-Z].*\.$`, answer, "a sentence of the demo, without an end token")
	}
	prompts[3].Right = func(context.Context, string) (bool, error) { return false, errAway }
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
	got, err := o.choose(t.Context(), prompts)
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
	o := Options{Pair: p, Net: net, Prompts: prompts, Thresholds: []float64{0.5, 0.9}, Budget: 0.07, Confidence: 0.9}
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, -1, r.Chosen)
	assert.Len(t, r.Steps, 1)
	assert.InDelta(t, 60, r.Needed, 30)
	o.Budget = 0.005
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, -1, r.Chosen)
	assert.Zero(t, r.Needed)
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
	good := Options{Pair: p, Net: net, Prompts: prompts, Thresholds: []float64{1}, Budget: 0.07, Confidence: 0.9}
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
		assert.Equal(t, want, pilots(n))
	}
}

func narrow(t *testing.T) *router.Net {
	n, err := router.NewNet([]router.Layer{{In: 3, Out: 1, Weight: []float32{1, 2, 3}, Bias: []float32{4}}}, false)
	require.NoError(t, err)
	return n
}
