package vector

import "math"

// SoftmaxPad is the number of elements of which [Softmax] takes a multiple.
const SoftmaxPad = 32

// Softmax sets x[i] = exp(x[i]-top) for top = max x and returns top and the sum, in float32. The length of x is a
// multiple of [SoftmaxPad]; entries of -Inf at its end give 0. A NaN in x makes the sum NaN.
func Softmax(x []float32) (top, sum float32) {
	if len(x)%SoftmaxPad != 0 {
		panic("vector: softmax of a length that is not padded")
	}
	if len(x) == 0 {
		return float32(math.Inf(-1)), 0
	}
	return inUse().softmax(x)
}

func softmaxGeneric(x []float32) (top, sum float32) { return softmaxBy(expGeneric, x) }

// softmaxBy is [Softmax] with the exponentials of exp.
func softmaxBy(exp func(dst, x []float32, bias float32), x []float32) (top, sum float32) {
	top = Max(x)
	exp(x, x, top)
	var s [4]float32
	for ; len(x) > 0; x = x[4:] {
		s[0], s[1], s[2], s[3] = s[0]+x[0], s[1]+x[1], s[2]+x[2], s[3]+x[3]
	}
	return top, (s[0] + s[2]) + (s[1] + s[3])
}
