package cpu

import (
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// accumulators are the parts of a float32 sum: element i goes to accumulator i mod 8.
type accumulators [8]float32

// addProducts adds w[i]·x[i]; all calls of one sum but the last have a multiple of 8 elements.
func (a *accumulators) addProducts(w, x []float32) {
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
			t.Dequantize(f[:n], row[i*size:][:n*size])
			sum.addProducts(f[:n], x[i:])
		}
		dst[r] = sum.sum()
	}
}

func gemvF32Generic(a *floatArgs)  { gemvFloatGeneric(block.F32, a) }
func gemvF16Generic(a *floatArgs)  { gemvFloatGeneric(block.F16, a) }
func gemvBF16Generic(a *floatArgs) { gemvFloatGeneric(block.BF16, a) }

// gemmF32Generic sets dst[4t+o] = Σᵢ w[o,i]·x[t,i] for four rows of w and four tokens, one token after the other; w is
// float32.
func gemmF32Generic(a *floatArgs) {
	const rows = 4
	dst, x, one := unsafe.Slice(a.dst, 4*rows), unsafe.Slice(a.x, 4*a.n), *a
	one.rows = rows
	for t := range 4 {
		one.dst, one.x = &dst[t*rows], &x[t*a.n]
		gemvF32Generic(&one)
	}
}
