package router

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestBalanceAdd: a balance is the sum of its answers and has their last confidences, the oldest first.
func TestBalanceAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var b Balance
		var want Total
		var all []float32
		for range 200 {
			a := Answer{Tokens: rng.IntN(30), Escalations: rng.IntN(5)}
			for range a.Tokens {
				a.Confidences = append(a.Confidences, rng.Float32())
			}
			if rng.IntN(50) == 0 {
				a.Confidences = make([]float32, 2*maxConfidences)
				for i := range a.Confidences {
					a.Confidences[i] = float32(i) / (2 * maxConfidences)
				}
			}
			b.Add(a)
			want.Tokens, want.Escalations = want.Tokens+a.Tokens, want.Escalations+a.Escalations
			all = append(all, a.Confidences...)
			require.Equal(t, want, b.Total())
			kept := append([]float32(nil), b.copyState().Confidences...)
			require.Equal(t, all[max(0, len(all)-maxConfidences):], kept)
		}
	}
}

// TestBalanceRefuses: impossible counts change nothing, and invalid confidences are left out.
func TestBalanceRefuses(t *testing.T) {
	var b Balance
	b.Add(Answer{Tokens: 5, Escalations: 1, Confidences: []float32{0.5}})
	for _, a := range []Answer{
		{Tokens: -1}, {Escalations: -1}, {Tokens: math.MaxInt}, {Escalations: math.MaxInt}, {Tokens: maxTokens - 4},
	} {
		a.Confidences = []float32{0.25}
		before := b.copyState()
		b.Add(a)
		assert.Equal(t, before, b.copyState(), "%+v", a)
	}
	b.Add(Answer{Confidences: []float32{float32(math.NaN()), 1, -0.1, 1.1, 0, float32(math.Inf(1))}})
	assert.Equal(t, []float32{0.5, 1, 0}, b.copyState().Confidences)
	b.Add(Answer{Tokens: maxTokens - 5})
	assert.Equal(t, maxTokens, b.Total().Tokens)
	assert.Zero(t, new(Balance).Total().Share())
	assert.Equal(t, 0.25, Total{Tokens: 8, Escalations: 2}.Share())
}

// TestBalanceClone: a clone has the same content, and neither changes with the other.
func TestBalanceClone(t *testing.T) {
	r, err := New(Options{Policy: Margin, Budget: 0.1})
	require.NoError(t, err)
	b := r.Balance()
	b.Add(Answer{Tokens: 5, Escalations: 1, Confidences: []float32{0.5, 0.25}})
	clone := b.Clone()
	assert.Equal(t, b.copyState(), clone.copyState())
	assert.Equal(t, Total{0.1, 5, 1}, clone.Total())
	b.Add(Answer{Tokens: 1, Confidences: []float32{1}})
	assert.Equal(t, Total{0.1, 5, 1}, clone.Total())
	clone.Add(Answer{Tokens: 2})
	assert.Equal(t, Total{0.1, 6, 1}, b.Total())
	seen := []float32{0.125}
	clone.Add(Answer{Confidences: seen})
	seen[0] = 0.75 // of the caller again
	assert.Equal(t, []float32{0.5, 0.25, 0.125}, clone.copyState().Confidences)
}

// TestBalanceJSON: reading a written balance gives the same state and the same decisions.
func TestBalanceJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	r, err := New(Options{Policy: Entropy, Budget: 0.07})
	require.NoError(t, err)
	for range 60 {
		r.Add(answered(r.Begin(), 30, true, func(int, int) float64 { return rng.Float64() }, func(Answer) {}))
		text, err := json.Marshal(r.Balance())
		require.NoError(t, err)
		var b Balance
		require.NoError(t, json.Unmarshal(text, &b))
		require.Equal(t, r.Balance().copyState(), b.copyState())
		again, err := New(Options{Policy: Entropy, Budget: 0.07, Balance: &b})
		require.NoError(t, err)
		require.Equal(t, r.Begin().from, again.from)
	}
	text, err := json.Marshal(new(Balance))
	require.NoError(t, err)
	assert.JSONEq(t, `{"budget":0,"tokens":0,"escalations":0,"unspent":0,"recent":[],"confidences":[]}`, string(text))
	require.NoError(t, json.Unmarshal(text, new(Balance)))
}

// TestBalanceHostile: an invalid balance is refused with the name of the field, and changes nothing.
func TestBalanceHostile(t *testing.T) {
	for text, part := range map[string]string{
		`null`: "null", `[]`: "array", `"x"`: "string", `{"budget":0.07,"tokens":1,"escalated":1}`: "escalated",
		`{"budget":2}`: "budget", `{"budget":-0.1}`: "budget", `{"budget":"0.07"}`: "budget",
		`{"tokens":-1}`: "tokens", `{"tokens":4503599627370497}`: "tokens", `{"tokens":1.5}`: "tokens",
		`{"tokens":1e30}`: "tokens", `{"escalations":-1}`: "escalations",
		`{"escalations":9007199254740992}`: "escalations",
		`{"confidences":[0.5,1.5]}`:        "confidences[1]", `{"confidences":[-1]}`: "confidences[0]",
		`{"confidences":[1e39]}`: "confidences", `{"confidences":{"0":1}}`: "confidences",
		`{"confidences":[` + strings.Repeat("0,", maxConfidences) + `0]}`: "1025",
		`{"recent":[{"tokens":1},{"tokens":-1}]}`:                         "2^52",
		`{"recent":[{"escalations":9007199254740992}]}`:                   "2^52",
		`{"unspent":101}`: "unspent", `{"unspent":-1e16}`: "unspent",
		`{"recent":[{"tokens":1,"asks":1}]}`:                      "asks",
		`{"recent":[{}` + strings.Repeat(",{}", maxWindow) + `]}`: "101",
		`{"budget":0.07,"threshold":0.1}`:                         "threshold",
	} {
		var b Balance
		b.Add(Answer{Tokens: 3, Confidences: []float32{0.5}})
		before := b.copyState()
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &b), part, text)
		assert.Equal(t, before, b.copyState())
	}
}

// TestBalanceAtLimits: the greatest possible values are read.
func TestBalanceAtLimits(t *testing.T) {
	for _, text := range []string{`{"budget":0}`,
		`{"budget":1,"tokens":4503599627370496,"escalations":4503599627370496}`,
		`{"confidences":[0,1` + strings.Repeat(",0", maxConfidences-2) + `]}`} {
		assert.NoError(t, json.Unmarshal([]byte(text), new(Balance)), text)
	}
}

// FuzzBalance: any balance that is read can be used for decisions, and is written as it was read.
func FuzzBalance(f *testing.F) {
	f.Add([]byte(`{"budget":0.07,"tokens":1000,"escalations":68,"confidences":[0.1,0.9]}`), uint64(0))
	f.Add([]byte(`{"budget":1,"tokens":0,"escalations":4503599627370496,"confidences":[]}`), uint64(1)<<33)
	f.Add([]byte(`{}`), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, text []byte, path uint64) {
		var b, again Balance
		if json.Unmarshal(text, &b) != nil {
			return
		}
		written, err := json.Marshal(&b)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(written, &again))
		require.Equal(t, b.Total(), again.Total())
		budget := b.Total().Budget
		if budget == 0 {
			budget = 0.5
		}
		r, err := New(Options{Policy: Margin, Budget: budget, Balance: &b})
		require.NoError(t, err)
		_, _, threshold := r.Explain(path, 0, headOf(0.5, 0.5))
		require.True(t, threshold >= 0 && threshold <= everything, "%v", threshold)
		r.Add(Answer{Tokens: 1, Escalations: 1, Confidences: []float32{0.5}})
	})
}

// TestBalanceShared: concurrent routers and answers share a balance, and a balance with another budget is refused.
func TestBalanceShared(t *testing.T) {
	var b Balance
	one, err := New(Options{Policy: Margin, Budget: 0.1, Balance: &b})
	require.NoError(t, err)
	two, err := New(Options{Policy: Entropy, Budget: 0.1, Balance: &b})
	require.NoError(t, err)
	var running sync.WaitGroup
	for _, r := range []*Router{one, two.On(here{}), one.Begin()} {
		running.Go(func() {
			for range 100 {
				r.Begin().Decide(0, 0, headOf(0.5, 0.5))
				r.Add(Answer{Tokens: 10, Escalations: 1, Confidences: []float32{0.5, 0.25}})
				sum := b.Total()
				assert.Equal(t, sum.Tokens, 10*sum.Escalations, "a part of an answer")
				assert.GreaterOrEqual(t, b.Clone().Total().Tokens, sum.Tokens)
				_, err := json.Marshal(&b)
				assert.NoError(t, err)
			}
		})
	}
	running.Wait()
	assert.Equal(t, Total{0.1, 3000, 300}, b.Total())
	assert.Same(t, &b, one.Balance())
	_, err = New(Options{Policy: Margin, Budget: 0.2, Balance: &b})
	assert.ErrorContains(t, err, "of a budget of 0.1, not of 0.2")
	for _, o := range []Options{{Policy: Margin}, {Policy: Never, Budget: 0.1}, {Policy: Always, Budget: 0.1}} {
		r, err := New(o)
		require.NoError(t, err)
		assert.Nil(t, r.Balance(), "%+v", o)
		assert.Same(t, r, r.Begin())
		assert.Zero(t, r.Spent([]float32{0.5}, 3))
		r.Add(Answer{Tokens: 1})
	}
	private, err := New(Options{Policy: Margin, Budget: 0.2})
	require.NoError(t, err)
	assert.Equal(t, Total{Budget: 0.2}, private.Balance().Total())
}

// TestUnlike: a threshold holds as long as what was seen is like the calibration. Then verification takes over within
// the budget, and the threshold comes back once later answers are like it again.
func TestUnlike(t *testing.T) {
	net, err := NewNet([]Layer{{In: 2, Out: 1, Weight: []float32{1, 1}, Bias: []float32{0}}}, false)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	sample := func(n int, power float64) (all []float32) {
		for range n {
			all = append(all, float32(math.Pow(rng.Float64(), power)))
		}
		return all
	}
	r, err := New(Options{
		Policy: Learned, Threshold: new(1e-9), Net: net, Calibration: Calibration(sample(3000, 1)), Fallback: 0.07,
	})
	require.NoError(t, err)
	add := func(n int, power float64) *Router {
		a := r.Begin().Spent(sample(n, power), n)
		assert.Equal(t, n, a.Tokens)
		r.Add(a)
		return r.Begin()
	}
	assert.False(t, add(199, 4).Unlike(), "too few")
	assert.Equal(t, 1e-9, r.Begin().Threshold())
	begun := add(1, 4)
	assert.True(t, begun.Unlike())
	assert.True(t, begun.Verifies())
	assert.InDelta(t, 0.53, begun.Margin(0), 0.01)
	assert.True(t, math.IsInf(begun.Margin(pathCount{0, 100}.packPath()), 1), "within the budget")
	assert.True(t, add(100, 1).Unlike(), "half of them are")
	again := add(300, 1)
	assert.False(t, again.Unlike())
	assert.False(t, again.Verifies())
	assert.Equal(t, 1e-9, again.Threshold())
	for range 200 { // the same distribution, and a little harder questions
		require.False(t, add(200, 1).Unlike())
		require.False(t, add(200, 1.3).Unlike())
	}
	dial, err := New(Options{Policy: Verify, Threshold: new(math.Exp(-1)), Fallback: 0.1, Calibration: []float32{0.5}})
	require.NoError(t, err)
	dial = dial.Begin()
	assert.True(t, dial.Verifies())
	assert.InDelta(t, 1, dial.Margin(pathCount{0, 100}.packPath()), 1e-9, "without a budget")
	_, asks, _ := dial.Decide(pathCount{0, 100}.packPath(), 0, &backend.Output{Top: []backend.Candidate{{}, {}}})
	assert.False(t, asks, "where the large model cannot verify, the budget holds")
	for name, o := range map[string]Options{
		"verify, without a threshold":  {Policy: Verify, Fallback: 0.1, Calibration: []float32{0.5}},
		"learned, without a threshold": {Policy: Learned, Net: net, Fallback: 0.1, Calibration: []float32{0.5}},
		"without a calibration":        {Policy: Learned, Net: net, Fallback: 0.1, Threshold: new(0.5)},
		"a fallback above 1": {Policy: Learned, Net: net, Fallback: 2, Threshold: new(0.5),
			Calibration: []float32{0.5}},
	} {
		_, err := New(o)
		assert.Error(t, err, name)
	}
}
