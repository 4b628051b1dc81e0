package transformer_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// file returns a small random model in memory, changed by edit if that is given.
func file(t testing.TB, recipe string, edit func(*synth.Spec)) *gguf.File {
	t.Helper()
	r, err := synth.ParseRecipe(recipe)
	require.NoError(t, err)
	s := synth.Tiny(r, 42)
	if edit != nil {
		edit(&s)
	}
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// load loads f on a CPU device that is closed with the test.
func load(t testing.TB, f *gguf.File, o host.Options) *transformer.Model {
	t.Helper()
	d, err := host.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	m, err := transformer.Load(f, d)
	require.NoError(t, err)
	return m
}

func randomTokens(r *rand.Rand, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}

// prefill evaluates ids in a new cache in one call.
func prefill(t testing.TB, m *transformer.Model, ids []int32, kv gguf.Type) backend.Output {
	t.Helper()
	c, err := m.NewCache(len(ids), kv)
	require.NoError(t, err)
	rows, err := c.Extend(ids)
	require.NoError(t, err)
	out := make([]backend.Output, 1)
	want := backend.Want{Rows: []int{len(rows) - 1}, K: 5, Logits: true, Hidden: true}
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	return out[0]
}

// TestShapes: sizes of heads, groups, untied heads, and rows that are not multiples of 32.
func TestShapes(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(2, 2)), 9, 300)
	for name, edit := range map[string]func(*synth.Spec){
		"attention of Qwen2.5-0.5B": func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN = 896, 14, 2, 96 },
		"small heads":               func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN = 64, 8, 4, 172 },
		"untied, heads of 128": func(s *synth.Spec) {
			s.Dim, s.Heads, s.KVHeads, s.FFN, s.Tied = 256, 2, 1, 64, false
		},
		"odd rows":  func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN, s.Vocab = 60, 3, 3, 50, 1031 },
		"one layer": func(s *synth.Spec) { s.Layers, s.Vocab = 1, 300 },
	} {
		t.Run(name, func(t *testing.T) {
			f := file(t, "q8_0", edit)
			ref := prefill(t, load(t, f, host.Options{Exact: true}), ids, gguf.F32)
			ref64 := make([]float64, len(ref.Logits))
			for i, l := range ref.Logits {
				ref64[i] = float64(l)
			}
			got := prefill(t, load(t, f, host.Options{}), ids, gguf.F16)
			assert.Less(t, relativeError(got.Logits, ref64), 0.06)
		})
	}
}

// node is a token of a draft tree in a test.
type node struct {
	token    int32
	slot     int32
	parent   *node // nil for a child of the prefix
	children []*node
}

// path returns the nodes from the prefix's child down to n.
func (n *node) path() []*node {
	if n == nil {
		return nil
	}
	return append(n.parent.path(), n)
}

// tree is a cache with a draft tree after its prefix, and their contents.
type tree struct {
	t      *testing.T
	m      *transformer.Model
	c      *transformer.Cache
	prefix []int32
	nodes  []*node
}

// grow adds a child to each of some nodes (nil: the prefix) in one batch, and compares each with an evaluation of its
// text from the start: all bits are equal.
func (x *tree) grow(parents []*node, tokens []int32) {
	var rows []backend.Row
	want := backend.Want{K: 3, Logits: true, Hidden: true}
	var added []*node
	for i, p := range parents {
		above := p.path()
		slot, err := x.c.Alloc(len(x.prefix) + len(above))
		require.NoError(x.t, err)
		slots := make([]int32, len(above))
		for j, a := range above {
			slots[j] = a.slot
		}
		rows = append(rows, x.c.Node(tokens[i], slot, slots...))
		want.Rows = append(want.Rows, i)
		added = append(added, &node{token: tokens[i], slot: slot, parent: p})
	}
	out := make([]backend.Output, len(rows))
	require.NoError(x.t, x.m.Forward(x.t.Context(), x.c.KV(), rows, out, want))
	for i, n := range added {
		text := append([]int32(nil), x.prefix...)
		for _, a := range n.path() {
			text = append(text, a.token)
		}
		alone := prefill(x.t, x.m, text, gguf.F16)
		alone.Top = alone.Top[:3]
		require.Equal(x.t, alone, out[i], "text of %d tokens in a batch of %d", len(text), len(rows))
		if n.parent != nil {
			n.parent.children = append(n.parent.children, n)
		}
		x.nodes = append(x.nodes, n)
	}
}

// drop frees n and its descendants.
func (x *tree) drop(n *node) {
	gone := map[*node]bool{n: true}
	kept := x.nodes[:0:0]
	for _, k := range x.nodes { // parents come before children
		if gone[k] || gone[k.parent] {
			gone[k] = true
			x.c.Free(k.slot)
		} else {
			kept = append(kept, k)
		}
	}
	x.nodes = kept
}

// settle makes the path to n part of the prefix and drops what contradicts it.
func (x *tree) settle(n *node) {
	path := n.path()
	on := map[*node]bool{nil: true}
	for _, p := range path {
		on[p] = true
	}
	for again := true; again; {
		again = false
		for _, k := range x.nodes {
			if on[k.parent] && !on[k] && k.parent != n {
				x.drop(k)
				again = true
				break
			}
		}
	}
	slots := make([]int32, len(path))
	for i, p := range path {
		slots[i] = p.slot
		x.prefix = append(x.prefix, p.token)
	}
	kept := x.nodes[:0:0]
	for _, k := range x.nodes {
		if !on[k] {
			kept = append(kept, k)
		}
	}
	x.nodes = kept
	for _, move := range x.c.Settle(slots...) {
		for _, k := range x.nodes {
			if k.slot == move.From {
				k.slot = move.To
			}
		}
	}
	for _, k := range n.children {
		k.parent = nil
	}
	require.Equal(x.t, len(x.prefix), x.c.Len())
}

// TestTree grows, drops and settles random draft trees. For any history of the slots, the results of each branch equal
// those of its text alone, to the last bit: with several branches in one batch, reused slots, moved rows.
func TestTree(t *testing.T) {
	for _, recipe := range []string{"q8_0", "q4_k_m", "f16", "q5_0"} {
		m := load(t, file(t, recipe, func(s *synth.Spec) {
			if recipe == "q5_0" {
				s.Qwen3, s.HeadSize = true, 128
			}
		}), host.Options{Threads: 2})
		seeds := uint64(12)
		if testing.Short() {
			seeds = 2
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", recipe, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				c, err := m.NewCache(6+int(seed), gguf.F16) // little room, so that nodes must move
				require.NoError(t, err)
				x := &tree{t: t, m: m, c: c}
				for range 25 {
					x.step(r)
					require.Equal(t, len(x.prefix)+len(x.nodes), c.InUse())
				}
			})
		}
	}
}

// step applies one random operation to the tree.
func (x *tree) step(r *rand.Rand) {
	switch k := r.IntN(4); {
	case k == 0 && len(x.nodes) > 0:
		x.drop(x.nodes[r.IntN(len(x.nodes))])
	case k == 1 && len(x.nodes) > 0:
		x.settle(x.nodes[r.IntN(len(x.nodes))])
	default:
		n := min(1+r.IntN(4), x.c.Slots()-x.c.InUse())
		parents := make([]*node, n)
		for i := range parents {
			if at := r.IntN(len(x.nodes) + 1); at < len(x.nodes) {
				parents[i] = x.nodes[at]
			}
		}
		if n > 0 {
			x.grow(parents, randomTokens(r, n, 512))
		}
	}
}

// TestContext: tokens that do not fit are refused before any work, without any change.
func TestContext(t *testing.T) {
	m := load(t, file(t, "q8_0", func(s *synth.Spec) { s.Context = 8 }), host.Options{})
	c, err := m.NewCache(6, gguf.F16)
	require.NoError(t, err)
	assert.Zero(t, c.KV().Bytes(), "memory is allocated when it is used")
	_, err = c.Extend(make([]int32, 7))
	require.ErrorIs(t, err, transformer.ErrContext)
	assert.Zero(t, c.Len())
	good := backend.Row{Slot: 1, See: []backend.Span{{From: 0, To: 2}}}
	for name, edit := range map[string]func(*backend.Row){
		"position":      func(r *backend.Row) { r.Pos = 8 },
		"slot":          func(r *backend.Row) { r.Slot, r.See = 6, []backend.Span{{From: 0, To: 7}} },
		"negative slot": func(r *backend.Row) { r.Slot = -1 },
		"token":         func(r *backend.Row) { r.Token = 512 },
		"blind":         func(r *backend.Row) { r.See = nil },
		"not itself":    func(r *backend.Row) { r.See = []backend.Span{{From: 0, To: 1}} },
		"span":          func(r *backend.Row) { r.See = []backend.Span{{From: -1, To: 1}, {From: 1, To: 2}} },
	} {
		t.Run(name, func(t *testing.T) {
			row := good
			edit(&row)
			out := make([]backend.Output, 1)
			want := backend.Want{Rows: []int{0}, K: 1}
			assert.Error(t, m.Forward(t.Context(), c.KV(), []backend.Row{row}, out, want))
		})
	}
	for range 6 {
		_, err = c.Alloc(3)
		require.NoError(t, err)
	}
	_, err = c.Alloc(3)
	assert.ErrorIs(t, err, transformer.ErrContext)
}

// TestNotFinite: weights that are not finite give an error, not tokens.
func TestNotFinite(t *testing.T) {
	r, err := synth.ParseRecipe("f32")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, synth.Tiny(r, 1).Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	gains, ok := f.Tensor("output_norm.weight")
	require.True(t, ok)
	copy(gains.Data[8:], []byte{0, 0, 0xc0, 0x7f}) // the file shares the memory of b
	m := load(t, f, host.Options{})
	c, err := m.NewCache(2, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend([]int32{1, 2})
	require.NoError(t, err)
	err = m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), backend.Want{Rows: []int{1}, K: 2})
	require.ErrorIs(t, err, transformer.ErrNotFinite)
	assert.ErrorContains(t, err, "position 1")
}
