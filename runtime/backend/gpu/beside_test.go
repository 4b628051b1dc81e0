package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Numbers of rows in a pass, and of keys that a row sees, for tests that results are equal alone and with other rows.
// Rows of one pass see different numbers, around those where the number of splits changes.
var (
	besideRows    = []int{2, 3, 5, 6, 7, 8, 9, 16, 17}
	besideVisible = []int{129, 1, 513, 127, 256, 257, 512, 128, 258, 511, 640, 255, 130, 2, 385, 300, 514}
)

// block is attention and the sum after it, over one KV store with full slots.
type block struct {
	*fixture
	s       *kv
	rows    []backend.Row
	h, y    []float32 // input and sum of each row
	g       *norm
	w       [3]*weight
	wo      *weight
	normed  func([]float32) []float64
	q, k, v func([]float64) []float64
	o       func([]float64) []float64
}

const blockIn, blockOut = 64, 20

// blockOf returns a block of attention of a shape, with weights of two types, and a row for each of besideVisible.
func (x *fixture) blockOf(c backend.KVConfig) *block {
	const prefix = 700
	c.Slots = prefix + len(besideVisible)
	n := len(besideVisible)
	b := &block{fixture: x, s: x.kv(c), h: x.floats(blockIn * n), y: x.floats(blockOut * n)}
	x.fill(b.s)
	for i, visible := range besideVisible {
		own := int32(prefix + i)
		see := []backend.Span{{From: own, To: own + 1}}
		switch n := int32(visible - 1); {
		case i%3 == 1 && n > 10: // the settled prefix, and ancestors elsewhere
			see = []backend.Span{{From: 7, To: n}, {From: n + 3, To: n + 10}, see[0]}
		case n > 0:
			see = []backend.Span{{From: 0, To: n}, see[0]}
		}
		b.rows = append(b.rows, backend.Row{Pos: int32(visible - 1), Slot: own, See: see})
	}
	b.g, b.normed = x.normOf(blockIn)
	width, narrow := c.Heads*c.HeadSize, c.KVHeads*c.HeadSize
	b.w[0], b.q = x.weightOf(gguf.Q8_0, width, blockIn)
	b.w[1], b.k = x.weightOf(gguf.Q8_0, narrow, blockIn)
	b.w[2], b.v = x.weightOf(gguf.F32, narrow, blockIn)
	outs := gguf.Q8_0
	if width%32 > 0 {
		outs = gguf.F32
	}
	b.wo, b.o = x.weightOf(outs, blockOut, width)
	return b
}

// run computes some of the rows in one pass, and returns the sum for each.
func (b *block) run(some []int) (out [][]float32) {
	n, c := len(some), b.s.c
	h, y := b.tensorOf(n, blockIn), b.tensorOf(n, blockOut)
	var rows []backend.Row
	for t, i := range some {
		rows = append(rows, b.rows[i])
		copy(h.line(t), b.h[i*blockIn:(i+1)*blockIn])
		copy(y.line(t), b.y[i*blockOut:(i+1)*blockOut])
	}
	width, narrow := c.Heads*c.HeadSize, c.KVHeads*c.HeadSize
	q, k, v, a := b.tensorOf(n, width), b.tensorOf(n, narrow), b.tensorOf(n, narrow), b.tensorOf(n, width)
	p := b.begin(b.s, rows)
	p.NormProject(q, k, v, h, b.g, b.w[0], b.w[1], b.w[2])
	p.Attend(a, q, k, v, nil, nil, 1)
	p.ProjectAdd(y, b.wo, a)
	require.NoError(b.t, p.End(b.t.Context()))
	for t := range some {
		out = append(out, slices.Clone(y.line(t)))
	}
	return out
}

// means compares the result for row i with the definition.
func (b *block) means(i int, out []float32, n int, bar float64) {
	want := b.o(b.s.definition(b.rows[i], b.q(b.normed(b.h[i*blockIn:(i+1)*blockIn]))))
	for j := range want {
		want[j] += float64(b.y[i*blockOut+j])
	}
	b.near(want, out, bar, "row with %d keys, among %d", besideVisible[i], n)
}

// TestBesideLengths: a row of attention, with 1 to 640 keys in up to 6 splits, gives the same result alone and with
// rows that see fewer or more keys: to the last bit in passes of 1 to 8 rows, and in longer ones. The first shape is
// that of Qwen2.5-0.5B, with 896 columns, which are staged in two chunks for 5 rows and more.
func TestBesideLengths(t *testing.T) {
	racing.Spare(t)
	shapes := []backend.KVConfig{
		{Heads: 14, KVHeads: 2, HeadSize: 64, Type: gguf.F16},
		{Heads: 3, KVHeads: 3, HeadSize: 20, Type: gguf.F32},
	}
	if testing.Short() {
		shapes = shapes[1:]
	}
	fresh := rand.Uint64N(1 << 30)
	for _, o := range []soft.Options{{Variant: soft.Fast, Seed: fresh}, {Variant: soft.Check, Seed: 2}} {
		checked := o.Variant == soft.Check
		t.Run(fmt.Sprintf("%s/%d", o.Variant, o.Seed), func(t *testing.T) {
			x := &fixture{t: t, r: newRand(4), d: open(t, o)}
			for _, c := range shapes {
				b := x.blockOf(c)
				if checked { // every access is checked: only the longest passes of both kinds are run
					for _, n := range []int{8, 9} {
						for i, out := range b.run(b.r.Perm(len(b.rows))[:n]) {
							require.Len(t, out, blockOut, "row %d", i)
						}
					}
					continue
				}
				alone, long := map[int][]float32{}, map[int][]float32{}
				for i := range b.rows {
					alone[i] = b.run([]int{i})[0]
					b.means(i, alone[i], 1, 5e-6)
				}
				for i, out := range b.run(order(len(b.rows))) {
					long[i] = out
					b.means(i, out, len(b.rows), 5e-6)
				}
				b.r = newRand(fresh)
				for _, n := range besideRows {
					want := alone
					if isWide(n) {
						want = long
					}
					some := b.r.Perm(len(b.rows))[:n]
					for t, out := range b.run(some) {
						require.Equal(b.t, want[some[t]], out, "row with %d keys, among rows %v, seed %d",
							besideVisible[some[t]], some, fresh)
					}
				}
			}
		})
	}
}

// TestLargeScores: one split has scores for which exp(score) overflows relative to any other split; in the first row it
// is the first split, in the second it is not.
func TestLargeScores(t *testing.T) {
	for _, n := range []int{2, 9} {
		x := &fixture{t: t, r: newRand(11), d: open(t, fastOptions())}
		b := x.blockOf(backend.KVConfig{Heads: 3, KVHeads: 3, HeadSize: 20, Type: gguf.F32})
		for h := range b.s.c.KVHeads {
			for slot := range 100 {
				row := sliceAs[float32](b.s.layers[1].Bytes()[(h*b.s.c.Slots+slot)*b.s.rowLen:])[:20]
				for i := range row {
					row[i] *= 60
				}
			}
		}
		late := backend.Span{From: 100, To: 480}
		b.rows[2].See = []backend.Span{{From: 0, To: 100}, late, b.rows[2].See[len(b.rows[2].See)-1]}
		b.rows[6].See = []backend.Span{late, {From: 0, To: 100}, b.rows[6].See[len(b.rows[6].See)-1]}
		some := []int{2, 6, 0, 1, 3, 4, 5, 7, 8}[:n]
		for i, out := range b.run(some)[:2] {
			b.means(some[i], out, n, 1e-3)
		}
	}
}

// order returns the numbers from 0 to n-1.
func order(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// TestManyParts: a norm over rows so wide that more than 32 threadgroups write parts of Σ x², before each operation
// that uses it.
func TestManyParts(t *testing.T) {
	const cols, in = 2240, 8 // 70 threadgroups of 32 weight rows each, 35 of 64 for many rows
	x := &fixture{t: t, r: newRand(6), d: open(t, soft.Options{Seed: 1})}
	add, fa := x.weightOf(gguf.F32, cols, in)
	require.Equal(t, 32, divideMatrix(cols, in).rows)
	g, fn := x.normOf(cols)
	wg, fg := x.weightOf(gguf.F32, 5, cols)
	wq, fq := x.weightOf(gguf.F32, 8, cols)
	for _, n := range []int{1, 9} {
		h, y, m := x.tensorOf(n, in), x.tensorOf(n, cols), x.tensorOf(n, 5)
		q, k, v, a := x.tensorOf(n, 8), x.tensorOf(n, 8), x.tensorOf(n, 8), x.tensorOf(n, 8)
		s := x.kv(backend.KVConfig{Slots: n, Heads: 1, KVHeads: 1, HeadSize: 8, Type: gguf.F32})
		clear(y.all())
		out := make([]backend.Output, 1)
		p := x.begin(s, rowsAt(n))
		p.ProjectAdd(y, add, h)
		p.NormGateUp(m, y, g, wg, wg)
		p.NormProject(q, k, v, y, g, wq, wq, wq)
		p.Attend(a, q, k, v, nil, nil, 1)
		p.Head(out, y, g, wg, backend.Want{Rows: []int{n - 1}, K: 1, Logits: true})
		require.NoError(t, p.End(t.Context()))
		for i := range n {
			x.near(fa(widened(h.line(i))), y.line(i), bar, "x of row %d of %d", i, n)
			normed := fn(y.line(i))
			want := fg(normed)
			for j, v := range want {
				want[j] *= v / (1 + math.Exp(-v))
			}
			x.near(want, m.line(i), 25*bar, "silu(gate)·up, row %d of %d", i, n)
			close64(t, fq(normed), s.at(1, int32(i), 0, true), bar)
		}
		x.near(fg(fn(y.line(n-1))), out[0].Logits, bar, "logits, %d rows", n)
	}
}
