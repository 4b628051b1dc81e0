package vector

import (
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// operations holds the functions of one instruction set, which may be assembly. The exported functions of this package
// check shapes before they call one, so these may assume matching lengths and at least one element.
type operations struct {
	set string // name, as in package isa
	elementwise
	reductions
	attention
}

// elementwise sets each element of a result.
type elementwise struct {
	exp     func(dst, x []float32, bias float32) // dst[i] = exp(x[i] - bias)
	swiGLU  func(dst, gate, up []float32)
	rmsNorm func(dst, x, g []float32, eps float32) // of a multiple of normPad
	rope    func(x, cos, sin []float32)            // with half a head of a multiple of ropePad
	toF16   func(dst []uint16, src []float32)
	fromF16 func(dst []float32, src []uint16)
	gate    func(dst, x, gate []float32)
	scale   func(dst, x []float32, a float32)
	// productSum is ProductSum, of at least one row.
	productSum func(dst, a, b []float32, strideA, strideB, n int)
}

// reductions return one or two numbers.
type reductions struct {
	softmax func(x []float32) (top, sum float32)
	sumExp  func(x []float32, top float32) (sum, sumX float64)
	above   func(x []float32, bar float32) int
}

// attention multiplies queries with keys, and weights with values.
type attention struct {
	scoresF32, scoresF16 scores
	mixF32, mixF16       mix
	pairScoresF16        scores // of the first two queries, nil: scoresF16
	pairMixF16           mix    // to the first two sums of a multiple of 64 columns, nil: mixF16
	pairMixF32           mix    // likewise, nil: mixF32
	axpyF32              func(acc, p []float32, v []byte, stride int)
}

// generic returns the operations in plain Go: the reference of all others.
func generic() *operations {
	return &operations{
		elementwise: elementwise{
			exp: expGeneric, swiGLU: swiGLUGeneric, rmsNorm: rmsNormGeneric, rope: ropeGeneric, toF16: toF16Generic,
			fromF16: fromF16Generic, gate: gateGeneric, scale: scaleGeneric, productSum: productSumGeneric,
		},
		reductions: reductions{softmax: softmaxGeneric, sumExp: sumExpGeneric, above: aboveGeneric},
		attention: attention{
			scoresF32: scoresF32Generic, scoresF16: scoresF16Generic,
			mixF32: mixF32Generic, mixF16: mixF16Generic, axpyF32: axpyF32Generic,
		},
	}
}

func newOperations(set string) *operations {
	k := operationsFor(set)
	k.set = set
	return k
}

// inUse returns the operations in use, which are chosen once. If [isa.Env] names an instruction set that this CPU does
// not offer, they are plain Go; package cpu reports the error.
var inUse = sync.OnceValue(func() *operations {
	set, _ := isa.Choose(isa.Offered())
	return newOperations(set)
})
