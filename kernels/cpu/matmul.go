package cpu

import (
	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// Scratch is one worker's working memory for [MatMul]. The zero value is ready to use; it grows as needed and is
// reused. Two workers must not share one.
type Scratch struct {
	panels      []panel     // of quantised weights
	w, ds, mins []uint32    // of all panels
	acc         []float32   // [accumulators, tokens, outputs of a panel]
	f           []float32   // [outputs, cols] converted weights
	out, sums   []float32   // results before they are stored or added; of one exact row
	four        [16]float32 // results of a float gemm, [4 tokens, 4 outputs]
	passes      passCache

	// Arguments of the microkernel that is called.
	gemm  gemmArgs
	pack  packArgs
	tile  tileArgs
	sum   sumArgs
	float floatArgs
	_     [64]byte // so that another worker's arguments are in another cache line
}

// callBytes is the maximum size of the weights that one call of assembly reads. A call takes a few microseconds, during
// which it cannot be preempted.
const callBytes = 64 << 10

// callProducts is the maximum number of products of one call of assembly for many tokens, for the same reason.
const callProducts = 4 << 20

// MatMul sets dst[t·stride+o] = Σᵢ m[o,i]·x[t,i] for the outputs lo ≤ o < hi and every token t of x, or adds to it if
// add is true. x is [T, m.Cols], rounded if m is [Matrix.Quantised]; dst holds (T-1)·stride+hi values and must not
// overlap x. Sums are in float32. sc is the caller's own, one per worker.
func MatMul(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	kernelsInUse().matMul(dst, stride, m, lo, hi, x, add, sc)
}

func (k *kernels) matMul(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	if x.N != m.Cols {
		panic("cpu: MatMul of shapes that differ")
	}
	if lo >= hi || x.T == 0 {
		return
	}
	if m.Cols == 0 {
		for t := range x.T {
			storeOrAdd(dst[t*stride+lo:t*stride+hi], nil, add)
		}
		return
	}
	f := formatOf(m.Type)
	switch k.chooseAlgorithm(m.Type, m.Rows, m.Cols, x.T) {
	case byGEMV:
		k.quantisedGEMV(dst, stride, m, f, lo, hi, x, add, sc)
	case bySmallGEMM:
		k.quantisedSmallGEMM(dst, stride, m, f, k.smallGEMMOf(f, x.T, m.Cols), lo, hi, x, add, sc)
	case byPackedGEMM:
		k.packedGEMM(dst, stride, m, f, lo, hi, x, add, sc)
	case byFloatGEMV:
		k.floatGEMV(dst, m, k.gemvOf(m.Type), lo, hi, x, add, sc)
	default:
		k.floatGEMM(dst, stride, m, lo, hi, x, add, sc)
	}
}

// algorithm is the function that computes a product. doc.go has a diagram.
type algorithm int

const (
	byGEMV       algorithm = iota // quantisedGEMV, in quantised.go
	bySmallGEMM                   // quantisedSmallGEMM, in quantised.go
	byPackedGEMM                  // packedGEMM, in packed.go
	byFloatGEMV                   // floatGEMV, in float.go
	byFloatGEMM                   // floatGEMM, in float.go
)

// chooseAlgorithm returns the algorithm for a weight of some type, [rows, cols], and t tokens.
func (k *kernels) chooseAlgorithm(w block.Type, rows, cols, t int) algorithm {
	f := formatOf(w)
	switch {
	case k.smallGEMMOf(f, t, cols) != nil:
		return bySmallGEMM
	case f >= 0 && (t == 1 || rows < k.panelOutputs):
		return byGEMV
	case f >= 0:
		return byPackedGEMM
	case t == 1 && k.gemvOf(w) != nil:
		return byFloatGEMV
	}
	return byFloatGEMM
}

// storeOrAdd stores v in dst or adds it; a nil v is zeros.
func storeOrAdd(dst, v []float32, add bool) {
	switch {
	case add:
		for i, v := range v {
			dst[i] += v
		}
	case v == nil:
		clear(dst)
	default:
		copy(dst, v)
	}
}

// MatMulExact is [MatMul] without rounding of activations, in plain Go: it uses x in float32 for every type of m, and
// sums in float64. Error: the rounding of the result to float32.
func MatMulExact(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	n := m.Cols
	if x.N != n {
		panic("cpu: MatMulExact of shapes that differ")
	}
	sc.sums = growSlice(sc.sums, n, n)
	for o := lo; o < hi; o++ {
		m.Type.Dequantize(sc.sums, m.rowData(o, o+1))
		for t := range x.T {
			v := vector.Dot64(sc.sums, x.floatTokens(t, 1))
			if add {
				v += float64(dst[t*stride+o])
			}
			dst[t*stride+o] = float32(v)
		}
	}
}
