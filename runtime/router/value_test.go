package router

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestConstantCosts: if only the price of a question counts, the value policy decides like the threshold 1 - cost/gain.
func TestConstantCosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	net, err := NewNet([]Layer{{In: 1, Out: 1, Weight: []float32{1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	for _, c := range []struct{ gain, ask float64 }{{1, 0.5}, {4, 1}, {1, 0}, {1, 1}, {2, 3}} {
		for _, n := range []*Net{nil, net} {
			value, err := New(Options{Policy: Value, Net: n, Prices: Prices{Gain: c.gain, Ask: c.ask}})
			require.NoError(t, err)
			followed := value.With(value.NewCosts())
			policy := Margin
			if n != nil {
				policy = Learned
			}
			threshold := max(0, 1-c.ask/c.gain)
			fixed, err := New(Options{Policy: policy, Net: n, Threshold: &threshold})
			require.NoError(t, err)
			assert.Equal(t, fixed.Want(backend.Want{}), value.Want(backend.Want{}))
			path := uint64(0)
			for pos := range 500 {
				head := headOf(0.5+rng.Float64()/2, 0.1)
				head.Hidden = []float32{float32(rng.NormFloat64())}
				confidence, ask, next := fixed.Decide(path, pos, head)
				for _, r := range []*Router{value, followed} {
					c, a, n := r.Decide(path, pos, head)
					require.Equal(t, []any{confidence, ask, next}, []any{c, a, n})
				}
				followed.costs.Tell(Took{Wait: rng.Float64(), Bytes: 100})
				path = next
			}
		}
	}
}

// TestCosts: exponential means in which the last answer has a weight of a fifth; hidden waits cost nothing.
func TestCosts(t *testing.T) {
	c := NewCosts(Prices{Gain: 1, Second: 2, Byte: 0.001, Ask: 0.1})
	assert.Equal(t, 0.1, c.now(), "without answers")
	c.Tell(Took{Wait: 0.5, Bytes: 100})
	assert.InDelta(t, 0.1+2*0.5+0.1, c.now(), 1e-12)
	c.Tell(Took{Wait: 1, Hidden: 0.75, Hit: true, Bytes: 200})
	// wait 0.6, bytes 120, hits 0.2, hidden share of hits 0.75
	assert.InDelta(t, 0.1+2*0.6*(1-0.2*0.75)+0.12, c.now(), 1e-12)
	c.Tell(Took{Wait: 1, Hidden: 5, Hit: true})
	assert.InDelta(t, 0.75+0.2*0.25, c.hidden, 1e-12, "the hidden time is at most the wait")
	c.Tell(Took{Wait: 1, Hidden: 1})
	assert.InDelta(t, 0.8, c.hidden, 1e-12, "only hits count")
	c.Tell(Took{Hit: true})
	assert.InDelta(t, 0.64, c.hidden, 1e-12, "a hit without a wait hid nothing")
	wait, bytes := c.wait, c.bytes
	c.Tell(Took{Wait: -1, Bytes: -5, Hit: true})
	assert.InDeltaSlice(t, []float64{0.8 * wait, 0.8 * bytes}, []float64{c.wait, c.bytes}, 1e-12, "as 0")
}

// TestCostBlocks: a block of 16 positions has the cost at its first decision; a block without an answer halves the
// known costs.
func TestCostBlocks(t *testing.T) {
	r, err := New(Options{Policy: Value, Prices: Prices{Gain: 1, Second: 0.5, Byte: 1. / 1024}})
	require.NoError(t, err)
	c := r.NewCosts()
	with := r.With(c)
	threshold := func(pos int) float64 {
		_, _, threshold := with.Explain(7, pos, headOf(1))
		return threshold
	}
	assert.Equal(t, 1.0, threshold(17))
	c.Tell(Took{Wait: 0.5, Bytes: 256})
	for _, pos := range []int{16, 31, 20} {
		assert.Equal(t, 1.0, threshold(pos), "the block has its cost")
	}
	assert.Equal(t, 0.5, threshold(40))
	assert.Equal(t, 0.75, threshold(48), "no answer meanwhile")
	c.Tell(Took{Wait: 0.25, Bytes: 128})
	assert.Equal(t, 0.75, threshold(3), "an earlier branch uses the current cost")
	assert.Equal(t, []Cost{{0, 0.25}, {16, 0}, {32, 0.5}, {48, 0.25}}, c.Record())
	record := c.Record()
	record[2].Cost, record = 99, c.Record() // a record is apart from the costs
	replayed, err := ReplayCosts(record)
	require.NoError(t, err)
	record[2].Cost = 99
	with = r.With(replayed)
	replayed.Tell(Took{Wait: 99})
	for pos, want := range map[int]float64{0: 0.75, 15: 0.75, 16: 1, 47: 0.5, 63: 0.75} {
		assert.Equal(t, want, threshold(pos))
	}
	assert.False(t, replayed.Lacking())
	assert.Equal(t, 0.75, threshold(64), "the previous one")
	assert.True(t, replayed.Lacking())
	nothing, err := ReplayCosts(nil)
	require.NoError(t, err)
	with = r.With(nothing)
	assert.Equal(t, 1.0, threshold(5))
	assert.True(t, nothing.Lacking())
	assert.Equal(t, c.Record(), replayed.Record())

	margin, err := New(Options{Policy: Margin})
	require.NoError(t, err)
	assert.Nil(t, margin.NewCosts())
	assert.Same(t, margin, margin.With(c))
	assert.Same(t, r, r.With(nil))
	assert.Nil(t, r.costs, "the router itself does not change")
}

// TestValueRefused: errors name the invalid price or record.
func TestValueRefused(t *testing.T) {
	for want, p := range map[string]Prices{
		"gain is 0": {}, "gain is -1": {Gain: -1}, "second is NaN": {Gain: 1, Second: math.NaN()},
		"byte is +Inf": {Gain: 1, Byte: math.Inf(1)}, "question is -2": {Gain: 1, Ask: -2},
	} {
		_, err := New(Options{Policy: Value, Prices: p})
		assert.ErrorContains(t, err, want)
	}
	good := Options{Policy: Value, Prices: Prices{Gain: 1}}
	_, err := New(good)
	require.NoError(t, err)
	for _, change := range []func(*Options){
		func(o *Options) { o.Threshold = new(0.5) }, func(o *Options) { o.Budget = 0.5 },
	} {
		o := good
		change(&o)
		_, err := New(o)
		assert.ErrorContains(t, err, "excludes")
	}
	for _, record := range [][]Cost{
		{{-16, 1}}, {{5, 1}}, {{16, 1}, {16, 1}}, {{32, 1}, {16, 1}}, {{0, -1}}, {{0, math.NaN()}}, {{0, math.Inf(1)}},
	} {
		_, err := ReplayCosts(record)
		assert.ErrorContains(t, err, "costs[", "%v", record)
	}
}

// TestExplain: the inputs of a decision, by policy.
func TestExplain(t *testing.T) {
	head := headOf(0.7, 0.2, 0.1)
	for p, want := range map[Policy]float64{Never: 0, Always: 1, Margin: 0.8, Random: 0} {
		r, err := New(Options{Policy: p, Budget: map[Policy]float64{Random: 0.5}[p]})
		require.NoError(t, err)
		gap, entropy, threshold := r.Explain(count{10, 5}.path(), 3, head)
		assert.InDelta(t, want, threshold, 1e-12, p)
		assert.InDelta(t, 0.5, gap, 1e-6)
		assert.InDelta(t, 0.8018, entropy, 1e-4)
	}
}

// TestFits: a router for another width is refused with both widths; other policies fit any model.
func TestFits(t *testing.T) {
	net, err := NewNet([]Layer{{In: 5, Out: 1, Weight: make([]float32, 5), Bias: []float32{0}}}, true)
	require.NoError(t, err)
	for _, o := range []Options{{Policy: Learned, Net: net}, {Policy: Value, Net: net, Prices: Prices{Gain: 1}}} {
		r, err := New(o)
		require.NoError(t, err)
		assert.NoError(t, r.Fits(3))
		assert.ErrorContains(t, r.Fits(5), "width 3, those of the model are 5 wide")
	}
	for _, o := range []Options{{Policy: Margin}, {Policy: Value, Prices: Prices{Gain: 1}}} {
		r, err := New(o)
		require.NoError(t, err)
		assert.NoError(t, r.Fits(5))
	}
}
