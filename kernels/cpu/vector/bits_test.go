package vector

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

var update = flag.Bool("update", false, "write the table of hashes of results")

// TestBits: the results of every instruction set that this CPU offers match the hashes in the committed table, to the
// last bit. Instruction sets that this CPU lacks keep their lines.
func TestBits(t *testing.T) {
	racing.Spare(t)
	if runtime.GOOS != "linux" {
		t.Skip("the table is for Linux")
	}
	golden := filepath.Join("testdata", "bits_"+runtime.GOARCH+".txt")
	for _, k := range all() {
		lines := append(vectorBits(t, k), attentionBits(t, k)...)
		kerneltest.HoldBits(t, golden, k.set, lines, *update && len(isa.All()) > 1)
	}
}

// vectorBits returns a line for each operation on vectors, with a hash of its results for many lengths.
func vectorBits(t *testing.T, k *operations) (lines []string) {
	add := func(name string, f func(in *kerneltest.Inputs, n int) []any) {
		var results []any
		for _, n := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 128, 896, 1024, 4864} {
			results = append(results, f(kerneltest.NewInputs(t, uint64(n), 0), n)...)
		}
		lines = append(lines, name+" "+kerneltest.Hash(t, results...))
	}
	add("exp", func(in *kerneltest.Inputs, n int) []any {
		dst := make([]float32, n)
		k.exp(dst, in.WideFloats(n), 1)
		return []any{dst}
	})
	add("sumExp", func(in *kerneltest.Inputs, n int) []any {
		x := in.WideFloats(n)
		sum, sumX := k.sumExp(x, Max(x))
		return []any{sum, sumX}
	})
	add("swiGLU", func(in *kerneltest.Inputs, n int) []any {
		dst := make([]float32, n)
		k.swiGLU(dst, in.WideFloats(n), in.Floats(n))
		return []any{dst}
	})
	add("gate", func(in *kerneltest.Inputs, n int) []any {
		dst := make([]float32, n)
		k.gate(dst, in.Floats(n), in.WideFloats(n))
		return []any{dst}
	})
	add("productSum", func(in *kerneltest.Inputs, n int) []any {
		dst := make([]float32, n)
		k.productSum(dst, in.Floats(4*n), in.Floats(4*n), n, n, 4)
		return []any{dst}
	})
	add("softmax", func(in *kerneltest.Inputs, n int) []any {
		if n%SoftmaxPad != 0 {
			return nil
		}
		x := in.WideFloats(n)
		top, sum := k.softmax(x)
		return []any{x, top, sum}
	})
	add("rmsNorm", func(in *kerneltest.Inputs, n int) []any {
		if n%normPad != 0 {
			return nil
		}
		dst := make([]float32, n)
		k.rmsNorm(dst, in.Floats(n), in.Floats(n), 1e-6)
		return []any{dst}
	})
	add("rope", func(in *kerneltest.Inputs, n int) []any {
		if n%(2*ropePad) != 0 {
			return nil
		}
		x := in.Floats(2 * n)
		k.rope(x, in.Floats(n/2), in.Floats(n/2))
		return []any{x}
	})
	return lines
}

// attentionBits does the same for the products of queries with keys and of weights with values.
func attentionBits(t *testing.T, k *operations) (lines []string) {
	for i, a := range storages(k) {
		var results []any
		for _, c := range []struct{ dh, blocks, values int }{
			{8, 1, 5}, {16, 2, 16}, {24, 3, 31}, {64, 7, 100}, {128, 2, 33},
		} {
			in := kerneltest.NewInputs(t, uint64(c.dh), 0)
			keys, _ := a.stored(in, c.blocks*KeyBlock*c.dh)
			scores := make([]float32, Queries*KeyBlock*c.blocks)
			a.scores(scores, KeyBlock*c.blocks, in.Floats(c.dh*Queries), keys, KeyBlock*c.dh*a.size, c.blocks)
			results = append(results, scores)
			mix := mixFor(a.mix, []mix{mixF32Generic, mixF16Generic}[i], Queries*c.dh)
			values, _ := a.stored(in, c.values*c.dh)
			acc := in.Floats(Queries * c.dh)
			mix(acc, in.Floats(Queries*c.values), c.values, c.values, values, c.dh*a.size)
			results = append(results, acc)
		}
		lines = append(lines, fmt.Sprintf("attention %s %s", []string{"F32", "F16"}[i], kerneltest.Hash(t, results...)))
	}
	return lines
}
