package gpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"
)

// recurrent compares a layer with a recurrent state over the n rows of a pass, at the beginning of a text, with the
// rule in float64. The type of the store depends on n.
func (x *fixture) recurrent(kind gguf.Type, n int) {
	const in = 256
	layer, f := x.deltaOf(kind, in, 20)
	c, keys := f.c, []gguf.Type{gguf.F16, gguf.F32}[n%2]
	f.keys = keys
	h, out := x.tensorOf(n, in), x.tensorOf(n, c.ValueWidth())
	g, fn := x.normWith(in, c.Epsilon)
	var rows [][]float64
	for i := range n {
		rows = append(rows, fn(h.line(i)))
	}
	want := f.run(rows)
	s := x.kv(backend.KVConfig{Slots: n, Heads: 1, KVHeads: 1, HeadSize: 8, Type: keys, Delta: c})
	p := x.begin(s, rowsAt(n))
	p.Delta(out, h, g, layer, 1)
	require.NoError(x.t, p.End(x.t.Context()))
	for i := range n {
		x.near(want[i], out.line(i), 1e-4, "recurrent layer of %s, %s, row %d of %d", kind, keys, i, n)
	}
}

// deltaOf returns a layer with a recurrent state of in columns, of which a value head has so many, with its formula.
func (x *fixture) deltaOf(kind gguf.Type, in, valueSize int) (backend.Delta, *deltaFormula) {
	c := backend.DeltaConfig{
		Layers: 2, KeyHeads: 2, ValueHeads: 4, KeySize: 12, ValueSize: valueSize, Kernel: 3, Epsilon: 0.1,
	}
	of := backend.DeltaWeights{
		Conv: stored(x.floats(c.Kernel*c.Channels()), c.Kernel, c.Channels()), Step: stored(x.floats(4), 4),
		A: stored([]float32{-0.1, -1, -0.3, -2}, 4), Norm: stored(x.floats(c.ValueSize), c.ValueSize),
	}
	f := &deltaFormula{c: c, w: of}
	for i, m := range []struct {
		to   *backend.Weight
		outs int
	}{{&of.Mixed, c.Channels()}, {&of.Gate, c.ValueWidth()}, {&of.Beta, c.ValueHeads}, {&of.Alpha, c.ValueHeads}} {
		*m.to, f.project[i] = x.weightWith(kind, m.outs, in, false)
	}
	layer, err := x.d.LoadDelta(c, of)
	require.NoError(x.t, err)
	return layer, f
}

// deltaFormula is a layer with a recurrent state, in float64. What a store holds of tokens is of a type of keys.
type deltaFormula struct {
	c       backend.DeltaConfig
	w       backend.DeltaWeights
	keys    gguf.Type
	project [4]func([]float64) []float64
}

func (f *deltaFormula) stored(v float64) float64 {
	if f.keys == gguf.F32 {
		return v
	}
	return float64(gguf.F16ToF32(gguf.F32ToF16(float32(v))))
}

func floatsOf(t gguf.Tensor) []float32 { return sliceAs[float32](t.Data) }

// run returns the results for all tokens of a text.
func (f *deltaFormula) run(text [][]float64) (out [][]float64) {
	c, taps := f.c, floatsOf(f.w.Conv)
	states := make([][]float64, c.ValueHeads) // [key, value]
	for i := range states {
		states[i] = make([]float64, c.KeySize*c.ValueSize)
	}
	var inputs [][]float64
	for t, h := range text {
		own := f.project[0](h)
		inputs = append(inputs, own)
		mixed := make([]float64, c.Channels())
		for i := range mixed {
			for tap := range c.Kernel {
				if from := t - c.Kernel + 1 + tap; from >= 0 {
					mixed[i] += float64(taps[i*c.Kernel+tap]) * inputs[from][i]
				}
			}
			mixed[i] /= 1 + math.Exp(-mixed[i])
		}
		for i, v := range own {
			own[i] = f.stored(v)
		}
		var row []float64
		for head := range c.ValueHeads {
			row = append(row, f.head(states[head], mixed, h, head)...)
		}
		out = append(out, row)
	}
	return out
}

// head applies the rule to a value head of a token.
func (f *deltaFormula) head(state, mixed, h []float64, head int) []float64 {
	c, keys := f.c, f.c.KeyHeads*f.c.KeySize
	at := head % c.KeyHeads * c.KeySize
	q, k := f.unit(mixed[at:at+c.KeySize]), f.unit(mixed[keys+at:keys+at+c.KeySize])
	for i := range k {
		k[i] = f.stored(k[i])
	}
	v := mixed[2*keys+head*c.ValueSize:][:c.ValueSize]
	beta, alpha := 1/(1+math.Exp(-f.project[2](h)[head])), f.project[3](h)[head]
	step := math.Log1p(math.Exp(alpha + float64(floatsOf(f.w.Step)[head])))
	decay := math.Exp(float64(floatsOf(f.w.A)[head]) * step)
	o, squares := make([]float64, c.ValueSize), 0.0
	for j := range o {
		found := 0.0
		for i := range k {
			state[i*c.ValueSize+j] *= decay
			found += state[i*c.ValueSize+j] * k[i]
		}
		err := f.stored(beta * (v[j] - found))
		for i := range k {
			state[i*c.ValueSize+j] += k[i] * err
			o[j] += state[i*c.ValueSize+j] * q[i] / math.Sqrt(float64(c.KeySize))
		}
		squares += o[j] * o[j]
	}
	gate := f.project[1](h)[head*c.ValueSize:]
	for j := range o {
		o[j] *= float64(floatsOf(f.w.Norm)[j]) / math.Sqrt(squares/float64(len(o))+float64(c.Epsilon))
		o[j] *= gate[j] / (1 + math.Exp(-gate[j]))
	}
	return o
}

func (f *deltaFormula) unit(v []float64) []float64 {
	sum, u := float64(f.c.Epsilon), make([]float64, len(v))
	for _, e := range v {
		sum += e * e
	}
	for i, e := range v {
		u[i] = e / math.Sqrt(sum)
	}
	return u
}

// TestRuleDecays: a row adds up the decays of its pass after the last token of its chunk that an earlier pass computed,
// also if a token before that is computed again.
func TestRuleDecays(t *testing.T) {
	before, again, own := new(recurrent.Update[uint32]), new(recurrent.Update[uint32]), new(recurrent.Update[uint32])
	before.Memory, again.Memory, own.Memory = 7, 8, 9
	var plan rulePlan
	plan.fill(backend.DeltaConfig{Kernel: 1}, []plannedStep{
		{Row: 0, Update: again}, {Row: 1, Update: own, Path: []*recurrent.Update[uint32]{again, before}},
	})
	assert.Equal(t, []kernels.ConvRow{
		{Into: 8, Before: kernels.NoState, Decays: 1}, {Into: 9, Before: 7, Decay: 1, Decays: 1},
	}, plan.rows)
	assert.Equal(t, []uint32{0, 1}, plan.decaying)
}

// TestNumbers: numbers are those that are free, the lowest first, and their memory grows by a quarter at least.
func TestNumbers(t *testing.T) {
	n := numbers{room: 8}
	for i := range uint32(8) {
		assert.Equal(t, i, n.take())
	}
	assert.Equal(t, 8, n.wantedRoom())
	n.give(5)
	n.give(2)
	assert.Equal(t, uint32(2), n.take())
	assert.Equal(t, uint32(5), n.take())
	assert.Equal(t, uint32(8), n.take())
	assert.Equal(t, 10, n.wantedRoom())
}
