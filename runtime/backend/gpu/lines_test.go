package gpu

import (
	"fmt"
	"math"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// linesOf is how many lines of 128 bytes the rows of a weight lie on that are taken four at a time, each four counted
// by itself. first are the rows that the fours begin with.
func (w *weight) linesOf(first []int) (lines int64) {
	for _, r := range first {
		from, to := w.offset+r*w.rowBytes, w.offset+min(r+4, w.rows)*w.rowBytes
		lines += int64((to-1)/128 - from/128 + 1)
	}
	return lines
}

// TestLines: weights in the pages of a file begin at any multiple of 32 bytes. They compute what copies compute, and
// from wherever they begin, no line of 128 bytes is touched more often than the rows need it.
func TestLines(t *testing.T) {
	dev := OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
	d, err := New(dev, Options{Mapped: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	x := &fixture{t: t, r: newRand(7), d: d}
	const cols, ffn, vocab, dh = 256, 60, 300, 8
	page := os.Getpagesize()
	memory := make([]byte, 400*page)
	at := page - int(uintptr(unsafe.Pointer(&memory[0]))%uintptr(page))
	next := 0
	mapped := func(kind gguf.Type, out int) (*weight, func([]float64) []float64) {
		m, values := x.matrix(kind, out, cols)
		at += page + 32 - at%32 // some way into a page
		at = (at+127)/128*128 + 32*next
		next = (next + 1) % 4
		m.Data = memory[at : at+copy(memory[at:], m.Data)]
		at += len(m.Data)
		w, err := d.LoadWeight(m, nil)
		require.NoError(t, err)
		require.Equal(t, (next+3)%4*32, w.(*weight).offset%128)
		return w.(*weight), func(h []float64) []float64 {
			y := make([]float64, out)
			for o := range y {
				for i, v := range h {
					y[o] += float64(values[o*cols+i]) * v
				}
			}
			return y
		}
	}
	for _, kind := range []gguf.Type{gguf.Q8_0, gguf.Q6_K} {
		for range 2 { // each matrix begins elsewhere the second time
			next++
			next %= 4
			wq, _ := mapped(kind, 4*dh)
			wk, fk := mapped(kind, 2*dh)
			wv, fv := mapped(kind, 2*dh)
			gate, fg := mapped(kind, ffn)
			up, fu := mapped(kind, ffn)
			add, fa := mapped(kind, cols)
			head, fh := mapped(kind, vocab)
			g, fn := x.normOf(cols)
			h, y, m := x.tensorOf(1, cols), x.tensorOf(1, cols), x.tensorOf(1, ffn)
			q, k, v, a := x.tensorOf(1, 4*dh), x.tensorOf(1, 2*dh), x.tensorOf(1, 2*dh), x.tensorOf(1, 4*dh)
			clear(y.all())
			s := x.kv(backend.KVConfig{Slots: 1, Heads: 4, KVHeads: 2, HeadSize: dh, Type: gguf.F32})
			out := make([]backend.Output, 1)
			require.NoError(t, dev.ResetCounts())
			p := x.begin(s, rowsAt(1))
			p.NormProject(q, k, v, h, g, wq, wk, wv)
			p.Attend(a, q, k, v, 1)
			p.NormGateUp(m, h, g, gate, up)
			p.ProjectAdd(y, add, h)
			p.Head(out, h, g, head, backend.Want{Rows: []int{0}, K: 1, Logits: true})
			require.NoError(t, p.End(t.Context()))

			normed := fn(h.line(0))
			close64(t, fv(normed)[dh:], s.at(1, 0, 1, true), bar)
			close64(t, turned(fk(normed)[:dh], 0, 1000), s.at(1, 0, 0, false), bar)
			silu := fg(normed)
			for j, other := range fu(normed) {
				silu[j] *= other / (1 + math.Exp(-silu[j]))
			}
			x.near(silu, m.line(0), 25*bar, "%s: silu(gate)·up", kind)
			x.near(fa(widened(h.line(0))), y.line(0), bar, "%s: w·h", kind)
			x.near(fh(normed), out[0].Logits, bar, "%s: logits", kind)

			counts := dev.Counts().Bindings
			for _, c := range []struct {
				op    string
				index int
				w     *weight
				first []int
			}{
				{"qkv", 0, wq, fours(wq.rows, dh)},
				{"qkv", 1, wk, fours(wk.rows, dh)},
				{"qkv", 2, wv, fours(wv.rows, dh)},
				{"gateup", 0, gate, fours(ffn, ffn)},
				{"gateup", 1, up, fours(ffn, ffn)},
				{"add", 0, add, fours(cols, cols)},
				{"head", 0, head, fours(vocab, vocab)},
			} {
				name := fmt.Sprintf("%s_1", kernel(c.op, kind))
				n := counts[soft.Binding{Pipeline: name, Index: c.index}]
				assert.Equal(t, c.w.linesOf(c.first), n.Lines,
					"%s, matrix %d, which begins %d bytes into a line", name, c.index, c.w.offset%128)
			}
		}
	}
}

// fours are the rows that a simdgroup begins with: of a head of dh rows each, the first halves and the second halves.
func fours(rows, dh int) (first []int) {
	half := dh
	if rows != dh {
		half = dh / 2
	}
	for r := 0; r < rows; r += half {
		for i := 0; i < half; i += 4 {
			first = append(first, r+i)
		}
	}
	return first
}
