package cpu

import "github.com/pilotfish-ai/pilotfish/gguf/block"

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

// gemvFloatGeneric sets dst[o] = Σᵢ w[o,i]·x[i] for len(dst) rows that begin stride bytes apart in w, of elements of
// type t: F32, F16 or BF16.
func gemvFloatGeneric(t block.Type, dst []float32, w []byte, stride int, x []float32) {
	var f [256]float32
	_, size := t.Block()
	for r := range dst {
		row := w[r*stride:][:len(x)*size]
		var a accumulators
		for i := 0; i < len(x); i += len(f) {
			n := min(len(f), len(x)-i)
			t.Dequantize(f[:n], row[i*size:][:n*size])
			a.add(f[:n], x[i:])
		}
		dst[r] = a.sum()
	}
}

func gemvF32Generic(dst []float32, w []byte, stride int, x []float32) {
	gemvFloatGeneric(block.F32, dst, w, stride, x)
}

func gemvF16Generic(dst []float32, w []byte, stride int, x []float32) {
	gemvFloatGeneric(block.F16, dst, w, stride, x)
}

func gemvBF16Generic(dst []float32, w []byte, stride int, x []float32) {
	gemvFloatGeneric(block.BF16, dst, w, stride, x)
}

// gemmF32Generic sets dst[4t+o] = Σᵢ w[o,i]·x[t,i] for four rows of w and four tokens, which lie behind each other; w
// is float32.
func gemmF32Generic(dst *[16]float32, w []byte, x []float32) {
	n := len(x) / 4
	for t := range 4 {
		gemvF32Generic(dst[4*t:][:4], w, 4*n, x[t*n:][:n])
	}
}
