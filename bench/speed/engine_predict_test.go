package speed

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestPredicted: a generation on a known GPU is reported with the prediction of metal-plan, on another GPU with the
// reason why there is none. A prompt has neither.
func TestPredicted(t *testing.T) {
	racing.Spare(t)
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	shape := synth.Tiny(recipe, 1)
	shape.Tied = true
	for _, c := range []struct {
		gpu   string
		kv    engine.KVType
		depth int
	}{{"Apple M4 Pro", engine.KVF16, 30}, {"Apple M1", engine.KVF32, 0}, {"", engine.KVF16, 0}} {
		m := tinyMatrix(t)
		m.Backends, m.gpu, m.KV, m.Depths = []engine.Backend{engine.Soft}, c.gpu, []engine.KVType{c.kv}, []int{c.depth}
		m.Prompts, m.Decodes = []int{3, 5}, []int{5}
		var all []Report
		err := m.Run(t.Context(), func(r Report) error { all = append(all, r); return nil })
		if errors.Is(err, metal.ErrNoDevice) {
			sharedtest.Missing(t, err)
		}
		require.NoError(t, err)
		require.Len(t, all, 3)
		assert.Nil(t, all[0].Predicted, "a prompt")
		p := all[2].Predicted
		require.NotNil(t, p)
		assert.InEpsilon(t, 1e6/all[2].GenerationTPS, p.MeasuredUS, 1e-9)
		g, known := metalplan.Called(c.gpu)
		if !known {
			assert.Equal(t, "software Metal (fast) is not among the GPUs that there are figures for", p.Why)
			assert.Nil(t, p.GPU)
			continue
		}
		n := max(8, c.depth) + 3
		plan, err := metalplan.Predict(t.Context(), g, shape, n)
		require.NoError(t, err)
		assert.Equal(t, n, p.Context)
		assert.Equal(t, g, *p.GPU)
		assert.Equal(t, metalplan.Assumed(), *p.Assumed)
		assert.InEpsilon(t, 1e6/p.TokenUS, p.GenerationTPS, 1e-9)
		if c.kv == engine.KVF16 {
			assert.InDelta(t, plan.Micros, p.TokenUS, 1e-6)
			assert.Equal(t, plan.Dispatches, p.Dispatches)
		} else {
			assert.Greater(t, p.TokenUS, plan.Micros, "keys and values are twice as many bytes")
		}
	}
}
