package cpu

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBits: what every variant that this CPU offers computes is, to the last bit, what the committed table has hashes of.
// So a change of a microkernel that is meant to change nothing shows that it changes nothing; one that is meant to is
// seen in review. A variant that only another CPU has keeps its lines.
func TestBits(t *testing.T) {
	racing.Spare(t)
	if runtime.GOOS != "linux" {
		t.Skip("the table is of Linux")
	}
	golden := filepath.Join("testdata", "bits_"+runtime.GOARCH+".txt")
	want := readBits(t, golden)
	for _, k := range variants() {
		got := append(productBits(t, k), vectorBits(t, k)...)
		if *update && !testing.Short() && !noAssembly() {
			want[k.name] = got
		}
		for _, line := range got {
			require.Contains(t, want[k.name], line, "%s; if that is meant, go test ./kernels/cpu -run Bits -update", k.name)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		for _, line := range want[name] {
			fmt.Fprintf(&b, "%s %s\n", name, line)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
}

// readBits returns the lines of the table without their first word, by that word, which is a variant.
func readBits(t *testing.T, path string) map[string][]string {
	text, err := os.ReadFile(path)
	if !*update {
		require.NoError(t, err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines[name] = append(lines[name], rest)
	}
	return lines
}

// productBits returns a line for each type of weights and number of tokens, with a hash of products of several shapes.
func productBits(t *testing.T, k *kernels) (lines []string) {
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 24, 33}
	if testing.Short() {
		all = []int{1, 5, 17} // as on an emulated CPU
	}
	for _, typ := range types {
		for _, tokens := range all {
			h := sha256.New()
			for i, n := range append(columns(typ), 1024, 4864) {
				in := newInputs(t, uint64(100*tokens+i), 0)
				rows := []int{37, 64, 20}[i%3]
				m := in.matrix(typ, rows, n)
				x := in.input(tokens, n)
				dst := make([]float32, tokens*rows)
				k.matMul(dst, rows, m, 0, rows, x, false, &Scratch{})
				k.matMul(dst, rows, m, 3, rows, x, true, &Scratch{})
				binary.Write(h, binary.LittleEndian, dst)
			}
			lines = append(lines, fmt.Sprintf("%s %d %.8x", typ, tokens, h.Sum(nil)))
		}
	}
	return lines
}

// vectorBits returns a line for each operation on vectors, with a hash of its results for many lengths.
func vectorBits(t *testing.T, k *kernels) (lines []string) {
	add := func(name string, f func(in *inputs, n int) []any) {
		h := sha256.New()
		for _, n := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 128, 896, 1024, 4864} {
			for _, v := range f(newInputs(t, uint64(n), 0), n) {
				require.NoError(t, binary.Write(h, binary.LittleEndian, v))
			}
		}
		lines = append(lines, fmt.Sprintf("%s %.8x", name, h.Sum(nil)))
	}
	add("exp", func(in *inputs, n int) []any {
		dst := make([]float32, n)
		k.exp(dst, in.wideFloats(n), 1)
		return []any{dst}
	})
	add("sumExp", func(in *inputs, n int) []any {
		x := in.wideFloats(n)
		sum, sumX := k.sumExp(x, Max(x))
		return []any{sum, sumX}
	})
	add("swiGLU", func(in *inputs, n int) []any {
		dst := make([]float32, n)
		k.swiGLU(dst, in.wideFloats(n), in.floats(n))
		return []any{dst}
	})
	add("softmax", func(in *inputs, n int) []any {
		if n%SoftmaxPad != 0 {
			return nil
		}
		x := in.wideFloats(n)
		top, sum := k.softmax(x)
		return []any{x, top, sum}
	})
	add("rmsNorm", func(in *inputs, n int) []any {
		if n%normPad != 0 {
			return nil
		}
		dst := make([]float32, n)
		k.rmsNorm(dst, in.floats(n), in.floats(n), 1e-6)
		return []any{dst}
	})
	add("rope", func(in *inputs, n int) []any {
		if n%(2*ropePad) != 0 {
			return nil
		}
		x := in.floats(2 * n)
		k.rope(x, in.floats(n/2), in.floats(n/2))
		return []any{x}
	})
	add("round", func(in *inputs, n int) []any {
		if n%block != 0 {
			return nil
		}
		q, d, s, h := make([]int8, n), make([]float32, n/block), make([]float32, n/block), make([]int16, n/16)
		k.round(q, d, s, h, in.wideFloats(n))
		return []any{q, d, s, h}
	})
	return append(lines, attentionBits(t, k)...)
}

// attentionBits is vectorBits for the products of queries with keys and of weights with values.
func attentionBits(t *testing.T, k *kernels) (lines []string) {
	for i, a := range attentions(k) {
		h := sha256.New()
		for _, c := range []struct{ dh, blocks, values int }{{8, 1, 5}, {16, 2, 16}, {24, 3, 31}, {64, 7, 100}, {128, 2, 33}} {
			in := newInputs(t, uint64(c.dh), 0)
			keys, _ := a.stored(in, c.blocks*KeyBlock*c.dh)
			scores := make([]float32, Queries*KeyBlock*c.blocks)
			a.scores(scores, KeyBlock*c.blocks, in.floats(c.dh*Queries), keys, KeyBlock*c.dh*a.size, c.blocks)
			require.NoError(t, binary.Write(h, binary.LittleEndian, scores))
			mix := k.mixLeaf(a.mix, []mixLeaf{mixF32Generic, mixF16Generic}[i], Queries*c.dh)
			values, _ := a.stored(in, c.values*c.dh)
			acc := in.floats(Queries * c.dh)
			mix(acc, in.floats(Queries*c.values), c.values, c.values, values, c.dh*a.size)
			require.NoError(t, binary.Write(h, binary.LittleEndian, acc))
		}
		lines = append(lines, fmt.Sprintf("attention %s %.8x", []string{"F32", "F16"}[i], h.Sum(nil)))
	}
	return lines
}

// wideFloats returns n numbers of many magnitudes, zeros and subnormal ones among them.
func (in *inputs) wideFloats(n int) []float32 {
	x := in.floats(n)
	for i := range x {
		switch in.IntN(8) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(math.Ldexp(float64(x[i]), in.IntN(60)-50))
		default:
			x[i] *= 10
		}
	}
	return x
}
