package router

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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
	return Layer{
		In: in, Out: out,
		Weight: randoms(r, in*out, 1/math.Sqrt(float64(in)), 0), Bias: randoms(r, out, 0.5, 0),
	}
}

func write(t *testing.T, n *Net) []byte {
	var b bytes.Buffer
	require.NoError(t, n.Write(gguf.NewWriter(&b)))
	return b.Bytes()
}

// TestNetFormula compares with the formula for one hidden layer, before and after a file.
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

// TestHeadFeatures: margin and certainty come after the hidden state.
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

// formula evaluates a router by its definition in float64: linear, ReLU, and so on, then linear to one output and
// sigmoid.
func formula(layers []Layer, x []float32) float64 {
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
			if k < len(layers)-1 {
				y[o] = max(0, y[o])
			}
		}
		h = y
	}
	return 1 / (1 + math.Exp(-h[0]))
}

// TestFormula: CITER's three-layer head is a router of linear layers and ReLU.
func TestFormula(t *testing.T) {
	const d, h1, h2 = 96, 64, 32
	r := rand.New(rand.NewPCG(3, 4))
	layers := []Layer{randomLayer(r, d, h1), randomLayer(r, h1, h2), randomLayer(r, h2, 1)}
	n, err := NewNet(layers, false)
	require.NoError(t, err)
	f, err := gguf.Parse(write(t, n))
	require.NoError(t, err)
	n, err = ReadNet(f)
	require.NoError(t, err)
	low, high := 1.0, 0.0
	for range 500 {
		x := randoms(r, d, 16, 0)
		want := formula(layers, x)
		assert.InDelta(t, want, n.Confidence(&backend.Output{Hidden: x}), 2e-6)
		low, high = min(low, want), max(high, want)
	}
	assert.Less(t, low, 0.2, "the inputs must reach both sides")
	assert.Greater(t, high, 0.8)
}

// aTensor is a tensor of a router file in which all values equal value.
type aTensor struct {
	name  string
	kind  gguf.Type
	value float64
	shape []int
}

// file writes a GGUF file of the given tensors.
func file(t *testing.T, tensors []aTensor, put func(w *gguf.Writer)) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	put(w)
	for _, x := range tensors {
		w.Declare(x.name, x.kind, x.shape...)
	}
	for _, x := range tensors {
		n := 1
		for _, s := range x.shape {
			n *= s
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(x.value)
		}
		require.NoError(t, w.WriteFloats(data))
	}
	require.NoError(t, w.Close())
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// meta writes the metadata of a router file without one key.
func meta(without string, values map[string]any) func(w *gguf.Writer) {
	return func(w *gguf.Writer) {
		all := map[string]any{
			"general.architecture":  architecture,
			architecture + keyInput: uint32(4), architecture + keyHidden: uint32(3),
			architecture + keyFeatures: false,
		}
		maps.Copy(all, values)
		delete(all, without)
		for k, v := range all {
			switch v := v.(type) {
			case string:
				gguf.Put(w, k, v)
			case uint32:
				gguf.Put(w, k, v)
			case bool:
				gguf.Put(w, k, v)
			}
		}
	}
}

// goodTensors are the tensors of a router of 4 inputs and 3 hidden units.
func goodTensors() []aTensor {
	return []aTensor{
		{"router.0.weight", gguf.F32, 1, []int{4, 3}}, {"router.0.bias", gguf.F32, 1, []int{3}},
		{"router.2.weight", gguf.F32, 1, []int{3, 1}}, {"router.2.bias", gguf.F32, 1, []int{1}},
	}
}

// filled returns good tensors of which one has another value.
func filled(i int, v float64) []aTensor {
	all := goodTensors()
	all[i].value = v
	return all
}

// refusedNet is the metadata and the tensors of an inconsistent file, with what the error says.
type refusedNet struct {
	put     func(w *gguf.Writer)
	tensors []aTensor
	want    string
}

func refusedNets() map[string]refusedNet {
	good, plain := goodTensors(), meta("", nil)
	change := func(i int, c aTensor) []aTensor {
		all := goodTensors()
		all[i] = c
		return all
	}
	says := func(key string, v any) func(w *gguf.Writer) { return meta("", map[string]any{key: v}) }
	return map[string]refusedNet{
		"another file":     {says("general.architecture", "qwen2"), good, "not a router"},
		"no architecture":  {meta("general.architecture", nil), good, "not a router"},
		"dimension":        {says(architecture+keyInput, uint32(5)), good, "embedding_length is 5, the tensors say 4"},
		"no dimension":     {meta(architecture+keyInput, nil), good, architecture + keyInput + ": "},
		"hidden":           {says(architecture+keyHidden, uint32(2)), good, "hidden_length is 2, the tensors say 3"},
		"no hidden":        {meta(architecture+keyHidden, nil), good, architecture + keyHidden + ": "},
		"features":         {says(architecture+keyFeatures, true), good, "embedding_length is 4, the tensors say 2"},
		"features, a word": {says(architecture+keyFeatures, "yes"), good, architecture + keyFeatures},
		"no tensors":       {plain, nil, "without layers"},
		"no bias":          {plain, good[:3], "router.2.bias: absent"},
		"one more tensor": {plain, append(good[:4:4], aTensor{"x", gguf.F32, 1, []int{1}}),
			"has 4 tensors, the file has 5"},
		"a gap": {plain, append(good[:2:2],
			aTensor{"router.4.weight", gguf.F32, 1, []int{3, 1}}, aTensor{"router.4.bias", gguf.F32, 1, []int{1}}),
			"gives one number, not 3"},
		"misfit": {plain, change(2, aTensor{"router.2.weight", gguf.F32, 1, []int{2, 1}}),
			"takes 2 inputs, layer 0 gives 3"},
		"bias length":   {plain, change(1, aTensor{"router.0.bias", gguf.F32, 1, []int{4}}), "4 biases"},
		"two outputs":   {plain, good[:2], "gives one number, not 3"},
		"vector weight": {plain, change(0, aTensor{"router.0.weight", gguf.F32, 1, []int{12}}), "1 dimensions"},
		"cube weight":   {plain, change(0, aTensor{"router.0.weight", gguf.F32, 1, []int{4, 3, 1}}), "3 dimensions"},
		"half floats":   {plain, change(1, aTensor{"router.0.bias", gguf.F16, 1, []int{3}}), "router.0.bias is F16"},
		"half weights": {plain, change(2, aTensor{"router.2.weight", gguf.F16, 1, []int{3, 1}}),
			"router.2.weight is F16"},
		"infinite":       {plain, filled(0, math.Inf(1)), "router.0.weight[0]"},
		"infinite below": {plain, filled(1, math.Inf(-1)), "router.0.bias[0]"},
		"not a number":   {plain, filled(3, math.NaN()), "router.2.bias[0]"},
	}
}

// TestReadNetRefuses: an inconsistent file is refused with a reason, never with a panic.
func TestReadNetRefuses(t *testing.T) {
	good, plain := goodTensors(), meta("", nil)
	_, err := ReadNet(file(t, good, plain))
	require.NoError(t, err)
	n, err := ReadNet(file(t, good, meta(architecture+keyFeatures, nil)))
	require.NoError(t, err)
	assert.False(t, n.HeadFeatures, "the default")
	for name, c := range refusedNets() {
		t.Run(name, func(t *testing.T) {
			_, err := Read(file(t, c.tensors, c.put))
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err = Read(file(t, filled(2, math.NaN()), plain))
	assert.ErrorIs(t, err, gguf.ErrNotFinite)
	_, err = ReadNet(file(t, good[:3], plain))
	assert.ErrorIs(t, err, gguf.ErrAbsent)
	_, err = ReadNet(file(t, nil, meta("general.architecture", nil)))
	assert.ErrorIs(t, err, ErrNotRouter)
}

// TestReadNetDeep: a file may have up to 16 layers.
func TestReadNetDeep(t *testing.T) {
	for n, ok := range map[int]bool{1: true, 16: true, 17: false} {
		var all []aTensor
		for i := range n {
			all = append(all, aTensor{fmt.Sprintf("router.%d.weight", 2*i), gguf.F32, 1, []int{1, 1}},
				aTensor{fmt.Sprintf("router.%d.bias", 2*i), gguf.F32, 1, []int{1}})
		}
		f, err := Read(file(t, all, meta("", map[string]any{architecture + keyInput: uint32(1),
			architecture + keyHidden: uint32(1)})))
		if !ok {
			require.ErrorContains(t, err, "a router of 16 layers has 32 tensors, the file has 34")
			continue
		}
		require.NoError(t, err)
		assert.Len(t, f.Net.Layers, n)
		want := 1 / (1 + math.Exp(-float64(n+2)))
		assert.InDelta(t, want, f.Net.Confidence(&backend.Output{Hidden: []float32{2}}), 1e-6,
			"2, plus 1 for each layer")
	}
}

// TestNewNetBounds: the dimensions of each layer are checked at their bounds.
func TestNewNetBounds(t *testing.T) {
	layer := func(in, out int) Layer {
		return Layer{In: in, Out: out, Weight: make([]float32, max(0, in*out)), Bias: make([]float32, max(0, out))}
	}
	short := func(l Layer, weights, biases int) Layer {
		l.Weight, l.Bias = make([]float32, weights), make([]float32, biases)
		return l
	}
	for name, c := range map[string]struct {
		layers   []Layer
		features bool
		want     string // "" means valid
	}{
		"least":               {[]Layer{layer(1, 1)}, false, ""},
		"least with features": {[]Layer{layer(3, 1)}, true, ""},
		"only features":       {[]Layer{layer(2, 1)}, true, "2 inputs has no room"},
		"widest":              {[]Layer{layer(1<<16, 1)}, false, ""},
		"too wide":            {[]Layer{layer(1<<16+1, 1)}, false, "router layer 0: 65537 to 1"},
		"widest inside":       {[]Layer{layer(1, 1<<16), layer(1<<16, 1)}, false, ""},
		"too wide inside":     {[]Layer{layer(1, 1<<16+1), layer(1<<16+1, 1)}, false, "router layer 0: 1 to 65537"},
		"no inputs":           {[]Layer{layer(0, 1)}, false, "0 to 1, each has to be 1 to 65536"},
		"no outputs":          {[]Layer{layer(1, 0)}, false, "1 to 0, each has to be 1 to 65536"},
		"negative":            {[]Layer{layer(-1, -1)}, false, "-1 to -1"},
		"no layers":           {nil, false, "without layers"},
		"a weight too few":    {[]Layer{short(layer(2, 1), 1, 1)}, false, "1 weights and 1 biases for 2 to 1"},
		"a weight too many":   {[]Layer{short(layer(2, 1), 3, 1)}, false, "3 weights"},
		"a bias too few":      {[]Layer{short(layer(2, 1), 2, 0)}, false, "0 biases"},
		"a bias too many":     {[]Layer{short(layer(2, 1), 2, 2)}, false, "2 biases"},
		"the second is broken": {[]Layer{layer(2, 2), short(layer(2, 1), 2, 2)}, false,
			"router layer 1: 2 weights and 2 biases"},
		"misfit":      {[]Layer{layer(2, 3), layer(2, 1)}, false, "layer 1 takes 2 inputs, layer 0 gives 3"},
		"two numbers": {[]Layer{layer(2, 1), layer(1, 2)}, false, "not 2"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := NewNet(c.layers, c.features)
			if c.want != "" {
				assert.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			head := &backend.Output{Hidden: make([]float32, n.Dim())}
			assert.EqualValues(t, 0.5, n.Confidence(head))
		})
	}
}

// TestRandomNets: nets of any shape give the result of the formula, before and after writing and reading.
func TestRandomNets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var layers []Layer
		in, features := 3+r.IntN(6), r.IntN(2) == 0
		for dim := in; ; {
			out := 1 + r.IntN(9)
			if len(layers) == 3 || r.IntN(3) == 0 {
				out = 1
			}
			layers = append(layers, randomLayer(r, dim, out))
			if dim = out; out == 1 {
				break
			}
		}
		n, err := NewNet(layers, features)
		require.NoError(t, err)
		f, err := gguf.Parse(write(t, n))
		require.NoError(t, err)
		read, err := ReadNet(f)
		require.NoError(t, err)
		require.Equal(t, n, read)
		head := headOf(0.5, 0.3, 0.2)
		head.Hidden = randoms(r, n.Dim(), 2, 0)
		x := slices.Clone(head.Hidden)
		if features {
			require.Equal(t, in-2, n.Dim())
			x = append(x, headMargin(head), headCertainty(head))
		}
		require.InDelta(t, formula(layers, x), read.Confidence(head), 2e-6)
	}
}

// shortFile accepts n bytes.
type shortFile struct{ n int }

func (f *shortFile) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return f.n, errors.New("the disk is full")
	}
	f.n -= len(p)
	return len(p), nil
}

// TestWriteFails: a write error at any place is returned.
func TestWriteFails(t *testing.T) {
	r, other := rand.New(rand.NewPCG(7, 8)), rand.New(rand.NewPCG(7, 9))
	n, err := NewNet([]Layer{randomLayer(r, 40, 30), randomLayer(other, 30, 1)}, false)
	require.NoError(t, err)
	for room := range len(write(t, n)) {
		require.ErrorContains(t, n.Write(gguf.NewWriter(&shortFile{room})), "the disk is full", "%d bytes", room)
	}
}

// TestHash: networks with equal outputs have one hash.
func TestHash(t *testing.T) {
	net := func(w float32, features bool) *Net {
		return &Net{HeadFeatures: features,
			Layers: []Layer{{In: 1, Out: 1, Weight: []float32{w}, Bias: []float32{0}}}}
	}
	assert.Equal(t, net(1, false).Hash(), net(1, false).Hash())
	assert.NotEqual(t, net(1, false).Hash(), net(2, false).Hash())
	assert.NotEqual(t, net(1, false).Hash(), net(1, true).Hash())
	assert.Empty(t, (*Net)(nil).Hash())
}
