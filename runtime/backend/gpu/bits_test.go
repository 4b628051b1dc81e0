package gpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
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
		cols := 4864 // 9.5 steps: 4.75 for each of 2 parts, of which one begins within a block of 256 columns
		w, f := x.weightOf(kind, out, cols)
		g, _ := x.normOf(cols)
		h := x.tensorOf(maxRows, cols)
		require.Equal(t, division{rows: 16, parts: 2, share: 2432}, divideMatrix(out, cols))
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

// TestTails: what is left of a row after whole steps is a quarter of one, a half, three quarters, or none of these. The
// second half of 1,280 columns begins within a block of 256.
func TestTails(t *testing.T) {
	x := &fixture{t: t, r: newRand(12), d: open(t, soft.Options{Seed: 3})}
	const out = 22 // the last tile has two rows
	for _, kind := range []gguf.Type{gguf.F32, gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		block, _ := kind.Block()
		for _, cols := range []int{96, 128, 256, 384, 480, 640, 768, 896, 992, 1280} {
			if cols%block > 0 {
				continue
			}
			w, f := x.weightOf(kind, out, cols)
			h, y := x.tensorOf(maxNarrow, cols), x.tensorOf(maxNarrow, out)
			clear(y.all())
			s := x.kv(backend.KVConfig{Slots: maxNarrow, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F16})
			p := x.begin(s, rowsAt(maxNarrow))
			p.ProjectAdd(y, w, h)
			require.NoError(t, p.End(t.Context()))
			for i := range maxNarrow {
				x.near(f(widened(h.line(i))), y.line(i), bar, "%s, %d columns, row %d", kind, cols, i)
			}
		}
	}
}
