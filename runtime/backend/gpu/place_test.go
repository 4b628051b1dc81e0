package gpu

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/record"
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
				name := fmt.Sprintf("%s_1", kernelName(c.op, kind))
				n := counts[soft.Binding{Pipeline: name, Index: c.index}]
				what := fmt.Sprintf("%s, matrix %d, which begins %d bytes into a line", name, c.index, c.w.offset%128)
				assert.Equal(t, int64(c.w.rows*c.w.rowBytes), n.ReadUnique, what)
				assert.Equal(t, n.ReadUnique, n.Fetched, what)
			}
		}
	}
}

// TestTwoFiles: weights in several mapped files are used in place, each in the one buffer of its own file. Data that
// does not lie in a file as a whole is copied.
func TestTwoFiles(t *testing.T) {
	page := os.Getpagesize()
	memory := make([]byte, 8*page)
	memory = memory[page-int(addressOf(memory)%uintptr(page)):]
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	first, second := memory[:2*page], memory[3*page:5*page]
	d, err := New(record.Open(), Options{Mapped: [][]byte{first, second}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	for _, file := range [][]byte{first, second} {
		one, offset, err := d.mapOrCopy(file[32:64])
		require.NoError(t, err)
		assert.Equal(t, 32, offset)
		assert.Equal(t, addressOf(file), addressOf(one.Bytes()))
		last, offset, err := d.mapOrCopy(file[2*page-8:])
		require.NoError(t, err)
		assert.Equal(t, 2*page-8, offset)
		assert.Same(t, one, last, "one buffer for a file")
	}
	for _, at := range [][2]int{{2*page - 8, 2*page + 8}, {3*page - 8, 3*page + 8}, {6 * page, 6*page + 8}} {
		data := memory[at[0]:at[1]]
		b, offset, err := d.mapOrCopy(data)
		require.NoError(t, err)
		assert.Equal(t, data, b.Bytes()[offset:][:len(data)])
		assert.NotEqual(t, addressOf(data), addressOf(b.Bytes()[offset:]), "a copy")
	}
}

// TestRoom: activations and KV stores may fill a buffer of the device, and are refused if they need more, or if they
// have no size.
func TestRoom(t *testing.T) {
	d, err := New(record.Open(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	c := backend.KVConfig{Layers: 1, Slots: 5, Heads: 6, KVHeads: 3, HeadSize: 20, RopeBase: 1000, Type: gguf.F16}
	d.limits.BufferLength = 2 * 3 * 5 * 24 * 2 // heads are padded to 24 elements
	store, err := d.NewKV(c)
	require.NoError(t, err)
	assert.Len(t, store.(*kv).layers[0].Bytes(), d.limits.BufferLength)
	c.Slots++
	_, err = d.NewKV(c)
	assert.ErrorContains(t, err, "kv: 6 slots do not fit into a buffer of the device")
	_, err = d.NewTensor(90, 4)
	assert.NoError(t, err)
	_, err = d.NewTensor(91, 4)
	assert.ErrorContains(t, err, "activations of 91 × 4")
	c.Slots--
	for _, bad := range []int{0, -1} {
		for name, edit := range map[string]func(*backend.KVConfig){
			"%d layers":      func(c *backend.KVConfig) { c.Layers = bad },
			"%d slots":       func(c *backend.KVConfig) { c.Slots = bad },
			"%d query heads": func(c *backend.KVConfig) { c.Heads = bad },
			"%d heads":       func(c *backend.KVConfig) { c.KVHeads = bad },
			"head size %d":   func(c *backend.KVConfig) { c.HeadSize = bad },
		} {
			c := c
			edit(&c)
			_, err := d.NewKV(c)
			assert.ErrorContains(t, err, fmt.Sprintf(name, bad))
		}
		for _, size := range [][2]int{{bad, 1}, {1, bad}} {
			_, err := d.NewTensor(size[0], size[1])
			assert.ErrorContains(t, err, "impossible size")
		}
	}
}

// TestRoutersRefused: layers that do not fit each other, or that the kernels have no room for, are refused.
func TestRoutersRefused(t *testing.T) {
	d, err := New(record.Open(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	layer := func(in, out int) backend.RouterLayer {
		return backend.RouterLayer{In: in, Out: out, Weight: make([]float32, in*out), Bias: make([]float32, out)}
	}
	short := layer(4, 1)
	short.Bias = nil
	for _, c := range []struct {
		features bool
		want     string // "": none
		layers   []backend.RouterLayer
	}{
		{false, "", []backend.RouterLayer{layer(4, 3), layer(3, 1)}},
		{true, "", []backend.RouterLayer{layer(3, 1)}},
		{true, "router layer 0: 2 to 1", []backend.RouterLayer{layer(2, 1)}}, // features alone
		{false, "router layer 1: 2 to 1 does not fit", []backend.RouterLayer{layer(4, 3), layer(2, 1)}},
		{false, "router layer 1: 3 to 2 does not fit", []backend.RouterLayer{layer(4, 3), layer(3, 2)}},
		{false, "router layer 0: 4 to 1 does not fit", []backend.RouterLayer{short}},
		{false, "", []backend.RouterLayer{layer(4, kernels.MergeWidth), layer(kernels.MergeWidth, 1)}},
		{false, "router layer 0: 4 to 1025", []backend.RouterLayer{layer(4, kernels.MergeWidth+1)}},
		{false, "", slices.Repeat([]backend.RouterLayer{layer(1, 1)}, kernels.MergeLayers)},
		{false, "router: 17 layers", slices.Repeat([]backend.RouterLayer{layer(1, 1)}, kernels.MergeLayers+1)},
	} {
		_, err := d.LoadRouter(c.layers, c.features)
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
	nan := float32(math.NaN())
	assert.Equal(t, [5]float32{0, 0, 0.25, 1, 1},
		[5]float32{
			clampConfidence(nan), clampConfidence(-1), clampConfidence(0.25), clampConfidence(1), clampConfidence(2),
		})
}

// TestWrappable: the memory of a file is wrapped if it begins on a page of the device, and its last page of the device
// is not larger than the system's pages of the file.
func TestWrappable(t *testing.T) {
	system := os.Getpagesize()
	page := 4 * system
	d := &Device{limits: metal.Limits{PageSize: page, BufferLength: 2 * page}}
	memory := make([]byte, 5*page)
	memory = memory[page-int(addressOf(memory)%uintptr(page)):]
	for length, want := range map[int]bool{
		1: false, 3 * system: false, 3*system + 1: true, page: true, page + 1: false, 2*page - system: false,
		2*page - system + 1: true, 2 * page: true, 2*page + 1: false, 3 * page: false,
	} {
		assert.Equal(t, want, d.canWrap(memory[:length]), length)
		assert.False(t, d.canWrap(memory[system:system+length]), length)
	}
}
