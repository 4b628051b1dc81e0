package gpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestSameBits: the product of a matrix of any type with a row is the same to the last bit alone and with up to seven
// others, with one simdgroup and with many, and with all of the activations in threadgroup memory or in parts.
func TestSameBits(t *testing.T) {
	racing.Spare(t)
	x := &fixture{t: t, r: newRand(11), d: open(t, fastOptions())}
	whole := x.d.limits
	const out, maxRows = 36, maxNarrow
	for _, kind := range []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
	} {
		cols := 4864 // 9.5 steps: 3 for each of 4 parts
		w, f := x.weightOf(kind, out, cols)
		g, _ := x.normOf(cols)
		h := x.tensorOf(maxRows, cols)
		require.Equal(t, division{rows: 16, parts: 4, share: 1536}, divideMatrix(out, cols))
		run := func(first, n int) (sums, gated []float32) {
			from, y, m := x.tensorOf(n, cols), x.tensorOf(n, out), x.tensorOf(n, out)
			copy(from.all(), h.all()[first*cols:])
			clear(y.all())
			p := x.begin(x.smallStore(n), rowsAt(n))
			p.NormGateUp(m, from, g, w, w)
			p.ProjectAdd(y, w, from)
			require.NoError(t, p.End(t.Context()))
			return slices.Clone(y.all()), slices.Clone(m.all())
		}
		sums, gated := []float32(nil), []float32(nil)
		for i := range maxRows {
			s, m := run(i, 1)
			x.near(f(widened(h.line(i))), s, bar, "%s, row %d", kind, i)
			sums, gated = append(sums, s...), append(gated, m...)
		}
		for n := 1; n <= maxRows; n++ {
			for _, threads := range []int{1024, 32, 96} {
				for _, memory := range []int{32 << 10, 19 << 10} {
					x.d.limits.Threads, x.d.limits.ThreadgroupMemory = threads, memory
					s, m := run(0, n)
					assert.Equal(t, sums[:n*out], s, "%s, %d rows, %d threads, %d bytes", kind, n, threads, memory)
					assert.Equal(t, gated[:n*out], m, "%s, %d rows, %d threads, %d bytes", kind, n, threads, memory)
				}
			}
		}
		x.d.limits = whole
	}
}
