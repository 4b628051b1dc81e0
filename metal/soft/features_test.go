package soft

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

//go:embed testdata/features.metal
var featureSource string

// feature is a kernel of testdata/features.metal and the expected result of thread i of 192, with x[i] = i/4 - 20.
type feature struct {
	name      string
	want      func(i int, x []float32) float64
	bind      func(t *testing.T, d *Device, c metal.Commands)
	constants []metal.Constant
}

func sum32(x []float32, i int, f func(lane int, v float64) float64) (s float64) {
	for l := range 32 {
		s += f(l, float64(x[i/32*32+l]))
	}
	return s
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func clamp(v, low, high float64) float64 { return math.Min(math.Max(v, low), high) }

// features are the kernels of testdata/features.metal.
func features() []feature {
	return slices.Concat(featuresOfThread(), featuresOfBindings(), featuresOfThreadgroup())
}

// featuresOfThread are the types and functions of one thread, and those of its position.
func featuresOfThread() []feature {
	return []feature{
		{name: "positions", want: func(i int, _ []float32) float64 { return float64(i%64/32*1000 + i%64) }},
		{name: "places", want: func(i int, _ []float32) float64 { return float64(i/64 + 3) }},
		{name: "vectors", want: func(i int, x []float32) float64 {
			return (float64(x[i]) + 1) + 4 + 3 + 4*3 + 4 + 5 + 2
		}},
		{name: "halves", want: func(i int, x []float32) float64 { return float64(x[i])*0.5 + 1 + 3 + 2 }},
		{name: "bfloats", want: func(i int, x []float32) float64 {
			return bfloat(bfloat(float64(x[i])) + 1)
		}},
		{name: "integers", want: func(int, []float32) float64 { return -200 + 200 - 150 + (200*256 + 100) + 3 + 2 }},
		{name: "packed", want: func(_ int, x []float32) float64 {
			return float64(x[6]) + float64(x[7]) + float64(x[8]) + float64(x[9]) + float64(x[1]) + 24
		}},
		{name: "bits", want: func(i int, x []float32) float64 {
			e := math.Float32bits(x[i]) >> 23 & 255
			return float64(bits.OnesCount(uint(i))) + float64(e) + float64(bits.LeadingZeros32(uint32(i|1))) +
				float64(bits.TrailingZeros(uint(i|64))) - 1 + 48 + 3 + 2 + 1
		}},
		{name: "maths", want: func(i int, x []float32) float64 {
			a := math.Abs(float64(x[i])) + 0.5
			return 2*math.Exp(-a) + math.Exp2(a) + 2*math.Log(a) + math.Log2(a) + 2*math.Sqrt(a) + 1/math.Sqrt(a) +
				math.Sin(a) + math.Cos(a) + math.Tanh(a) + math.Pow(a, 1.5) + 2*math.Floor(a) + math.Ceil(a) +
				math.RoundToEven(a) + 2*a + 1 + 2 + math.Atan2(a, 2)
		}},
		{name: "choices", want: func(i int, x []float32) float64 {
			a := float64(x[i])
			sign := b2f(a > 0) - b2f(a < 0)
			return math.Min(a, 1) + math.Max(a, -1)*10 + clamp(a, -2, 2)*100 + 1 + b2f(a > 0) + 1.5 + math.Abs(a) +
				sign + b2f(a >= 0) + clamp(a, 0, 1) + float64(max(i, 5)) + float64(min(i, 7)) + 1 +
				b2f(a > 0) + b2f(a > 0) + math.Max(a, 1) + 1 + 2
		}},
		{name: "more_maths", want: func(i int, x []float32) float64 {
			a := float64(x[i])
			return 1 + a/4 + math.Max(a-1, 0) + clamp(a, -2, 2) + a - 12
		}},
		{name: "literals", want: func(int, []float32) float64 { return 1.0/3 + 16 + 1e-3 + 10 + 1.5 + 1 }},
		{name: "functions", want: func(i int, x []float32) float64 {
			return 2*float64(x[i]) + 6 + 7 + 9 + 1 + float64(x[i]) - float64(x[i/64*64+63-i%64]) + 4 + 3
		}},
		{name: "templated_7", want: func(i int, _ []float32) float64 { return float64((i%64+1)%7) + 7 }},
		{name: "templated_16", want: func(i int, _ []float32) float64 { return -float64((i%64+1)%16) - 16 }},
		{name: "templated_3", want: func(i int, _ []float32) float64 { return float64((i%64+1)%3) + 3 }},
	}
}

// featuresOfBindings are constants of functions and arguments.
func featuresOfBindings() []feature {
	return []feature{
		{name: "constants", want: func(i int, x []float32) float64 { return float64(x[i])*1.5 - 3 + 4 + 7 },
			constants: []metal.Constant{{Index: 0, Value: false}, {Index: 1, Value: int32(-3)},
				{Index: 2, Value: uint32(4)}, {Index: 30, Value: float32(1.5)}}},
		{name: "constants", want: func(i int, x []float32) float64 { return float64(x[i])*2 + 1 + 50 + 0.25 + 3 },
			constants: []metal.Constant{{Index: 0, Value: true}, {Index: 1, Value: int32(1)},
				{Index: 2, Value: uint32(0)}, {Index: 30, Value: float32(2)}, {Index: 31, Value: int32(50)}},
			bind: func(t *testing.T, d *Device, c metal.Commands) {
				set(c, 5, floats(t, d, 0.25), 0)
				set(c, 6, words(t, d, 3), 0)
			}},
		{name: "arguments", want: func(i int, x []float32) float64 { return 2*float64(x[i]) + 5 + 30 + 9 + 8 },
			bind: func(t *testing.T, d *Device, c metal.Commands) {
				f := math.Float32bits
				set(c, 2, words(t, d, 2, f(2), f(4), f(5), f(7), f(8)), 0)
				set(c, 3, words(t, d, f(10), f(20), f(30)), 0)
				set(c, 4, words(t, d, 1, 9), 0)
			}},
		{name: "dynamic", want: func(i int, x []float32) float64 { return float64(x[i/64*64+63-i%64]) + 100 },
			bind: func(_ *testing.T, _ *Device, c metal.Commands) {
				c.SetThreadgroupMemory(0, 256)
				c.SetThreadgroupMemory(3, 256)
			}},
		{name: "atomics", want: func(int, []float32) float64 { return 128 },
			bind: func(t *testing.T, d *Device, c metal.Commands) {
				for n := range 3 {
					set(c, 2+n, floats(t, d, make([]float32, 2)...), 0)
				}
			}},
	}
}

// featuresOfThreadgroup are functions of simdgroups, and matrices.
func featuresOfThreadgroup() []feature {
	at := func(x []float32, i, lane int) float64 { return float64(x[i/32*32+lane]) }
	return []feature{
		{name: "reductions", want: func(i int, x []float32) float64 {
			sum := sum32(x, i, func(_ int, v float64) float64 { return v })
			return sum + 2*at(x, i, 31) + 3*at(x, i, 0) + 2 + 31*16 + 1 + 16
		}},
		{name: "exchanges", want: func(i int, x []float32) float64 {
			l := i % 32
			down, up := l+3, l-4
			if down > 31 {
				down = l
			}
			if up < 0 {
				up = l
			}
			return at(x, i, 31-l) + 2*at(x, i, l^5) + 3*at(x, i, down) + 5*at(x, i, up) +
				7*at(x, i, 7) + 11*at(x, i, 0) + 13*at(x, i, (l+9)%32) + at(x, i, 2)
		}},
		{name: "scans", want: func(i int, _ []float32) float64 { l := i % 32; return float64(l*(l+1)/2 + 2000*l) }},
		{name: "votes", want: func(i int, _ []float32) float64 { return 11 + 100 + 10000 + 0.5*b2f(i%32 == 0) }},
		{name: "neighbours", want: func(i int, x []float32) float64 { return float64(x[i^1]) + 1 }},
		{name: "matrices", want: func(i int, x []float32) (s float64) {
			row, column := i%64/8, i%8
			for k := range 8 {
				s += float64(x[i/64*64+row*8+k]) * float64(column*8+k)
			}
			return 2 * (s + 1)
		}},
	}
}

// bfloat rounds to bfloat.
func bfloat(v float64) float64 {
	b := math.Float32bits(float32(v))
	return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
}

// TestFeatures: every feature of the language gives the right result, in every variant, with four schedules, on one OS
// thread and on four.
func TestFeatures(t *testing.T) {
	first := map[string][]byte{} // result of a kernel with the first schedule
	for _, o := range []Options{{}, {Threads: 4, Seed: 1}, {Threads: 1, Seed: 2}, {Threads: 2, Seed: 3},
		{Variant: Check}, {Variant: Check, Seed: 5}} {
		t.Run(fmt.Sprintf("%s,seed=%d,threads=%d", o.Variant, o.Seed, o.Threads), func(t *testing.T) {
			r := newRig(t, featureSource, o)
			for i, f := range features() {
				got := f.check(t, r)
				key := fmt.Sprint(o.Variant, i)
				if first[key] == nil {
					first[key] = got
				}
				assert.Equal(t, first[key], got, "%s: the bits depend on the schedule", f.name)
			}
		})
	}
}

// check runs the kernel, compares the result, and returns it.
func (f feature) check(t *testing.T, r *rig) []byte {
	t.Helper()
	p := r.pipeline(f.name, f.constants...)
	x := make([]float32, 192)
	for i := range x {
		x[i] = float32(i)/4 - 20
	}
	in, out := floats(t, r.Device, x...), floats(t, r.Device, make([]float32, 192)...)
	c := r.commands()
	if f.bind != nil {
		f.bind(t, r.Device, c)
	}
	encode(c, p, size(3, 1, 1), size(64, 1, 1), out, in)
	require.NoError(t, finish(c), f.name)
	for i, got := range values(out) {
		want := f.want(i, x)
		if !assert.InDelta(t, want, got, 1e-5*math.Max(1, math.Abs(want)), "%s: thread %d", f.name, i) {
			break
		}
	}
	return slices.Clone(out.Bytes())
}

// TestAtomics: atomic operations of all threads add up.
func TestAtomics(t *testing.T) {
	for _, o := range []Options{{Threads: 4}, {Variant: Check, Seed: 1}} {
		d := newRig(t, featureSource, o)
		floats := func(n int) metal.Buffer { return floats(t, d.Device, make([]float32, n)...) }
		out, in, n, m, f := floats(6400), floats(6400), floats(2), floats(1), floats(1)
		c := d.commands()
		encode(c, d.pipeline("atomics"), size(10, 10, 1), size(64, 1, 1), out, in, n, m, f)
		err := finish(c)
		if o.Variant == Check {
			require.ErrorContains(t, err, "race", "threadgroups of one row write the same place")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, uint32(6400), binary.NativeEndian.Uint32(n.Bytes()))
		assert.Equal(t, uint32(3*6400), binary.NativeEndian.Uint32(n.Bytes()[4:]))
		assert.Equal(t, uint32(639), binary.NativeEndian.Uint32(m.Bytes()))
		assert.Equal(t, float32(3200), values(f)[0])
	}
}
