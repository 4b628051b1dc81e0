//go:build linux && (amd64 || arm64)

package mtl

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// loadModel loads a tiny model of random weights on a device. wrap, if given, wraps the backend. The returned function
// closes everything except the device.
func loadModel(t *testing.T, d metal.Device, wrap ...func(backend.Device) backend.Device) (
	*transformer.Model, *transformer.Cache, func(),
) {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 4)
	spec.Layers, spec.Context = 1, 1024
	spec.Dim, spec.Heads, spec.KVHeads, spec.FFN, spec.Tied = 64, 4, 2, 64, false // only the host code is tested here
	var b bytes.Buffer
	require.NoError(t, spec.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	g, err := gpu.New(d, gpu.Options{})
	require.NoError(t, err)
	var outer backend.Device = g
	for _, w := range wrap {
		outer = w(g)
	}
	m, err := transformer.Load(f, outer)
	require.NoError(t, err)
	c, err := m.NewCache(600, gguf.F16)
	require.NoError(t, err)
	require.NoError(t, g.CompileKernels()) // nothing is made behind the test
	return m, c, func() { require.NoError(t, g.Close()) }
}

// decode returns the n greedy tokens after a prompt, with ahead flights in addition to the one that is waited for. Some
// flights are dropped at random, and the text continues from before them. seen is called between tokens.
func decode(
	t *testing.T, m *transformer.Model, c *transformer.Cache, n, ahead int, seen func(token int),
) (ids []int32) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(ahead), 1))
	rows, err := c.Extend([]int32{3, 1, 4, 1, 5})
	require.NoError(t, err)
	out, want := make([]backend.Output, 1), backend.Want{Rows: []int{4}, K: 2}
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	next := out[0].Top[0].ID
	var flights []*transformer.Flight
	var under []backend.Row // of flights
	for len(ids) < n {
		ids = append(ids, next)
		for k := len(flights); k <= ahead; k++ {
			row, before := c.Node(next, int32(c.Len())), (*transformer.Flight)(nil)
			if k > 0 {
				row, before = transformer.Child(under[k-1], under[k-1].Slot+1), flights[k-1]
			}
			f, err := m.Start(c.KV(), row, want, before)
			require.NoError(t, err)
			flights, under = append(flights, f), append(under, row)
		}
		found, err := flights[0].Wait(t.Context())
		require.NoError(t, err)
		next, flights, under = found.Top[0].ID, flights[1:], under[1:]
		slot, err := c.Alloc(c.Len())
		require.NoError(t, err)
		c.Settle(slot)
		if random.IntN(4) == 0 { // a rollback: the tokens ahead are dropped
			for _, f := range flights {
				f.Drop()
			}
			flights, under = nil, nil
		}
		seen(len(ids))
	}
	for _, f := range flights {
		f.Drop()
	}
	return ids
}

// TestModel generates tokens through Objective-C, two tokens ahead and with random rollbacks: they equal those of step
// by step decoding without Objective-C, and no objects are left, neither during decoding nor at the end.
func TestModel(t *testing.T) {
	needClang(t)
	direct, err := soft.Open(soft.Options{})
	require.NoError(t, err)
	m, c, done := loadModel(t, direct)
	tokens := 200
	if testing.Short() {
		tokens = 100
	}
	want := decode(t, m, c, tokens, 0, func(int) {})
	done()
	require.NoError(t, direct.Close())
	require.Greater(t, len(slices.Compact(slices.Clone(want))), 20, "a varied text")

	under, err := soft.Open(soft.Options{PageSize: fakePage})
	require.NoError(t, err)
	f := newFake(t, under)
	m, c, done = loadModel(t, f.open(t))
	objects := 0
	got := decode(t, m, c, tokens, 2, func(token int) {
		if n := len(f.left()); token == 50 {
			objects = n
		} else if token > 50 {
			require.LessOrEqual(t, n, objects+12, "objects pile up") // up to three command buffers are in flight
		}
	})
	done()
	assert.Equal(t, want, got)
}

// refusing is a device that compiles sources only with some text.
type refusing struct {
	metal.Device
	text  string
	later bool // it refuses the pipelines of a library, not the library
}

func (r refusing) NewLibrary(source string) (metal.Library, error) {
	form := strings.Contains(source, "#define EQUAL_OPERANDS\n")
	if strings.Contains(source, r.text) {
		return r.Device.NewLibrary(source)
	}
	err := &metal.CompileError{Log: fmt.Sprintf("refused %t\nnote: a candidate", form)}
	if r.later {
		l, _ := r.Device.NewLibrary(source)
		return refusingLibrary{l, err}, nil
	}
	return nil, err
}

// refusingLibrary makes no pipeline.
type refusingLibrary struct {
	metal.Library
	err error
}

func (l refusingLibrary) NewPipeline(string, ...metal.Constant) (metal.Pipeline, error) {
	return nil, l.err
}

// TestEqualOperands: if Metal refuses the kernels, they are compiled once more with products of equal operands. If it
// refuses these too, the error has both reasons. Later sources are compiled once.
func TestEqualOperands(t *testing.T) {
	needClang(t)
	for name, c := range map[string]struct {
		text, because, fails string
		later                bool
		sources              int
	}{
		"mixed":     {"", "", "", false, 1},
		"equal":     {"#define EQUAL_OPERANDS\n", ", equal operands because of refused false", "", false, 2},
		"pipelines": {"#define EQUAL_OPERANDS\n", ", equal operands because of refused false", "", true, 2},
		"later":     {"attendwide.metal", "", "", false, 1}, // no kernels of weights have it
		"none": {"nothing has this", "", "refused false\nnote: a candidate; with matrix products of equal operands: " +
			"compile Metal source: refused true", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			under, err := soft.Open(soft.Options{PageSize: fakePage})
			require.NoError(t, err)
			f := newFake(t, refusing{under, c.text, c.later})
			m := f.open(t)
			d, err := gpu.New(m, gpu.Options{})
			assert.Equal(t, c.sources, f.counts["newLibraryWithSource:options:error:"])
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			w := gguf.Tensor{Name: "w", Type: gguf.F16, Shape: []int{2, 1}, Data: make([]byte, 4)}
			_, err = d.LoadWeight(w, nil)
			assert.Equal(t, name == "later", err != nil, err)
			require.NoError(t, d.CompileKernels())
			assert.Equal(t, c.sources+1, f.counts["newLibraryWithSource:options:error:"])
			assert.Equal(t, "gpu ("+m.Name()+")"+c.because, d.Name())
			require.NoError(t, d.Close())
		})
	}
}

// broken is a device whose passes panic in a layer.
type broken struct{ backend.Device }

type brokenPass struct{ backend.Pass }

func (d broken) Begin(kv backend.KV, rows []backend.Row) backend.Pass {
	return brokenPass{d.Device.Begin(kv, rows)}
}

func (p brokenPass) NormGateUp(_, _ backend.Tensor, _ backend.Norm, _, _ backend.Weight) {
	panic("a bug")
}

// TestPanicInPass: a panic during encoding, from which a server recovers, ends the encoder and the pool. The fake fails
// if an encoder is released before its end, and lists the pools that are left.
func TestPanicInPass(t *testing.T) {
	needClang(t)
	under, err := soft.Open(soft.Options{PageSize: fakePage})
	require.NoError(t, err)
	f := newFake(t, under)
	d := f.open(t)
	m, c, done := loadModel(t, d, func(g backend.Device) backend.Device { return broken{g} })
	rows, err := c.Extend([]int32{3, 1})
	require.NoError(t, err)
	out, want := make([]backend.Output, 1), backend.Want{Rows: []int{1}, K: 1}
	objects := 0
	for i := range 3 {
		assert.PanicsWithValue(t, "a bug", func() { _ = m.Forward(t.Context(), c.KV(), rows, out, want) })
		assert.Empty(t, d.objc.pools, "an open pool, and a goroutine that is locked to its thread")
		if n := len(f.left()); i == 0 {
			objects = n // with buffers that passes share
		} else {
			assert.Equal(t, objects, n)
		}
	}
	done()
}
