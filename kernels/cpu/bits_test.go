package cpu

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBits: the results of every variant that this CPU offers match the hashes in the committed table, to the last bit.
// A change of a microkernel that must not change results is thus verified; an intended change is visible in review.
// Variants that this CPU lacks keep their lines.
func TestBits(t *testing.T) {
	racing.Spare(t)
	if runtime.GOOS != "linux" {
		t.Skip("the table is for Linux")
	}
	golden := filepath.Join("testdata", "bits_"+runtime.GOARCH+".txt")
	for _, k := range offeredKernels() {
		lines := append(productBits(t, k), "round "+roundBits(t, k))
		kerneltest.HoldBits(t, golden, k.name, lines, *update && !testing.Short() && !noAssembly())
	}
}

// productBits returns a line for each type of weights and number of tokens, with a hash of products of several shapes.
func productBits(t *testing.T, k *kernels) (lines []string) {
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 24, 33}
	if testing.Short() {
		all = []int{1, 17} // as on an emulated CPU
	}
	for _, typ := range types {
		for _, tokens := range all {
			var results []any
			for i, n := range append(columns(typ), 1024, 4864) {
				in := newInputs(t, uint64(100*tokens+i), 0)
				rows := []int{37, 64, 20}[i%3]
				m := in.matrix(typ, rows, n)
				x := in.input(tokens, n)
				dst := make([]float32, tokens*rows)
				k.matMul(dst, rows, m, 0, rows, x, false, &Scratch{})
				k.matMul(dst, rows, m, 3, rows, x, true, &Scratch{})
				results = append(results, dst)
			}
			lines = append(lines, fmt.Sprintf("%s %d %s", typ, tokens, kerneltest.Hash(t, results...)))
		}
	}
	return lines
}

// roundBits returns a hash of rounded activations of many lengths.
func roundBits(t *testing.T, k *kernels) string {
	var results []any
	for _, n := range []int{32, 64, 128, 896, 1024, 4864} {
		in := newInputs(t, uint64(n), 0)
		q, d, s, h := make([]int8, n), make([]float32, n/actBlock), make([]float32, n/actBlock), make([]int16, n/16)
		callRound(k.round, q, d, s, h, in.WideFloats(n))
		results = append(results, q, d, s, h)
	}
	return kerneltest.Hash(t, results...)
}
