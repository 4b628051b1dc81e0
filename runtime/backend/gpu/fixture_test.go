package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// open opens a device on a Metal device, closed with the test.
func open(t testing.TB, o soft.Options) *Device {
	t.Helper()
	d, err := New(OpenMetal(t, o), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// fixture is a device with random inputs, and float64 arithmetic for comparison.
type fixture struct {
	t       *testing.T
	r       *rand.Rand
	d       *Device
	variant soft.Variant
	equal   bool // products of matrices have operands of one type
}

// each runs f with the variants of the software device: with every access checked and memory that holds nothing yet,
// and with fast arithmetic and a different order of threads each time. The last time, without -short, products of
// matrices have operands of one type.
func each(t *testing.T, f func(x *fixture)) {
	eachOn(t, func(d metal.Device) metal.Device { return d }, f)
}

// eachOn is each with what wrap makes of the devices.
func eachOn(t *testing.T, wrap func(metal.Device) metal.Device, f func(x *fixture)) {
	run := func(t *testing.T, o soft.Options, equal bool) {
		dev := wrap(OpenMetal(t, o))
		if equal {
			dev = EqualOperands{dev}
		}
		d, err := New(dev, Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		f(&fixture{t: t, r: rand.New(rand.NewPCG(1, 2)), d: d, variant: o.Variant, equal: equal})
	}
	for _, o := range []soft.Options{
		{Variant: soft.Check, Seed: 6, PoisonBuffers: true},
		{Variant: soft.Fast, Seed: rand.Uint64N(1<<20) + 1},
	} {
		t.Run(fmt.Sprintf("%s/%d", o.Variant, o.Seed), func(t *testing.T) { run(t, o, false) })
	}
	if !testing.Short() {
		t.Run("equal", func(t *testing.T) { run(t, fastOptions(), true) })
	}
}

func (x *fixture) floats(n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(x.r.NormFloat64())
	}
	return f
}

// tensorOf returns a tensor of rows × cols random numbers.
func (x *fixture) tensorOf(rows, cols int) *tensor {
	t, err := x.d.NewTensor(rows, cols)
	require.NoError(x.t, err)
	v := t.(*tensor)
	require.NoError(x.t, v.allocateRows(x.d, rows))
	copy(v.all(), x.floats(rows*cols))
	return v
}

func (t *tensor) all() []float32       { return sliceAs[float32](t.values.Bytes())[:t.rows*t.cols] }
func (t *tensor) line(i int) []float32 { return t.all()[i*t.cols : (i+1)*t.cols] }
func stored(f []float32, shape ...int) gguf.Tensor {
	b := make([]byte, 0, 4*len(f))
	for _, v := range f {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return gguf.Tensor{Name: "t", Type: gguf.F32, Shape: shape, Data: b}
}

// matrix returns random blocks of a type, and the weights that they encode.
func (x *fixture) matrix(kind gguf.Type, out, in int) (gguf.Tensor, []float32) {
	elems, size := kind.Block()
	require.Zero(x.t, in%elems)
	data := make([]byte, out*in/elems*size)
	if elems == 1 {
		for i, v := range x.floats(out * in) {
			switch kind {
			case gguf.F32:
				binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
			case gguf.F16:
				binary.LittleEndian.PutUint16(data[2*i:], gguf.F32ToF16(v))
			case gguf.BF16:
				binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(v)>>16))
			}
		}
	} else {
		for i := range data {
			data[i] = byte(x.r.Uint32())
		}
		scales, std := scalesOf(kind)
		for b := data; len(b) > 0; b = b[size:] {
			for _, at := range scales {
				binary.LittleEndian.PutUint16(b[at:], gguf.F32ToF16(float32(std*(0.5+x.r.Float64()))))
			}
		}
	}
	w := make([]float32, out*in)
	kind.Dequantize(w, data)
	return gguf.Tensor{Name: "w", Type: kind, Shape: []int{in, out}, Data: data}, w
}

// scalesOf returns the places of the f16 scales in a block, and their approximate size for weights of 1/10.
func scalesOf(t gguf.Type) ([]int, float64) {
	switch t {
	case gguf.Q4_1, gguf.Q5_1:
		return []int{0, 2}, 0.01
	case gguf.Q4_K, gguf.Q5_K:
		return []int{0, 2}, 0.0003
	case gguf.Q6_K:
		return []int{208}, 0.0001
	case gguf.Q2_K:
		return []int{80, 82}, 0.01
	case gguf.Q3_K:
		return []int{108}, 0.002
	case gguf.Q8_0, gguf.IQ4_NL:
		return []int{0}, 0.0015
	case gguf.IQ4_XS:
		return []int{0}, 0.0002
	}
	return []int{0}, 0.02
}

// weightOf returns a random weight with a bias, and the same function in float64.
func (x *fixture) weightOf(kind gguf.Type, out, in int) (*weight, func(h []float64) []float64) {
	return x.weightWith(kind, out, in, true)
}

func (x *fixture) weightWith(kind gguf.Type, out, in int, biased bool) (*weight, func(h []float64) []float64) {
	m, w := x.matrix(kind, out, in)
	b, bias := make([]float32, out), (*gguf.Tensor)(nil)
	if biased {
		b = x.floats(out)
		bias = new(stored(b, out))
	}
	loaded, err := x.d.LoadWeight(m, bias)
	require.NoError(x.t, err)
	return loaded.(*weight), func(h []float64) []float64 {
		y := make([]float64, out)
		for o := range y {
			y[o] = float64(b[o])
			for i, v := range h {
				y[o] += float64(w[o*in+i]) * v
			}
		}
		return y
	}
}

// normOf is an RMSNorm of random gains, and the function that it is in float64.
func (x *fixture) normOf(n int) (*norm, func(v []float32) []float64) { return x.normWith(n, 1e-3) }

func (x *fixture) normWith(n int, eps float32) (*norm, func(v []float32) []float64) {
	g := x.floats(n)
	loaded, err := x.d.LoadNorm(stored(g, n), eps)
	require.NoError(x.t, err)
	return loaded.(*norm), func(v []float32) []float64 {
		sum := 0.0
		for _, e := range v {
			sum += float64(e) * float64(e)
		}
		h := make([]float64, n)
		for i, e := range v {
			h[i] = float64(g[i]) * float64(e) / math.Sqrt(sum/float64(n)+float64(eps))
		}
		return h
	}
}

// near compares by the error relative to the length of want.
func (x *fixture) near(want []float64, got []float32, bar float64, what string, args ...any) {
	x.t.Helper()
	require.Len(x.t, got, len(want))
	diff, norm := 0.0, 0.0
	for i, w := range want {
		diff += (w - float64(got[i])) * (w - float64(got[i]))
		norm += w * w
	}
	require.Less(x.t, math.Sqrt(diff/norm), bar, fmt.Sprintf(what, args...))
}

func widened(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, e := range v {
		w[i] = float64(e)
	}
	return w
}

// rowsAt returns n rows in the slots from 0, each of which sees the rows before it.
func rowsAt(n int) []backend.Row {
	rows := make([]backend.Row, n)
	for i := range rows {
		rows[i] = backend.Row{Pos: int32(i), Slot: int32(i), See: []backend.Span{{From: 0, To: int32(i + 1)}}}
	}
	return rows
}

func (x *fixture) kv(c backend.KVConfig) *kv {
	c.Layers, c.RopeBase = 2, 1000
	s, err := x.d.NewKV(c)
	require.NoError(x.t, err)
	return s.(*kv)
}

// begin starts a pass over rows.
func (x *fixture) begin(s *kv, rows []backend.Row) *pass { return x.d.Begin(s, rows).(*pass) }

// turned rotates one head: the pair (i, i+Dh/2) by pos·base^(-2i/Dh).
func turned(x []float64, pos int32, base float64) []float64 {
	half, y := len(x)/2, make([]float64, len(x))
	for i := range half {
		sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(i)/float64(len(x))))
		y[i], y[i+half] = x[i]*cos-x[i+half]*sin, x[i]*sin+x[i+half]*cos
	}
	return y
}

// at returns the elements of a head in a slot as the store of a layer holds them; v asks for the value.
func (s *kv) at(layer int, slot int32, head int, v bool) []float64 {
	b := s.layers[layer].Bytes()
	i := head*s.c.Slots + int(slot)
	if v {
		i += s.c.KVHeads * s.c.Slots
	}
	b = b[i*s.rowLen : (i+1)*s.rowLen]
	out := make([]float64, s.c.HeadSize)
	for j := range out {
		if s.c.Type == gguf.F32 {
			out[j] = float64(sliceAs[float32](b)[j])
		} else {
			out[j] = float64(gguf.F16ToF32(sliceAs[uint16](b)[j]))
		}
	}
	return out
}

// Frames returns the number of frames, of passes and spare ones.
func (d *Device) Frames() int { return len(d.frames) }

// Parts returns the buffers of the splits of attention: results, and their sums.
func (d *Device) Parts() (parts, ml metal.Buffer) { return d.scratch.parts.Buffer, d.scratch.ml.Buffer }

// Spare returns the number of unused frames.
func (d *Device) Spare() int { return len(d.spare) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func fastOptions() soft.Options { return soft.Options{Variant: soft.Fast, Seed: 1} }

// SetMaxWork sets how many multiplications a command buffer may have.
func (d *Device) SetMaxWork(n int) { d.maxWork = n }
