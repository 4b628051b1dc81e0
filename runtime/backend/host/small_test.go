package host

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// shape is the size of a small model.
type shape struct{ layers, dim, ffn, heads, kvHeads, vocab int }

// file returns a model of this shape in memory, all in one recipe. The weights of a name are the same in every recipe,
// except for rounding.
func (s shape) file(t *testing.T, recipe string) *gguf.File {
	r, err := synth.ParseRecipe(recipe)
	require.NoError(t, err)
	spec := synth.Tiny(r, 5)
	spec.Layers, spec.Dim, spec.FFN, spec.Vocab = s.layers, s.dim, s.ffn, s.vocab
	spec.Heads, spec.KVHeads = s.heads, s.kvHeads
	spec.Tied = false
	var b bytes.Buffer
	require.NoError(t, spec.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return f
}

// small holds the weights of a model with some layers and activations for its passes, which any device may run.
type small struct {
	shape
	embedding, output backend.Weight
	norm              backend.Norm
	layers            []smallLayer

	x, q, k, v, a, m backend.Tensor
}

type smallLayer struct {
	attnNorm, ffnNorm                 backend.Norm
	wq, wk, wv, wo, wGate, wUp, wDown backend.Weight
}

// maxRows is the max number of rows in a pass of a small model.
const maxRows = 80

// newSmall loads a small model, each tensor by its name ("attn_q") from the file that from returns.
func newSmall(t *testing.T, d *Device, s shape, from func(tensor string) *gguf.File) *small {
	matrix := func(prefix, name string) backend.Weight {
		f := from(name)
		w, ok := f.Tensor(prefix + name + ".weight")
		require.True(t, ok, name)
		var bias *gguf.Tensor
		if b, ok := f.Tensor(prefix + name + ".bias"); ok {
			bias = &b
		}
		loaded, err := d.LoadWeight(w, bias)
		require.NoError(t, err)
		return loaded
	}
	gains := func(prefix, name string) backend.Norm {
		g, ok := from(name).Tensor(prefix + name + ".weight")
		require.True(t, ok, name)
		loaded, err := d.LoadNorm(g, 1e-6)
		require.NoError(t, err)
		return loaded
	}
	room := func(cols int) backend.Tensor {
		made, err := d.NewTensor(maxRows, cols)
		require.NoError(t, err)
		return made
	}
	size := s.dim / s.heads
	m := &small{
		shape: s, embedding: matrix("", "token_embd"), output: matrix("", "output"), norm: gains("", "output_norm"),
		x: room(s.dim), q: room(s.dim), a: room(s.dim), m: room(s.ffn),
		k: room(s.kvHeads * size), v: room(s.kvHeads * size),
	}
	for i := range s.layers {
		p := fmt.Sprintf("blk.%d.", i)
		m.layers = append(m.layers, smallLayer{
			attnNorm: gains(p, "attn_norm"), ffnNorm: gains(p, "ffn_norm"),
			wq: matrix(p, "attn_q"), wk: matrix(p, "attn_k"), wv: matrix(p, "attn_v"), wo: matrix(p, "attn_output"),
			wGate: matrix(p, "ffn_gate"), wUp: matrix(p, "ffn_up"), wDown: matrix(p, "ffn_down"),
		})
	}
	return m
}

// kv returns an empty store for a model of this shape.
func (s shape) kv(t *testing.T, d *Device, slots int, kind gguf.Type) *kv {
	made, err := d.NewKV(backend.KVConfig{
		Layers: s.layers, Slots: slots, Heads: s.heads, KVHeads: s.kvHeads,
		HeadSize: s.dim / s.heads, RopeBase: 1e6, Type: kind,
	})
	require.NoError(t, err)
	return made.(*kv)
}

// pass runs rows through the model on d.
func (m *small) pass(
	t *testing.T, d *Device, store backend.KV, rows []backend.Row, want backend.Want,
) []backend.Output {
	return m.run(t, d.Begin(store, rows), want, func(string, backend.Tensor) {})
}

// eachActivation is pass whose operations run as they are called, and also returns a copy of each activation.
func (m *small) eachActivation(
	t *testing.T, d *Device, store backend.KV, rows []backend.Row, want backend.Want,
) (out []backend.Output, made []activation) {
	p := d.Begin(store, rows)
	p.(*pass).immediate = true
	out = m.run(t, p, want, func(name string, x backend.Tensor) {
		f := x.(*tensor).f[:len(rows)*x.(*tensor).cols]
		made = append(made, activation{name, slices.Clone(f)})
	})
	return out, made
}

// run runs the operations of a pass, and calls keep after each with what it writes.
func (m *small) run(
	t *testing.T, p backend.Pass, want backend.Want, keep func(name string, x backend.Tensor),
) []backend.Output {
	out := make([]backend.Output, len(want.Rows))
	p.Embed(m.x, m.embedding)
	for i, l := range m.layers {
		p.NormProject(m.q, m.k, m.v, m.x, l.attnNorm, l.wq, l.wk, l.wv)
		keep("q", m.q)
		keep("k", m.k)
		keep("v", m.v)
		p.Attend(m.a, m.q, m.k, m.v, nil, nil, i)
		keep("attention", m.a)
		p.ProjectAdd(m.x, l.wo, m.a)
		keep("x + wo·a", m.x)
		p.NormGateUp(m.m, m.x, l.ffnNorm, l.wGate, l.wUp)
		keep("silu(gate)·up", m.m)
		p.ProjectAdd(m.x, l.wDown, m.m)
		keep("x + wDown·m", m.x)
	}
	p.Head(out, m.x, m.norm, m.output, want)
	require.NoError(t, p.End(t.Context()))
	return out
}

// activation is the content of a tensor after an operation.
type activation struct {
	name string
	f    []float32
}

// everything requests all outputs of the head for rows 0 to n.
func everything(n int) backend.Want {
	want := backend.Want{K: 4, Logits: true, Hidden: true}
	for i := range n {
		want.Rows = append(want.Rows, i)
	}
	return want
}

// files returns models of one shape, by recipe, each made once.
func (s shape) files(t *testing.T) func(recipe string) *gguf.File {
	made := map[string]*gguf.File{}
	return func(recipe string) *gguf.File {
		if made[recipe] == nil {
			made[recipe] = s.file(t, recipe)
		}
		return made[recipe]
	}
}

// devices opens a device for each of the options until the test ends.
func devices(t *testing.T, options ...Options) []*Device {
	var all []*Device
	for _, o := range options {
		d, err := New(o)
		require.NoError(t, err)
		t.Cleanup(func() { d.Close() })
		all = append(all, d)
	}
	return all
}

// TestTypeOfItsOwn: any single tensor may have another type than the rest, rounded or not; every activation is close to
// that of the exact device with the same weights.
func TestTypeOfItsOwn(t *testing.T) {
	s := shape{layers: 1, dim: 256, ffn: 256, heads: 4, kvHeads: 2, vocab: 300}
	files := s.files(t)
	exact := devices(t, Options{Exact: true, Threads: 2})[0]
	tensors := []string{
		"token_embd", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output",
	}
	pairs := [][2]string{ // type of that tensor and of the rest
		{"q8_0", "f32"}, {"f32", "q8_0"}, {"q4_k", "f16"}, {"f16", "q4_k"}, {"q6_k", "q4_1"}, {"q3_k", "q5_0"},
	}
	if testing.Short() {
		pairs = pairs[:2]
	}
	for _, pair := range pairs {
		for _, one := range tensors {
			m := newSmall(t, exact, s, func(name string) *gguf.File {
				if name == one {
					return files(pair[0])
				}
				return files(pair[1])
			})
			fast := devices(t, Options{Threads: 2})[0] // a new one without earlier activations
			for _, n := range []int{1, 3, 9, 33} {
				rows := rowsAt(n)
				for i := range rows {
					rows[i].Token = int32(31 * (i + 1) % 300)
				}
				label := fmt.Sprintf("%s in %s, the rest in %s, %d rows: ", one, pair[0], pair[1], n)
				x := &fixture{t: t}
				ref, wanted := m.eachActivation(t, exact, s.kv(t, exact, n, gguf.F32), rows, everything(n))
				got, made := m.eachActivation(t, fast, s.kv(t, fast, n, gguf.F32), rows, everything(n))
				for i, w := range wanted {
					x.near(wide(w.f), made[i].f, 0.04, label+w.name)
				}
				for i := range ref {
					x.near(wide(ref[i].Hidden), got[i].Hidden, 0.04, label+"hidden")
					x.near(wide(ref[i].Logits), got[i].Logits, 0.04, label+"logits")
				}
				later := m.pass(t, fast, s.kv(t, fast, n, gguf.F32), rows, everything(n))
				require.Equal(t, got, later, label+"operations that run when the pass ends")
			}
		}
	}
}

// TestPartOfABlock: the width between gate and down may end inside a block that is rounded together.
func TestPartOfABlock(t *testing.T) {
	s := shape{layers: 1, dim: 64, ffn: 172, heads: 4, kvHeads: 2, vocab: 300}
	f := s.file(t, "q8_0")
	ds := devices(t, Options{Exact: true, Threads: 1}, Options{Threads: 2})
	m := newSmall(t, ds[0], s, func(string) *gguf.File { return f })
	for _, n := range []int{1, 5} {
		want := m.pass(t, ds[0], s.kv(t, ds[0], n, gguf.F32), rowsAt(n), everything(n))
		got := m.pass(t, ds[1], s.kv(t, ds[1], n, gguf.F32), rowsAt(n), everything(n))
		for i := range want {
			(&fixture{t: t}).near(wide(want[i].Logits), got[i].Logits, 0.04, "logits")
		}
	}
}

// TestOnlyItsRows: a short pass after a longer one changes only its own rows.
func TestOnlyItsRows(t *testing.T) {
	s := shape{layers: 1, dim: 64, ffn: 64, heads: 4, kvHeads: 2, vocab: 300}
	for _, recipe := range []string{"q8_0", "f32"} {
		f := s.file(t, recipe)
		for _, d := range devices(t, Options{Threads: 2}, Options{Threads: 1, Exact: true}) {
			m := newSmall(t, d, s, func(string) *gguf.File { return f })
			for _, n := range []int{9, 5, 3, 1} {
				all := []backend.Tensor{m.x, m.q, m.k, m.v, m.a, m.m}
				for _, x := range all {
					f := x.(*tensor).f
					for i := range f {
						f[i] = 7
					}
				}
				m.pass(t, d, s.kv(t, d, n, gguf.F32), rowsAt(n), everything(n))
				for i, x := range all {
					rest := x.(*tensor).f[n*x.(*tensor).cols:]
					require.Equal(t, slices.Repeat([]float32{7}, len(rest)), rest,
						"%s: %d rows, activation %d", d.Name(), n, i)
				}
			}
		}
	}
}
