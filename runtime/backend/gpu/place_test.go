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
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestInPlace: weights in the pages of a file start at any multiple of 32 bytes. Their results equal those of copies,
// and every byte is fetched once by the lanes of one load together, and no other bytes.
func TestInPlace(t *testing.T) {
	dev := OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
	page := os.Getpagesize()
	memory := make([]byte, 1200*page)
	at := page - int(uintptr(unsafe.Pointer(&memory[0]))%uintptr(page))
	d, err := New(dev, Options{Mapped: [][]byte{memory[at : at+1198*page]}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	x := &fixture{t: t, r: newRand(7), d: d}
	const cols, ffn, vocab, dh = 256, 60, 300, 8
	next := 0
	mapped := func(kind gguf.Type, out int) (*weight, func([]float64) []float64) {
		m, values := x.matrix(kind, out, cols)
		at += page + 32 - at%32 // at some offset in a page
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
	for _, kind := range []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		for range 2 { // each matrix has another offset the second time
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
			p.Attend(a, q, k, v, nil, nil, 1)
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
			}{{"qkv", 0, wq}, {"qkv", 1, wk}, {"qkv", 2, wv}, {"gateup", 0, gate}, {"gateup", 1, up}, {"add", 0, add},
				{"head", 0, head},
			} {
				name := fmt.Sprintf("%s_1", kernel(c.op, kind))
				n := counts[soft.Binding{Pipeline: name, Index: c.index}]
				what := fmt.Sprintf("%s, matrix %d, which begins %d bytes into a line", name, c.index, c.w.offset%128)
				assert.Equal(t, int64(c.w.rows*c.w.rowBytes), n.ReadUnique, what)
				assert.Equal(t, n.ReadUnique, n.Fetched, what)
			}
		}
	}
}

// TestWrappable: the memory of a file is wrapped if it begins on a page of the device, and its last page of the device
// is not larger than the system's pages of the file.
func TestWrappable(t *testing.T) {
	system := os.Getpagesize()
	page := 4 * system
	d := &Device{limits: metal.Limits{PageSize: page, BufferLength: 2 * page}}
	memory := make([]byte, 5*page)
	memory = memory[page-int(address(memory)%uintptr(page)):]
	for length, want := range map[int]bool{
		1: false, 3 * system: false, 3*system + 1: true, page: true, page + 1: false, 2*page - system: false,
		2*page - system + 1: true, 2 * page: true, 2*page + 1: false, 3 * page: false,
	} {
		assert.Equal(t, want, d.wrappable(memory[:length]), length)
		assert.False(t, d.wrappable(memory[system:system+length]), length)
	}
}
