package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer/reference"
)

// recurrentFile returns a small random Qwen3.5 of one recurrent layer and one with attention, changed by edit.
func recurrentFile(t testing.TB, recipe string, edit func(*synth.Spec)) *gguf.File {
	t.Helper()
	return file(t, recipe, func(s *synth.Spec) {
		*s = synth.Tiny35(s.Recipe, 42)
		s.Layers, s.Linear.Interval = 2, 2
		if edit != nil {
			edit(s)
		}
	})
}

// allLogits evaluates ids in passes of so many rows and returns the logits of all.
func allLogits(t testing.TB, m *transformer.Model, ids []int32, kv gguf.Type, pass int) (all [][]float32) {
	t.Helper()
	c, err := m.NewCache(len(ids), kv)
	require.NoError(t, err)
	for len(ids) > 0 {
		n := min(pass, len(ids))
		rows, err := c.Extend(ids[:n])
		require.NoError(t, err)
		want := backend.Want{K: 1, Logits: true}
		for i := range rows {
			want.Rows = append(want.Rows, i)
		}
		out := make([]backend.Output, n)
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
		for _, o := range out {
			all = append(all, o.Logits)
		}
		ids = ids[n:]
	}
	return all
}

// TestRecurrent compares with the recurrence in float64, for texts that end in several chunks, in passes of few rows,
// which have the same bits, and of many.
func TestRecurrent(t *testing.T) {
	racing.Spare(t)
	ids := randomTokens(rand.New(rand.NewPCG(3, 3)), 52, 300)
	dev := gpu.OpenMetal(t, soft.Options{Seed: 1})
	for name, edit := range map[string]func(*synth.Spec){
		"as it is":        nil,
		"one key head":    func(s *synth.Spec) { s.Linear.KeyHeads, s.Linear.ValueHeads = 1, 3 },
		"longer kernel":   func(s *synth.Spec) { s.Linear.Kernel = 16 },
		"no convolution":  func(s *synth.Spec) { s.Linear.Kernel = 1 },
		"other values":    func(s *synth.Spec) { s.Linear.KeySize, s.Linear.ValueSize = 12, 20 },
		"sizes of a Qwen": func(s *synth.Spec) { s.HeadSize, s.Linear.KeySize, s.Linear.ValueSize = 256, 128, 128 },
	} {
		t.Run(name, func(t *testing.T) {
			f := recurrentFile(t, "f32", edit)
			r, err := reference.Load(f)
			require.NoError(t, err)
			want := r.Logits(ids)
			m, _ := load(t, f, dev, gpu.Options{})
			var few, many [][]float32
			passes := []int{8, 1, 3, 33, 9, 52}
			if testing.Short() && edit != nil {
				passes = []int{8, 52}
			}
			for _, pass := range passes {
				got := allLogits(t, m, ids, gguf.F32, pass)
				for i := range got {
					require.Less(t, relativeError(got[i], want[i]), 2e-5, "position %d in passes of %d", i, pass)
				}
				switch {
				case few == nil:
					few = got
				case pass <= 8:
					require.Equal(t, few, got, "passes of %d", pass)
				case many == nil:
					many = got
				case pass > 8 && len(ids)%pass == 0:
					require.Equal(t, many[:33], got[:33], "passes of %d", pass)
				}
			}
			if testing.Short() && edit != nil {
				return
			}
			few = allLogits(t, m, ids, gguf.F16, 8)
			require.Equal(t, few, allLogits(t, m, ids, gguf.F16, 3), "states in F16")
		})
	}
}

// TestRecurrentChecked: the same, with every access checked, no order of threads assumed, and memory that holds nothing
// yet, for weights of several types, of which each has its dispatch.
func TestRecurrentChecked(t *testing.T) {
	racing.Spare(t)
	ids := randomTokens(rand.New(rand.NewPCG(5, 5)), 21, 300)
	for _, recipe := range []string{"q4_k_m", "f16"} {
		f := recurrentFile(t, recipe, nil)
		want := exactLogits(t, f, ids)
		dev := gpu.OpenMetal(t, soft.Options{Variant: soft.Check, Seed: rand.Uint64N(1 << 20), PoisonBuffers: true})
		m, _ := load(t, f, dev, gpu.Options{})
		for _, pass := range []int{1, 7, 21} {
			got := allLogits(t, m, ids, gguf.F32, pass)
			for i := range got {
				require.Less(t, relativeError(got[i], want[i]), 1e-4, "%s, row %d in passes of %d", recipe, i, pass)
			}
		}
	}
}

func exactLogits(t *testing.T, f *gguf.File, ids []int32) [][]float32 {
	return allLogits(t, exact(t, f), ids, gguf.F32, len(ids))
}

// branches is a text with a tree of drafts after it, and the recurrence in float64.
type branches struct {
	t     *testing.T
	m     *transformer.Model
	c     *transformer.Cache
	r     *rand.Rand
	want  *reference.Model
	text  []int32
	nodes []branch
}

// branch is a node of the tree: slots and tokens from the child of the text on.
type branch struct{ slots, tokens []int32 }

// TestRecurrentDropped: rows of random trees, over texts that are settled, continued and cut, agree with the
// recurrence, while the store drops states at random, so that they are computed again.
func TestRecurrentDropped(t *testing.T) {
	racing.Spare(t)
	f := recurrentFile(t, "f32", nil)
	want, err := reference.Load(f)
	require.NoError(t, err)
	m, _ := load(t, f, gpu.OpenMetal(t, soft.Options{Seed: 1}), gpu.Options{})
	seeds := uint64(10)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c, err := m.NewCache(90, gguf.F32)
			require.NoError(t, err)
			b := &branches{t: t, m: m, c: c, r: rand.New(rand.NewPCG(seed, 7)), want: want}
			for range 40 {
				b.step()
				if b.r.IntN(3) == 0 {
					c.KV().(backend.DeltaKV).Trim(b.r.IntN(3), b.r.IntN(20))
				}
			}
		})
	}
}

func (b *branches) step() {
	switch k := b.r.IntN(6); {
	case k == 0 && len(b.nodes) > 0: // settle one, and free the others
		n := b.nodes[b.r.IntN(len(b.nodes))]
		var others []int32
		for _, other := range b.nodes {
			if last := other.slots[len(other.slots)-1]; !slices.Contains(n.slots, last) {
				others = append(others, last)
			}
		}
		for _, m := range b.c.Settle(n.slots...) {
			for i := range others {
				if others[i] == m.From {
					others[i] = m.To
				}
			}
		}
		b.c.Free(others...)
		b.text, b.nodes = append(b.text, n.tokens...), nil
	case k == 1 && len(b.nodes) == 0 && len(b.text) > 20:
		b.text = b.text[:len(b.text)-b.r.IntN(20)]
		b.c.Truncate(len(b.text))
	case k < 4 && len(b.nodes) == 0 && len(b.text) < 60:
		more := randomTokens(b.r, 1+b.r.IntN(25), 300)
		rows, err := b.c.Extend(more)
		require.NoError(b.t, err)
		b.text = append(b.text, more...)
		b.compare(rows, []int{len(rows) - 1}, [][]int32{b.text})
	case len(b.nodes) < 12:
		b.grow(1 + b.r.IntN(4))
	}
}

// grow adds n nodes below random others, or below the text, in one pass.
func (b *branches) grow(n int) {
	var rows []backend.Row
	var texts [][]int32
	var wanted []int
	from := len(b.nodes)
	for i := range n {
		var above branch
		if at := b.r.IntN(len(b.nodes) + 1); at < len(b.nodes) { // of this pass, too
			above = b.nodes[at]
		}
		slot, err := b.c.Alloc(len(b.text) + len(above.slots))
		require.NoError(b.t, err)
		token := b.r.Int32N(300)
		rows = append(rows, b.c.Node(token, slot, above.slots...))
		b.nodes = append(b.nodes, branch{
			append(slices.Clone(above.slots), slot), append(slices.Clone(above.tokens), token),
		})
		texts = append(texts, append(slices.Clone(b.text), b.nodes[from+i].tokens...))
		wanted = append(wanted, i)
	}
	b.compare(rows, wanted, texts)
}

// compare evaluates rows, and compares some of them with their texts.
func (b *branches) compare(rows []backend.Row, wanted []int, texts [][]int32) {
	b.t.Helper()
	out := make([]backend.Output, len(wanted))
	err := b.m.Forward(b.t.Context(), b.c.KV(), rows, out, backend.Want{Rows: wanted, K: 1, Logits: true})
	require.NoError(b.t, err)
	for i, text := range texts {
		all := b.want.Logits(text)
		require.Less(b.t, relativeError(out[i].Logits, all[len(all)-1]), 2e-5, "text of %d tokens", len(text))
	}
}

// TestRecurrentSaved: states that are read from one store and written to another continue with the same bits.
func TestRecurrentSaved(t *testing.T) {
	racing.Spare(t)
	ids := randomTokens(rand.New(rand.NewPCG(6, 6)), 43, 300)
	dev := gpu.OpenMetal(t, soft.Options{Seed: 1})
	m, _ := load(t, recurrentFile(t, "q8_0", nil), dev, gpu.Options{})
	for _, n := range []int{3, 16, 37, 40} {
		for _, kind := range []gguf.Type{gguf.F16, gguf.F32} {
			from, to := savedCaches(t, m, ids[:n], kind)
			want := feed(t, m, from, ids[n:], 2)
			require.Equal(t, want, feed(t, m, to, ids[n:], 2), "%d tokens, %s", n, kind)
		}
	}
}

// TestRecurrentFault: if the pass fails that computes a state to be read, the error says so, and the next one reads it.
func TestRecurrentFault(t *testing.T) {
	dev := &faulty{Device: gpu.OpenMetal(t, soft.Options{Seed: 1}), fails: map[int]bool{}}
	m, _ := load(t, recurrentFile(t, "q8_0", nil), dev, gpu.Options{})
	ids := randomTokens(rand.New(rand.NewPCG(6, 6)), 2*backend.DeltaChunk, 300)
	var read [2][]byte
	for i := range read {
		c, err := m.NewCache(len(ids), gguf.F16)
		require.NoError(t, err)
		feed(t, m, c, ids, 5)
		kv := c.KV().(backend.DeltaKV)
		read[i] = make([]byte, kv.Config().Delta.SavedBytes(len(ids), gguf.F16))
		if i > 0 {
			dev.fails[dev.made] = true
			require.ErrorIs(t, kv.ReadState(len(ids), read[i]), backend.ErrFault)
		}
		require.NoError(t, kv.ReadState(len(ids), read[i]))
	}
	require.Equal(t, read[0], read[1])
}

// savedCaches returns a cache with a text, and another to which that was copied.
func savedCaches(t *testing.T, m *transformer.Model, text []int32, kind gguf.Type) (from, to *transformer.Cache) {
	from, err := m.NewCache(60, kind)
	require.NoError(t, err)
	feed(t, m, from, text, 5)
	to, err = m.NewCache(60, kind)
	require.NoError(t, err)
	feed(t, m, to, text[:2], 1) // another number of updates
	to.Clear()
	require.NoError(t, to.Restore(len(text)))
	a, b, n := from.KV().(backend.DeltaKV), to.KV().(backend.DeltaKV), len(text)
	require.Equal(t, n, a.Resume([]backend.Span{{From: 0, To: int32(n)}}, nil))
	for layer := range a.Config().Layers {
		rows := make([]byte, a.Config().LayerBytes(n))
		a.Read(layer, n, rows)
		b.Write(layer, n, rows)
	}
	states := make([]byte, a.Config().Delta.SavedBytes(n, kind))
	require.NoError(t, a.ReadState(n, states))
	require.NoError(t, b.WriteState(text, states))
	return from, to
}
