package router

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// headOf returns a head with the given probabilities.
func headOf(p ...float64) *backend.Output {
	out := &backend.Output{LogSumExp: 3}
	for i, v := range p {
		if v > 0 {
			out.Top = append(out.Top, backend.Candidate{ID: int32(i), Logit: float32(math.Log(v) + 3)})
			out.Entropy -= float32(v * math.Log(v))
		}
	}
	return out
}

func TestConfidence(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		head   *backend.Output
		want   float64
	}{
		"never":                           {Never, headOf(0.2, 0.2), 1},
		"always":                          {Always, headOf(1), 0},
		"margin of three tokens":          {Margin, headOf(0.7, 0.2, 0.1), 0.5},
		"margin of equal tokens":          {Margin, headOf(0.5, 0.5), 0},
		"margin of one token":             {Margin, headOf(1), 1},
		"margin of no token":              {Margin, &backend.Output{}, 0},
		"entropy of one token":            {Entropy, headOf(1), 1},
		"entropy of two equal tokens":     {Entropy, headOf(0.5, 0.5), 0.5},
		"entropy of four equal tokens":    {Entropy, headOf(0.25, 0.25, 0.25, 0.25), 0.25},
		"entropy that is rounded below 0": {Entropy, &backend.Output{Entropy: -1e-6}, 1},
		"entropy that is not a number":    {Entropy, &backend.Output{Entropy: float32(math.NaN())}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(Options{Policy: c.policy})
			require.NoError(t, err)
			assert.InDelta(t, c.want, r.Confidence(3, c.head), 1e-6)
		})
	}
}

// TestDecide: escalate if confidence < threshold, not if equal.
func TestDecide(t *testing.T) {
	half := headOf(0.5, 0.5) // entropy policy: 0.5
	for name, c := range map[string]struct {
		o    Options
		head *backend.Output
		want bool
	}{
		"no policy":                   {Options{}, half, false},
		"never, with a threshold":     {Options{Policy: Never, Threshold: new(1.0)}, half, false},
		"never, with a budget":        {Options{Policy: Never, Budget: 1}, half, false},
		"always, with a threshold":    {Options{Policy: Always, Threshold: new(0.01)}, half, true},
		"always, with a budget":       {Options{Policy: Always, Budget: 0.01}, half, true},
		"entropy of an unsure token":  {Options{Policy: Entropy}, half, true},
		"entropy of a sure token":     {Options{Policy: Entropy}, headOf(0.99, 0.01), false},
		"entropy below the threshold": {Options{Policy: Entropy, Threshold: new(0.51)}, half, true},
		"entropy above the threshold": {Options{Policy: Entropy, Threshold: new(0.49)}, half, false},
		"margin of an unsure token":   {Options{Policy: Margin}, headOf(0.85, 0.15), true},
		"margin of a sure token":      {Options{Policy: Margin}, headOf(0.95, 0.05), false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(c.o)
			require.NoError(t, err)
			_, got, _ := r.Decide(0, 5, c.head)
			assert.Equal(t, c.want, got)
		})
	}
	for _, p := range []Policy{Random, Margin, Entropy} {
		r, err := New(Options{Policy: p, Threshold: new(0.0)})
		require.NoError(t, err)
		_, got, _ := r.Decide(0, 5, headOf(0.5, 0.5))
		assert.False(t, got, "a threshold of 0 is a value: no confidence is below it (%s)", p)
	}
	r, err := New(Options{Policy: Margin, Threshold: new(1.0)})
	require.NoError(t, err)
	_, got, _ := r.Decide(0, 5, headOf(1))
	assert.False(t, got, "a confidence of 1 is not below a threshold of 1")
}

// TestDefaultThresholds: a confidence just below the threshold of a policy escalates, and one equal to it does not.
func TestDefaultThresholds(t *testing.T) {
	net, err := NewNet([]Layer{{In: 1, Out: 1, Weight: []float32{1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	for p, want := range map[Policy]float64{Margin: 0.8, Entropy: 0.7, Random: 0.05, Learned: 0.5} {
		assert.Equal(t, want, p.DefaultThreshold(), p)
		plain, err := New(Options{Policy: p, Net: net})
		require.NoError(t, err)
		assert.Equal(t, want, plain.thresholdAfter(pathCount{}), p)
		assert.Equal(t, want, plain.thresholdAfter(pathCount{1000, 3}), "%s: unchanged without a budget", p)
		for pos := range 300 {
			head := headOf(0.75+float64(pos)/2000, 0.25-float64(pos)/2000)
			head.Hidden = []float32{float32(pos-150) / 100}
			at := float64(plain.Confidence(pos, head))
			for threshold, escalate := range map[float64]bool{
				at: false, math.Nextafter(at, 0): false, math.Nextafter(at, 2): at < 1,
			} {
				r, err := New(Options{Policy: p, Net: net, Threshold: &threshold})
				if at == 1 && threshold > 1 {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				c, got, next := r.Decide(0, pos, head)
				require.Equal(t, escalate, got, "%s at %d: %v below %v", p, pos, at, threshold)
				require.Equal(t, at, float64(c))
				require.Equal(t, pathCount{}.addDecision(got).packPath(), next)
			}
		}
	}
	for p, want := range map[Policy]bool{Never: false, Always: true, "": false} {
		r, err := New(Options{Policy: p, Budget: 0.5})
		require.NoError(t, err)
		_, got, next := r.Decide(77, 1, headOf(0.5, 0.5))
		assert.Equal(t, want, got)
		assert.EqualValues(t, 77, next, "%q does not count", p)
	}
}

// TestUniform tests the random policy: a seed gives the same decisions in every version. The numbers are those of the
// published SplitMix64, seeded by position after the first number of the seed.
func TestUniform(t *testing.T) {
	for _, c := range []struct {
		seed, pos uint64
		want      float32
	}{
		{0, 0, 10946269}, {0, 1, 2791669}, {1, 0, 6177195}, {5, 4096, 8984647}, {4096, 5, 16230919},
		{math.MaxUint64, math.MaxUint64, 5330406},
	} {
		assert.Equal(t, c.want/(1<<24), uniformDraw(c.seed, c.pos), "seed %d, position %d", c.seed, c.pos)
	}
	r, err := New(Options{Policy: Random, Seed: 4096})
	require.NoError(t, err)
	assert.Equal(t, uniformDraw(4096, 5), r.Confidence(5, headOf(1)))
}

// TestClamp: confidences are limited to [0, 1], and NaN is not a confidence.
func TestClamp(t *testing.T) {
	for in, want := range map[float64]float32{
		-1e-9: 0, 0: 0, 0.25: 0.25, 1: 1, 1.5: 1, math.Inf(1): 1, math.Inf(-1): 0,
	} {
		assert.Equal(t, want, clampUnit(in), "%v", in)
	}
	assert.Zero(t, clampUnit(math.NaN()))
	assert.Zero(t, headMargin(&backend.Output{LogSumExp: float32(math.NaN()), Top: headOf(0.5, 0.5).Top}))
}

// TestRandom: the threshold is the share, the decision is a function of seed and position, and other seeds decide
// differently.
func TestRandom(t *testing.T) {
	const n = 20000
	for _, share := range []float64{0.05, 0.5, 1} {
		for seed := range uint64(5) {
			r, err := New(Options{Policy: Random, Threshold: new(share), Seed: seed})
			require.NoError(t, err)
			m, same := 0, 0
			for pos := range n {
				c, escalate, _ := r.Decide(0, pos, headOf(1))
				again, _, _ := r.Decide(77, pos, headOf(0.5, 0.5))
				require.Equal(t, c, again)
				if escalate {
					m++
				}
				if uniformDraw(seed+1, uint64(pos)) == c {
					same++
				}
			}
			assert.InDelta(t, share*n, m, 5*math.Sqrt(n*share*(1-share))+1)
			assert.Less(t, same, 10)
		}
	}
}

// TestCount: the counts of a path do not overflow.
func TestCount(t *testing.T) {
	full := pathCount{math.MaxUint32, 5}
	assert.Equal(t, full, full.addDecision(true), "no overflow")
	last := pathCount{math.MaxUint32 - 1, 5}
	assert.Equal(t, pathCount{math.MaxUint32, 6}, last.addDecision(true), "counts up to the limit")
	assert.EqualValues(t, 3<<32+2, pathCount{3, 2}.packPath())
	largest := pathCount{math.MaxUint32, math.MaxUint32 - 1}
	assert.Equal(t, largest, unpackPath(largest.packPath()))
}

func TestOptions(t *testing.T) {
	for _, p := range Policies() {
		got, err := ParsePolicy(string(p))
		require.NoError(t, err)
		assert.Equal(t, p, got)
	}
	_, err := ParsePolicy("sometimes")
	assert.ErrorContains(t, err, "never, always, random, margin, entropy, learned")
	for name, o := range map[string]Options{
		"another policy":             {Policy: "x"},
		"a threshold below 0":        {Threshold: new(-0.1)},
		"a threshold above 1":        {Threshold: new(1.1)},
		"a threshold right above 1":  {Threshold: new(math.Nextafter(1, 2))},
		"an infinite threshold":      {Policy: Margin, Threshold: new(math.Inf(1))},
		"a threshold of NaN":         {Threshold: new(math.NaN())},
		"a budget below 0":           {Budget: -0.1},
		"a budget above 1":           {Budget: 2},
		"a budget right above 1":     {Budget: math.Nextafter(1, 2)},
		"a budget of NaN":            {Budget: math.NaN()},
		"no network":                 {Policy: Learned},
		"a threshold and a budget":   {Policy: Margin, Threshold: new(0.5), Budget: 0.5},
		"a balance without a budget": {Policy: Margin, Balance: new(Balance)},
		"a calibration out of order": {Policy: Margin, Budget: 0.5, Calibration: []float32{0.5, 0.4}},
		"a calibration of NaN":       {Policy: Margin, Budget: 0.5, Calibration: []float32{float32(math.NaN())}},
		"too large a calibration":    {Policy: Margin, Budget: 0.5, Calibration: make([]float32, maxConfidences+1)},
	} {
		_, err := New(o)
		assert.Error(t, err, name)
	}
	for _, o := range []Options{
		{}, {Policy: Margin, Budget: 1}, {Policy: Random, Budget: 1e-9}, {Policy: Random, Threshold: new(1.0)},
	} {
		_, err := New(o)
		assert.NoError(t, err, "%+v", o)
	}
	_, err = New(Options{Policy: "sometimes"})
	assert.ErrorContains(t, err, `policy "sometimes"`)
	all := []Policy{"never", "always", "random", "margin", "entropy", "learned", "verify", "judge"}
	assert.Equal(t, all, Policies(), "in the documented order")
}

func TestWant(t *testing.T) {
	net, err := NewNet([]Layer{{In: 2, Out: 1, Weight: []float32{1, 1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	for p, want := range map[Policy]backend.Want{
		Never: {K: 1}, Always: {K: 1}, Random: {K: 1}, Margin: {K: 2}, Entropy: {K: 1}, Learned: {K: 1, Hidden: true},
	} {
		r, err := New(Options{Policy: p, Net: net})
		require.NoError(t, err)
		assert.Equal(t, want, r.Want(backend.Want{}), p)
		others := backend.Want{K: 5, Logits: true, Hidden: true, Rows: []int{3}}
		assert.Equal(t, others, r.Want(others), "%s: other requests stay", p)
	}
}

// TestFits: a network decides only for hidden states of its width. A policy that needs no network has none.
func TestFits(t *testing.T) {
	plain, err := New(Options{Policy: Margin})
	require.NoError(t, err)
	assert.NoError(t, plain.Fits(7))
	net, err := NewNet([]Layer{{In: 2, Out: 1, Weight: []float32{1, 1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	r, err := New(Options{Policy: Learned, Net: net})
	require.NoError(t, err)
	assert.NoError(t, r.Fits(2))
	assert.ErrorContains(t, r.Fits(3), "of width 2, those of the model are 3 wide")
}

// here is a device without support for routers, there supports them, and full cannot load any.
type (
	here  struct{ backend.Device }
	there struct{ backend.Device }
	full  struct{ backend.Device }
)

// loaded holds the arguments of LoadRouter.
type loaded struct {
	layers   []backend.RouterLayer
	features bool
}

func (l *loaded) Dim() int { return l.layers[0].In }

func (there) LoadRouter(layers []backend.RouterLayer, features bool) (backend.Router, error) {
	return &loaded{layers, features}, nil
}

func (full) LoadRouter([]backend.RouterLayer, bool) (backend.Router, error) {
	return nil, errors.New("no room")
}

// TestOn: a device that evaluates the network returns the confidence; other devices return the hidden state.
func TestOn(t *testing.T) {
	net, err := NewNet([]Layer{{In: 2, Out: 1, Weight: []float32{1, -1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	r, err := New(Options{Policy: Learned, Net: net})
	require.NoError(t, err)
	head := &backend.Output{Hidden: []float32{3, 3}, Confidence: 0.25}
	for _, d := range []backend.Device{here{}, full{}} {
		assert.Equal(t, backend.Want{K: 1, Hidden: true}, r.On(d).Want(backend.Want{}))
		assert.EqualValues(t, 0.5, r.On(d).Confidence(0, head))
	}
	whole := &loaded{layers: []backend.RouterLayer{{In: 2, Out: 1, Weight: []float32{1, -1}, Bias: []float32{0}}}}
	assert.Equal(t, backend.Want{K: 1, Router: whole}, r.On(there{}).Want(backend.Want{}))
	assert.True(t, r.On(there{}).Want(backend.Want{Hidden: true}).Hidden, "other users may need it")
	assert.EqualValues(t, 0.25, r.On(there{}).Confidence(0, head))
	_, escalate, _ := r.On(there{}).Decide(0, 0, head)
	assert.True(t, escalate, "0.25 is below the default of 0.5 on this device, too")
	margin, err := New(Options{Policy: Margin})
	require.NoError(t, err)
	assert.Same(t, margin, margin.On(there{}))

	two, err := NewNet([]Layer{
		{In: 3, Out: 2, Weight: []float32{1, 2, 3, 4, 5, 6}, Bias: []float32{7, 8}},
		{In: 2, Out: 1, Weight: []float32{9, 10}, Bias: []float32{11}},
	}, true)
	require.NoError(t, err)
	r, err = New(Options{Policy: Learned, Net: two, Budget: 0.5, Seed: 3})
	require.NoError(t, err)
	on := r.On(there{})
	assert.Equal(t, &loaded{[]backend.RouterLayer{
		{In: 3, Out: 2, Weight: []float32{1, 2, 3, 4, 5, 6}, Bias: []float32{7, 8}},
		{In: 2, Out: 1, Weight: []float32{9, 10}, Bias: []float32{11}},
	}, true}, on.on, "layer by layer, with the features of the head")
	assert.Equal(t, r.o, on.o, "the decisions do not change")
	assert.Equal(t, r.thresholdAfter(pathCount{9, 2}), on.thresholdAfter(pathCount{9, 2}))
	assert.Nil(t, r.on, "the router itself does not change")
}
