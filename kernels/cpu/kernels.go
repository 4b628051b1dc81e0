package cpu

import (
	"sync"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// kernels holds the microkernels of one instruction set. MatMul checks shapes and divides the work before it calls one,
// so a microkernel may assume matching lengths and at least one element. Each has its twin with the formula in
// generic.go.
type kernels struct {
	name string // of the instruction set, as in package isa
	storedKernels
	packedKernels
	floatKernels
	boundKernels
}

// storedKernels multiply quantised weights as they are stored, with one token or a few.
type storedKernels struct {
	gemv       [formats]gemm        // one token, one output after the other; dst has the outputs of w's rows
	smallGEMMs [formats][]smallGEMM // a few tokens, some outputs at a time
	round      func(a *actsArgs)    // activations to 8 bits, see [Acts]
	actsArgs   *sync.Pool           // arguments for round, which is called without a [Scratch]

	interleaved bool // smallGEMMs take P of [Acts], and round sets it too
}

// activations are those of some tokens, rounded, as in [Acts].
type activations struct {
	q    []int8 // Q, or P for a smallGEMM of an instruction set that takes it
	d, s []float32
	h    []int16

	tiled []float32
}

// gemm sets dst[t·stride+o] = Σᵢ w[o,i]·x[t,i].
type gemm func(a *gemmArgs)

// smallGEMM is a microkernel that multiplies some outputs at a time with a few tokens, with the bits of gemv.
type smallGEMM struct {
	multiply    gemm // takes a multiple of outputs rows, of a multiple of four blocks
	outputs     int  // at a time: 4 or 8
	least, most int  // tokens
}

// packedKernels multiply quantised weights with many tokens. pack unpacks and interleaves some rows of a weight: a
// panel. tile, a register tile, adds the products of a panel with some tokens to accumulators. horizontalSum or
// epilogue computes outputs from the accumulators.
type packedKernels struct {
	panelOutputs int // rows of a panel
	pack         [formats]pack
	tile         [formats]tile
	fewTile      [formats]tile // used in place of tile for fewer tokens than tileLeast
	tileLeast    int
	inPasses     bool          // tile multiplies in the order of its passes, any number of panels, and may sum up
	twoPanels    [formats]tile // for two consecutive panels, with consecutive accumulators; nil if nothing is gained

	// horizontalSum sets dst[i] to the sum of the accumulators of each result; epilogue puts such sums at dst, or adds
	// them, and leaves zeros. A table has one of the two.
	horizontalSum, epilogue func(a *sumArgs)
}

// pack makes a panel: weights as signed bytes, scales and minima, like packGeneric, or in an order that suits tile
// better. If two scales of a block are equal, it need set only the first.
type pack func(a *packArgs)

// tile adds to acc the products of a panel with some tokens, see tileGeneric. One of AMX does what its passes say: they
// may start from zeros in place of acc, and add up accumulators to results at dst.
type tile func(a *tileArgs)

// floatKernels multiply float weights with activations in float32.
type floatKernels struct {
	gemvF32, gemvF16, gemvBF16 floatGEMM // one token, one output after the other

	// Four outputs and four tokens, for a multiple of 16 columns. Nil: converted to float32 first.
	gemmF32, gemmF16, gemmBF16 floatGEMM

	// Eight outputs and gemm8Tokens tokens, likewise, or nil.
	gemm8Tokens                   int
	gemm8F32, gemm8F16, gemm8BF16 floatGEMM
	cacheBytes                    int // of weights that stay in a second-level cache while tokens pass
}

// floatGEMM sets dst[t,o] = Σᵢ w[o,i]·x[t,i]. [floatArgs] describes the layout of dst and the numbers of rows and
// tokens.
type floatGEMM func(a *floatArgs)

// boundKernels measure the limits of a machine.
type boundKernels struct {
	read                  func(p []byte) uint64
	peakBytes, peakFloats peak
}

// tileOf returns the kernel that multiplies a panel in format f with the given number of tokens.
func (k *kernels) tileOf(f format, tokens int) tile {
	if tokens < k.tileLeast {
		return k.fewTile[f]
	}
	return k.tile[f]
}

// smallGEMMOf returns the microkernel that multiplies weights in format f, as they are stored, with t tokens of n
// activations, or nil.
func (k *kernels) smallGEMMOf(f format, t, n int) *smallGEMM {
	if f < 0 || n%(4*actBlock) != 0 {
		return nil
	}
	for i := range k.smallGEMMs[f] {
		if g := &k.smallGEMMs[f][i]; g.least <= t && t <= g.most {
			return g
		}
	}
	return nil
}

// gemvOf returns the microkernel for float weights of type w and one token, nil if there is none.
func (k *kernels) gemvOf(w block.Type) floatGEMM {
	switch w {
	case block.F32:
		return k.gemvF32
	case block.F16:
		return k.gemvF16
	case block.BF16:
		return k.gemvBF16
	}
	return nil
}

// gemmOf returns the microkernels for four and eight rows of float weights of type w, nil if there is none.
func (k *kernels) gemmOf(w block.Type) (four, eight floatGEMM) {
	switch w {
	case block.F32:
		return k.gemmF32, k.gemm8F32
	case block.F16:
		return k.gemmF16, k.gemm8F16
	case block.BF16:
		return k.gemmBF16, k.gemm8BF16
	}
	return nil, nil
}

// Env is the environment variable that names the instruction set to use in place of the best one: "generic", "avx2", …
const Env = isa.Env

func newKernels(set string) *kernels {
	k := kernelsFor(set)
	k.name = set
	return k
}

// offered returns the names of the instruction sets that this CPU offers, plain Go first, the best one last.
var offered = sync.OnceValue(isa.Offered)

// offeredKernels returns the tables of the offered instruction sets, in the same order.
func offeredKernels() []*kernels {
	var all []*kernels
	for _, set := range offered() {
		if k := newKernels(set); computesCorrectly(k) {
			all = append(all, k)
		}
	}
	return all
}

// chosen is the table in use, decided once.
var chosen = sync.OnceValues(func() (*kernels, error) {
	set, err := isa.Choose(Variants())
	return newKernels(set), err
})

// kernelsInUse returns the table in use. If [Detect] refuses the name in [Env], it is the generic one.
func kernelsInUse() *kernels {
	k, _ := chosen()
	return k
}

// Detect returns the name of the instruction set in use, such as "avx2", and an error if [Env] names one that this CPU
// or build does not have. A program calls it once at start; the operations do not report the error and run in plain Go
// in that case.
func Detect() (string, error) {
	k, err := chosen()
	return k.name, err
}

// Features returns the name of the instruction set in use, for reports.
func Features() string { return kernelsInUse().name }

// Variants returns the names of all instruction sets that this CPU and build offer, plain Go first, the best one last.
func Variants() []string {
	var names []string
	for _, k := range offeredKernels() {
		names = append(names, k.name)
	}
	return names
}
