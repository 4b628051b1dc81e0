package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// accumulators are the parts of a float32 sum: element i goes to accumulator i mod 8.
type accumulators [8]float32

// add adds w[i]·x[i]; all calls of one sum but the last have a multiple of 8 elements.
func (a *accumulators) add(w, x []float32) {
	x = x[:len(w)]
	for len(w) >= 8 {
		for i := range 8 {
			a[i] += float32(w[i] * x[i])
		}
		w, x = w[8:], x[8:]
	}
	for i := range w {
		a[i] += float32(w[i] * x[i])
	}
}

func (a *accumulators) sum() float32 {
	return (a[0] + a[4]) + (a[2] + a[6]) + ((a[1] + a[5]) + (a[3] + a[7]))
}

// gemvFloatGeneric sets dst[o] = Σᵢ w[o,i]·x[i] for rows that begin rowBytes apart in w, of elements of type t: F32,
// F16 or BF16.
func gemvFloatGeneric(t block.Type, a *floatArgs) {
	var f [256]float32
	_, size := t.Block()
	dst, x := unsafe.Slice(a.dst, a.rows), unsafe.Slice(a.x, a.n)
	w := unsafe.Slice(a.w, (a.rows-1)*a.rowBytes+a.n*size)
	for r := range dst {
		row := w[r*a.rowBytes:][:a.n*size]
		var sum accumulators
		for i := 0; i < len(x); i += len(f) {
			n := min(len(f), len(x)-i)
			convert(t, f[:n], row[i*size:])
			sum.add(f[:n], x[i:])
		}
		dst[r] = sum.sum()
	}
}

func gemvF32Generic(a *floatArgs)  { gemvFloatGeneric(block.F32, a) }
func gemvF16Generic(a *floatArgs)  { gemvFloatGeneric(block.F16, a) }
func gemvBF16Generic(a *floatArgs) { gemvFloatGeneric(block.BF16, a) }

// gemm1F32Generic sets dst[t] = Σᵢ w[i]·x[t,i] for four tokens; w is a row of float32.
func gemm1F32Generic(a *floatArgs) { gemmByTokens(a, 1) }

// gemmF32Generic sets dst[4t+o] = Σᵢ w[o,i]·x[t,i] for four rows of w and four tokens; w is float32.
func gemmF32Generic(a *floatArgs) { gemmByTokens(a, 4) }

// gemmByTokens multiplies some rows of w with four tokens, one after the other.
func gemmByTokens(a *floatArgs, rows int) {
	dst, x, one := unsafe.Slice(a.dst, 4*rows), unsafe.Slice(a.x, 4*a.n), *a
	one.rows = rows
	for t := range 4 {
		one.dst, one.x = &dst[t*rows], &x[t*a.n]
		gemvF32Generic(&one)
	}
}

// fromF16Generic sets dst to the half-precision numbers of w.
func fromF16Generic(a *floatArgs) {
	convert(block.F16, unsafe.Slice(a.dst, a.n), unsafe.Slice(a.w, 2*a.n))
}

// fromBF16Generic sets dst to the bfloat16 numbers of w.
func fromBF16Generic(a *floatArgs) {
	convert(block.BF16, unsafe.Slice(a.dst, a.n), unsafe.Slice(a.w, 2*a.n))
}

// convert sets dst to the numbers of type t, which is F32, F16 or BF16, at the front of src.
func convert(t block.Type, dst []float32, src []byte) {
	switch t {
	case block.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case block.F16:
		for i := range dst {
			dst[i] = f16(src[2*i:])
		}
	case block.BF16:
		for i := range dst {
			dst[i] = block.BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
}
