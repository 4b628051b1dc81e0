package router

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// answer decodes n tokens with the threshold of l through a router, and returns how many were escalated.
func answer(t *testing.T, l *Live, n int, confidence func(i int) float64) (escalated int) {
	r, err := New(Options{Policy: Entropy, Live: l})
	require.NoError(t, err)
	path := uint64(0)
	for i := range n {
		head := &backend.Output{Entropy: float32(-math.Log(confidence(i)))}
		var ask bool
		if _, ask, path = r.Decide(path, i, head); ask {
			escalated++
		}
	}
	return escalated
}

// TestLive: whatever the answers are, also where they work against the rule, the share is within the bound at the end
// of every answer; and a state and an answer give the next state.
func TestLive(t *testing.T) {
	const longest = 60
	rng := rand.New(rand.NewPCG(3, 4))
	streams := map[string]func(l *Live, i int) float64{
		"all sure":     func(*Live, int) float64 { return 1 },
		"all unsure":   func(*Live, int) float64 { return 0 },
		"uniform":      func(*Live, int) float64 { return rng.Float64() },
		"against rule": func(l *Live, _ int) float64 { return float64(l.Escalated % 2) },
		"opposite": func(l *Live, _ int) float64 {
			return map[bool]float64{true: 0, false: 1}[l.Share() > l.Budget]
		},
		"changes":    func(l *Live, _ int) float64 { return rng.Float64() * float64(l.Tokens/3000%2) },
		"just below": func(l *Live, _ int) float64 { return min(max(l.Threshold()-1e-6, 0), 1) },
		"just above": func(l *Live, _ int) float64 { return min(max(l.Threshold()+1e-6, 0), 1) },
	}
	for name, confidence := range streams {
		for _, budget := range []float64{0.01, 0.07, 0.5, 0.95} {
			for _, start := range []float64{0, 0.5, 1} {
				l := NewLive(budget, start)
				for range 300 {
					n := 1 + rng.IntN(longest)
					before := *l
					l.Update(answer(t, l, n, func(i int) float64 { return confidence(l, i) }), n)
					off := math.Abs(l.Share() - budget)
					require.LessOrEqual(t, off, l.Bound(longest)+1e-12,
						"%s, budget %v, after %d tokens", name, budget, l.Tokens)
					require.InDelta(t, (50+longest)/float64(l.Tokens), l.Bound(longest), 1e-12)
					again := before
					again.Update(l.Escalated-before.Escalated, n)
					require.Equal(t, *l, again)
				}
				assert.NoError(t, l.Validate())
				assert.Less(t, math.Abs(l.Share()-budget), 0.02, "%s, budget %v: 9000 tokens are enough", name, budget)
			}
		}
	}
}

// TestLiveStep pins the rule, and what is stored.
func TestLiveStep(t *testing.T) {
	l := NewLive(0.25, 0.5)
	l.Update(3, 8)
	assert.InDelta(t, 0.48, l.Threshold(), 1e-12)
	l.Update(0, 8)
	assert.InDelta(t, 0.52, l.Threshold(), 1e-12)
	assert.Equal(t, 3.0/16, l.Share())
	b, err := json.Marshal(l)
	require.NoError(t, err)
	assert.JSONEq(t, `{"budget":0.25,"threshold":0.52,"tokens":16,"escalated":3}`, string(b))
	for _, wrong := range [][2]int{{-1, 3}, {4, 3}, {0, -1}, {1, math.MaxInt}} {
		before := *l
		l.Update(wrong[0], wrong[1])
		assert.Equal(t, before, *l, "%v", wrong)
	}
	assert.Zero(t, NewLive(0.1, 0.5).Share())
	for _, bad := range []Live{
		{Budget: 0}, {Budget: 1}, {Budget: math.NaN()},
		{Budget: 0.1, Value: math.Inf(1)}, {Budget: 0.1, Value: math.NaN()},
		{Budget: 0.1, Tokens: -1, Escalated: -2}, {Budget: 0.1, Tokens: 1, Escalated: 2},
		{Budget: 0.1, Tokens: 1, Escalated: -1},
	} {
		assert.Error(t, bad.Validate(), "%+v", bad)
	}
}

// TestLiveIsConstant: the threshold does not move within an answer, and excludes the others.
func TestLiveIsConstant(t *testing.T) {
	l := NewLive(0.07, 1.5)
	r, err := New(Options{Policy: Margin, Live: l})
	require.NoError(t, err)
	l.Update(9, 9)
	assert.Equal(t, 1.5, r.threshold(count{}, 0))
	assert.Equal(t, 1.5, r.threshold(count{100, 50}, 0))
	_, ask, _ := r.Decide(0, 0, headOf(1))
	assert.True(t, ask, "above 1 everything is escalated, sure or not")
	for _, o := range []Options{
		{Policy: Margin, Live: l, Budget: 0.1}, {Policy: Margin, Live: l, Threshold: new(0.1)},
		{Policy: Value, Prices: Prices{Gain: 1}, Live: l},
	} {
		_, err := New(o)
		assert.Error(t, err)
	}
}
