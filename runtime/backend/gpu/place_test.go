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

// fileWeights loads random weights with a number of columns from the pages of a file, each at the next offset in a line
// of 128 bytes.
type fileWeights struct {
	*fixture
	memory         []byte
	at, next, cols int
}

func newFileWeights(t *testing.T, dev metal.Device, cols int) *fileWeights {
	page := os.Getpagesize()
	memory := make([]byte, 1200*page)
	at := page - int(uintptr(unsafe.Pointer(&memory[0]))%uintptr(page))
	d, err := New(dev, Options{Mapped: [][]byte{memory[at : at+1198*page]}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &fileWeights{&fixture{t: t, r: newRand(7), d: d}, memory, at, 0, cols}
}

// load returns a weight, and its product with a vector.
func (f *fileWeights) load(kind gguf.Type, out int) (*weight, func([]float64) []float64) {
	m, values := f.matrix(kind, out, f.cols)
	f.at += os.Getpagesize() + 32 - f.at%32 // at some offset in a page
	f.at = (f.at+127)/128*128 + 32*f.next
	m.Data = f.memory[f.at : f.at+copy(f.memory[f.at:], m.Data)]
	f.at += len(m.Data)
	w, err := f.d.LoadWeight(m, nil)
	require.NoError(f.t, err)
	require.Equal(f.t, f.next*32, w.(*weight).offset%128)
	f.next = (f.next + 1) % 4
	return w.(*weight), func(h []float64) []float64 {
		y := make([]float64, out)
		for o := range y {
			for i, v := range h {
				y[o] += float64(values[o*f.cols+i]) * v
			}
		}
		return y
	}
}

// checkFetchedOnce checks that a kernel for one row fetches each byte of its weights once, and no others.
func checkFetchedOnce(t *testing.T, counts soft.Counts, kernel string, weights ...*weight) {
	t.Helper()
	name := kernel + "_1"
	for i, w := range weights {
		n := counts.Bindings[soft.Binding{Pipeline: name, Index: i}]
		what := fmt.Sprintf("%s, matrix %d, which begins %d bytes into a line", name, i, w.offset%128)
		assert.Equal(t, int64(w.rows*w.rowBytes), n.ReadUnique, what)
		assert.Equal(t, n.ReadUnique, n.Fetched, what)
	}
}

// TestInPlace: weights in the pages of a file start at any multiple of 32 bytes. Their results equal those of copies,
// and every byte is fetched once by the lanes of one load together, and no other bytes.
func TestInPlace(t *testing.T) {
	const cols, ffn, vocab, dh = 256, 60, 300, 8
	dev := OpenMetal(t, soft.Options{Variant: soft.Check}).(*soft.Device)
	x := newFileWeights(t, dev, cols)
	for _, kind := range []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		for range 2 { // each matrix has another offset the second time
			x.next = (x.next + 1) % 4
			wq, _ := x.load(kind, 4*dh)
			wk, fk := x.load(kind, 2*dh)
			wv, fv := x.load(kind, 2*dh)
			gate, fg := x.load(kind, ffn)
			up, fu := x.load(kind, ffn)
			add, fa := x.load(kind, cols)
			head, fh := x.load(kind, vocab)
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

			counts := dev.Counts()
			checkFetchedOnce(t, counts, kernelName("qkv", kind), wq, wk, wv)
			checkFetchedOnce(t, counts, kernelName("gateup", kind), gate, up)
			checkFetchedOnce(t, counts, kernelName("add", kind), add)
			checkFetchedOnce(t, counts, kernelName("head", kind), head)
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
	type layers []backend.RouterLayer
	for _, c := range []struct {
		name     string
		features bool
		want     string // "": none
		layers   layers
	}{
		{"two layers", false, "", layers{layer(4, 3), layer(3, 1)}},
		{"one value and the features", true, "", layers{layer(3, 1)}},
		{"features alone", true, "router layer 0: 2 to 1", layers{layer(2, 1)}},
		{"a narrow second layer", false, "router layer 1: 2 to 1 does not fit", layers{layer(4, 3), layer(2, 1)}},
		{"two results", false, "router layer 1: 3 to 2 does not fit", layers{layer(4, 3), layer(3, 2)}},
		{"no bias", false, "router layer 0: 4 to 1 does not fit", layers{short}},
		{"the widest layer", false, "", layers{layer(4, kernels.MergeWidth), layer(kernels.MergeWidth, 1)}},
		{"a layer that is too wide", false, "router layer 0: 4 to 1025", layers{layer(4, kernels.MergeWidth+1)}},
		{"the most layers", false, "", slices.Repeat(layers{layer(1, 1)}, kernels.MergeLayers)},
		{"too many layers", false, "router: 17 layers", slices.Repeat(layers{layer(1, 1)}, kernels.MergeLayers+1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.LoadRouter(c.layers, c.features)
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

func TestClampConfidence(t *testing.T) {
	for _, c := range []struct{ confidence, want float32 }{
		{float32(math.NaN()), 0}, {-1, 0}, {0.25, 0.25}, {1, 1}, {2, 1},
	} {
		assert.Equal(t, c.want, clampConfidence(c.confidence), "%v", c.confidence)
	}
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
