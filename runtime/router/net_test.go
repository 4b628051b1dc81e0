package router

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

func randoms(r *rand.Rand, n int, scale, shift float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()*scale + shift)
	}
	return x
}

func randomLayer(r *rand.Rand, in, out int) Layer {
	return Layer{In: in, Out: out, Weight: randoms(r, in*out, 1/math.Sqrt(float64(in)), 0), Bias: randoms(r, out, 0.5, 0)}
}

func write(t *testing.T, n *Net) []byte {
	var b bytes.Buffer
	require.NoError(t, n.Write(gguf.NewWriter(&b)))
	return b.Bytes()
}

// TestNetFormula compares with the formula for one hidden layer, written out, and after a way through a file.
func TestNetFormula(t *testing.T) {
	n, err := NewNet([]Layer{
		{In: 2, Out: 2, Weight: []float32{1, 2, -1, 1}, Bias: []float32{0.5, 0}},
		{In: 2, Out: 1, Weight: []float32{2, 3}, Bias: []float32{-1}},
	}, false)
	require.NoError(t, err)
	f, err := gguf.Parse(write(t, n))
	require.NoError(t, err)
	read, err := ReadNet(f)
	require.NoError(t, err)
	assert.Equal(t, n, read)
	for _, x := range [][]float32{{1, 1}, {0, 0}, {-3, 1}, {2, -5}} {
		a, b := max(0, float64(x[0]+2*x[1])+0.5), max(0, float64(-x[0]+x[1]))
		want := 1 / (1 + math.Exp(-(2*a + 3*b - 1)))
		r, err := New(Options{Policy: Learned, Net: read})
		require.NoError(t, err)
		assert.InDelta(t, want, r.Confidence(0, &backend.Output{Hidden: x}), 1e-6)
	}
}

// TestHeadFeatures: margin and certainty follow the hidden state.
func TestHeadFeatures(t *testing.T) {
	n, err := NewNet([]Layer{{In: 3, Out: 1, Weight: []float32{1, 10, 100}, Bias: []float32{-50}}}, true)
	require.NoError(t, err)
	f, err := gguf.Parse(write(t, n))
	require.NoError(t, err)
	read, err := ReadNet(f)
	require.NoError(t, err)
	head := headOf(0.7, 0.2, 0.1)
	head.Hidden = []float32{0.25}
	z := 0.25 + 10*0.5 + 100*math.Exp(-float64(head.Entropy)) - 50
	assert.InDelta(t, 1/(1+math.Exp(-z)), read.Confidence(head), 1e-5)
	assert.Panics(t, func() { read.Confidence(&backend.Output{Hidden: make([]float32, 3)}) })
}

// citer is a router of CITER's form, evaluated as it is written, in float64: linear, batch normalisation, ReLU, twice,
// then linear to one and sigmoid.
func citer(layers []Layer, norms []BatchNorm, x []float32) float64 {
	h := make([]float64, len(x))
	for i, v := range x {
		h[i] = float64(v)
	}
	for k, l := range layers {
		y := make([]float64, l.Out)
		for o := range y {
			y[o] = float64(l.Bias[o])
			for i, v := range h {
				y[o] += float64(l.Weight[o*l.In+i]) * v
			}
			if k < len(norms) {
				b := norms[k]
				y[o] = float64(b.Scale[o])*(y[o]-float64(b.Mean[o]))/math.Sqrt(float64(b.Var[o])+b.Eps) + float64(b.Shift[o])
				y[o] = max(0, y[o])
			}
		}
		h = y
	}
	return 1 / (1 + math.Exp(-h[0]))
}

// TestFoldBatchNorm: CITER's three-layer head with batch normalisation is a router of linear layers and ReLU.
func TestFoldBatchNorm(t *testing.T) {
	const d, h1, h2 = 96, 64, 32
	r := rand.New(rand.NewPCG(3, 4))
	layers := []Layer{randomLayer(r, d, h1), randomLayer(r, h1, h2), randomLayer(r, h2, 1)}
	var norms []BatchNorm
	var folded []Layer
	for _, l := range layers[:2] {
		b := BatchNorm{Scale: randoms(r, l.Out, 0.5, 1), Shift: randoms(r, l.Out, 0.3, 0), Mean: randoms(r, l.Out, 1, 0), Eps: 1e-5}
		for _, v := range randoms(r, l.Out, 1, 0) {
			b.Var = append(b.Var, v*v+0.1)
		}
		f, err := b.Fold(l)
		require.NoError(t, err)
		norms, folded = append(norms, b), append(folded, f)
	}
	n, err := NewNet(append(folded, layers[2]), false)
	require.NoError(t, err)
	f, err := gguf.Parse(write(t, n))
	require.NoError(t, err)
	n, err = ReadNet(f)
	require.NoError(t, err)
	low, high := 1.0, 0.0
	for range 500 {
		x := randoms(r, d, 2, 0)
		want := citer(layers, norms, x)
		assert.InDelta(t, want, n.Confidence(&backend.Output{Hidden: x}), 2e-6)
		low, high = min(low, want), max(high, want)
	}
	assert.Less(t, low, 0.2, "the inputs have to reach both sides")
	assert.Greater(t, high, 0.8)
	_, err = norms[0].Fold(layers[1])
	assert.Error(t, err)
}

// TestReadNetRefuses: a file that does not fit together is refused with a reason, never a panic.
func TestReadNetRefuses(t *testing.T) {
	type tensor struct {
		name  string
		kind  gguf.Type
		shape []int
	}
	good := []tensor{
		{"router.0.weight", gguf.F32, []int{4, 3}}, {"router.0.bias", gguf.F32, []int{3}},
		{"router.2.weight", gguf.F32, []int{3, 1}}, {"router.2.bias", gguf.F32, []int{1}},
	}
	change := func(i int, c tensor) []tensor {
		all := append([]tensor(nil), good...)
		all[i] = c
		return all
	}
	for name, c := range map[string]struct {
		arch    string
		dim     uint32
		hidden  uint32
		feature bool
		value   float32
		tensors []tensor
		want    string
	}{
		"another file":    {"qwen2", 4, 3, false, 1, good, "not a router"},
		"dimension":       {architecture, 5, 3, false, 1, good, "embedding_length is 5, the tensors say 4"},
		"hidden":          {architecture, 4, 2, false, 1, good, "hidden_length is 2, the tensors say 3"},
		"features":        {architecture, 4, 3, true, 1, good, "embedding_length is 4, the tensors say 2"},
		"no tensors":      {architecture, 4, 3, false, 1, nil, "without layers"},
		"no bias":         {architecture, 4, 3, false, 1, good[:3], "router.2.bias: absent"},
		"one more tensor": {architecture, 4, 3, false, 1, append(good[:4:4], tensor{"x", gguf.F32, []int{1}}), "has 4 tensors, the file has 5"},
		"misfit":          {architecture, 4, 3, false, 1, change(2, tensor{"router.2.weight", gguf.F32, []int{2, 1}}), "takes 2 inputs, layer 0 gives 3"},
		"bias length":     {architecture, 4, 3, false, 1, change(1, tensor{"router.0.bias", gguf.F32, []int{4}}), "4 biases"},
		"two outputs":     {architecture, 4, 3, false, 1, good[:2], "gives one number, not 3"},
		"vector weight":   {architecture, 4, 3, false, 1, change(0, tensor{"router.0.weight", gguf.F32, []int{12}}), "1 dimensions"},
		"half floats":     {architecture, 4, 3, false, 1, change(1, tensor{"router.0.bias", gguf.F16, []int{3}}), "router.0.bias is F16"},
		"infinite":        {architecture, 4, 3, false, float32(math.Inf(1)), good, "router.0.weight[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := gguf.NewWriter(&b)
			gguf.Put(w, "general.architecture", c.arch)
			gguf.Put(w, keyInput, c.dim)
			gguf.Put(w, keyHidden, c.hidden)
			gguf.Put(w, keyFeatures, c.feature)
			for _, x := range c.tensors {
				w.Declare(x.name, x.kind, x.shape...)
			}
			for _, x := range c.tensors {
				n := 1
				for _, s := range x.shape {
					n *= s
				}
				data := make([]float32, n)
				for i := range data {
					data[i] = c.value
				}
				require.NoError(t, w.WriteFloats(data))
			}
			require.NoError(t, w.Close())
			f, err := gguf.Parse(b.Bytes())
			require.NoError(t, err)
			_, err = ReadNet(f)
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := NewNet([]Layer{{In: 2, Out: 1, Weight: make([]float32, 2), Bias: make([]float32, 1)}}, true)
	assert.ErrorContains(t, err, "no room")
}
