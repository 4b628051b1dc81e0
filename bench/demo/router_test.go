package demo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// router is the formula of [demo.Router], for the tests of the file.
type router struct {
	width      int
	w0, b0, w2 []float32
	b2         float32
}

func newRouter(t *testing.T, b []byte) router {
	t.Helper()
	f, err := gguf.Parse(b)
	require.NoError(t, err)
	floats := func(name string, shape ...int) []float32 {
		tensor, ok := f.Tensor(name)
		require.True(t, ok, name)
		require.Equal(t, gguf.F32, tensor.Type, name)
		require.Equal(t, shape, tensor.Shape, name)
		x := make([]float32, tensor.Elems())
		tensor.Type.Dequantize(x, tensor.Data)
		return x
	}
	const width, hidden = 128, 64
	return router{
		width: width,
		w0:    floats("router.0.weight", width, hidden), b0: floats("router.0.bias", hidden),
		w2: floats("router.2.weight", hidden, 1), b2: floats("router.2.bias", 1)[0],
	}
}

// confidence that the greedy token may stand.
func (r router) confidence(o backend.Output) float64 {
	z := r.b2
	for i, b := range r.b0 {
		sum := b
		for j, h := range o.Hidden {
			sum += r.w0[i*r.width+j] * h
		}
		z += r.w2[i] * max(0, sum)
	}
	return 1 / (1 + math.Exp(-float64(z)))
}

// verdict is a confidence, and whether the token was right.
type verdict struct {
	confidence float64
	right      bool
}

// auc returns the chance that a right token has a higher confidence than a wrong one; equal ones count half.
func auc(all []verdict) float64 {
	slices.SortFunc(all, func(a, b verdict) int {
		switch {
		case a.confidence < b.confidence:
			return -1
		case a.confidence > b.confidence:
			return 1
		}
		return 0
	})
	won, wrong, right := 0.0, 0.0, 0.0
	for i := 0; i < len(all); {
		r, w := 0.0, 0.0 // of equal confidence
		for c := all[i].confidence; i < len(all) && all[i].confidence == c; i++ {
			if all[i].right {
				r++
			} else {
				w++
			}
		}
		won += r * (wrong + w/2)
		wrong, right = wrong+w, right+r
	}
	return won / (wrong * right)
}

// calibrationError returns |mean confidence - share right|, averaged over ten bins of equal width by their size.
func calibrationError(all []verdict) float64 {
	var gap [10]float64
	for _, v := range all {
		b := min(int(v.confidence*10), 9)
		gap[b] += v.confidence
		if v.right {
			gap[b]--
		}
	}
	sum := 0.0
	for _, g := range gap {
		sum += math.Abs(g)
	}
	return sum / float64(len(all))
}

func TestMeasures(t *testing.T) {
	all := []verdict{{0.9, true}, {0.8, true}, {0.8, false}, {0.1, false}}
	assert.InDelta(t, 3.5/4, auc(slices.Clone(all)), 1e-9)
	assert.InDelta(t, (0.1+0.6+0.1)/4, calibrationError(all), 1e-9)
	low, high := wilson(9, 10)
	assert.InDelta(t, 0.596, low, 1e-3)
	assert.InDelta(t, 0.982, high, 1e-3)
}

// TestRouterFile: whoever loads a router learns from the file what it takes and which model it belongs to.
func TestRouterFile(t *testing.T) {
	router, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	model, err := gguf.Parse(demo.Small())
	require.NoError(t, err)
	for key, want := range map[string]string{"general.architecture": "pilotfish-router", "pilotfish-router.input": "hidden"} {
		got, err := router.String(key)
		require.NoError(t, err)
		assert.Equal(t, want, got, key)
	}
	belongs, err := router.String("general.name")
	require.NoError(t, err)
	name, err := model.String("general.name")
	require.NoError(t, err)
	assert.Equal(t, name, belongs)
	takes, err := router.Int("pilotfish-router.embedding_length")
	require.NoError(t, err)
	width, err := model.Int("qwen2.embedding_length")
	require.NoError(t, err)
	assert.Equal(t, width, takes)
	hidden, err := router.Int("pilotfish-router.hidden_length")
	require.NoError(t, err)
	assert.EqualValues(t, 64, hidden)
}
