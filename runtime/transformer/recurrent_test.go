package transformer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer/reference"
)

// recurrentFile returns a small random Qwen3.5, changed by edit if that is given.
func recurrentFile(t testing.TB, recipe string, edit func(*synth.Spec)) *gguf.File {
	t.Helper()
	return file(t, recipe, func(s *synth.Spec) {
		*s = synth.Tiny35(s.Recipe, 42)
		if edit != nil {
			edit(s)
		}
	})
}

// allLogits evaluates ids in passes of so many rows and returns the logits of all.
func allLogits(t testing.TB, m *transformer.Model, ids []int32, kv gguf.Type, pass int) [][]float32 {
	t.Helper()
	c, err := m.NewCache(len(ids), kv)
	require.NoError(t, err)
	var all [][]float32
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

func recurrentShapes() map[string]func(*synth.Spec) {
	return map[string]func(*synth.Spec){
		"as it is":        nil,
		"equal heads":     func(s *synth.Spec) { s.Linear.KeyHeads = 4 },
		"one key head":    func(s *synth.Spec) { s.Linear.KeyHeads, s.Linear.ValueHeads = 1, 3 },
		"longer kernel":   func(s *synth.Spec) { s.Linear.Kernel = 7 },
		"no convolution":  func(s *synth.Spec) { s.Linear.Kernel = 1 },
		"other values":    func(s *synth.Spec) { s.Linear.KeySize, s.Linear.ValueSize = 12, 20 },
		"every second":    func(s *synth.Spec) { s.Linear.Interval = 2 },
		"rotated heads":   func(s *synth.Spec) { s.Linear.Rotated = s.HeadSize },
		"odd widths":      func(s *synth.Spec) { s.Dim, s.FFN, s.Heads, s.Vocab = 50, 70, 6, 301 },
		"predicts ahead":  func(s *synth.Spec) { s.Linear.Predictors = 1 },
		"sizes of a Qwen": func(s *synth.Spec) { s.Linear.KeySize, s.Linear.ValueSize = 128, 128 },
	}
}

// TestRecurrent compares with the recurrence in float64, for texts that end in several chunks. In float32 the results
// agree closely. Passes of any size give the same bits, on both paths.
func TestRecurrent(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(3, 3)), 70, 300)
	for name, edit := range recurrentShapes() {
		t.Run(name, func(t *testing.T) {
			f := recurrentFile(t, "f32", edit)
			want := referenceLogits(t, f, ids)
			for _, exact := range []bool{true, false} {
				m := load(t, f, host.Options{Threads: 2, Exact: exact})
				got := allLogits(t, m, ids, gguf.F32, len(ids))
				for i := range got {
					require.Less(t, relativeError(got[i], want[i]), 2e-5, "exact %v, position %d", exact, i)
				}
				passes := []int{1, 3, 16, 33}
				if testing.Short() && edit != nil {
					passes = passes[1:2]
				}
				for _, pass := range passes {
					again := allLogits(t, m, ids, gguf.F32, pass)
					require.Equal(t, got, again, "exact %v, passes of %d", exact, pass)
				}
			}
		})
	}
}

// long is a cache with a text, in a model that has evaluated it in short passes too.
type long struct {
	t    *testing.T
	m    *transformer.Model
	c    *transformer.Cache
	ids  []int32
	want [][]float32 // by the length of the text before
}

func newLong(t *testing.T, tokens int) *long {
	m := load(t, recurrentFile(t, "q8_0", nil), host.Options{Threads: 2})
	ids := randomTokens(rand.New(rand.NewPCG(5, 5)), tokens, 300)
	c, err := m.NewCache(2*tokens, gguf.F16)
	require.NoError(t, err)
	return &long{t: t, m: m, c: c, ids: ids, want: allLogits(t, m, ids, gguf.F16, 16)}
}

// extend returns the rows of the next tokens up to n.
func (x *long) extend(n int) []backend.Row {
	x.t.Helper()
	rows, err := x.c.Extend(x.ids[x.c.Len():n])
	require.NoError(x.t, err)
	return rows
}

// forward evaluates rows and returns the logits of the last one.
func (x *long) forward(rows ...backend.Row) []float32 {
	x.t.Helper()
	out := make([]backend.Output, 1)
	last := backend.Want{Rows: []int{len(rows) - 1}, K: 1, Logits: true}
	require.NoError(x.t, x.m.Forward(x.t.Context(), x.c.KV(), rows, out, last))
	return out[0].Logits
}

// branch returns a row with another token after n tokens of the text, and its logits.
func (x *long) branch(n int) (backend.Row, []float32) {
	slot := int32(x.c.Slots() - 1)
	see := []backend.Span{{From: 0, To: int32(n)}, {From: slot, To: slot + 1}}
	all := allLogits(x.t, x.m, append(slices.Clone(x.ids[:n]), 9), gguf.F16, n+1)
	return backend.Row{Token: 9, Pos: int32(n), Slot: slot, See: see}, all[n]
}

// resume returns after how many of the first n tokens a text can go on.
func (x *long) resume(n int) int {
	return x.c.KV().(backend.DeltaKV).Resume([]backend.Span{{From: 0, To: int32(n)}}, nil)
}

// TestRecurrentLong: a pass over a long text gives the bits of short passes, and keeps only some of the states: after
// each of the last 128 tokens a text can go on, and at most 128 tokens before another place are evaluated again.
func TestRecurrentLong(t *testing.T) {
	x := newLong(t, 380)
	for _, pass := range []int{150, 273, 380} {
		require.Equal(t, x.want, allLogits(t, x.m, x.ids, gguf.F16, pass), "passes of %d", pass)
	}
	require.Equal(t, x.want[379], x.forward(x.extend(380)...))
	for n := range 381 {
		resume := x.resume(n)
		if n >= 380-128 {
			require.Equal(t, n, resume)
		} else {
			require.Greater(t, resume, n-128)
		}
	}
	few := x.c.KV().Config()
	states := 5*few.Delta.CheckpointBytes(gguf.F16) + 160*few.Delta.UpdateBytes(gguf.F16)
	few.Delta = backend.DeltaConfig{}
	require.Less(t, x.c.KV().Bytes(), few.Bytes()+states)
	for _, n := range []int{379, 365, 300, 257, 241, 130, 20, 3} {
		row, want := x.branch(n)
		require.Equal(t, want, x.forward(row), "another text after %d tokens", n)
		x.c.Truncate(n)
		require.Equal(t, x.want[379], x.forward(x.extend(380)...), "again after %d tokens", n)
	}
}

// TestRecurrentLongBeside: what a long text in a pass does not need, another row of the pass may: one that branches off
// it, or from a text before both, of which the store has dropped all that it can. A row may be evaluated again.
func TestRecurrentLongBeside(t *testing.T) {
	x := newLong(t, 380)
	row, want := x.branch(200)
	require.Equal(t, want, x.forward(append(x.extend(380), row)...), "from the text")
	x.c.Clear()
	x.forward(x.extend(200)...)
	x.c.KV().(backend.DeltaKV).Trim(1, 10)
	require.Equal(t, want, x.forward(append(x.extend(380), row)...), "from before the text")

	x.c.Clear()
	rows := x.extend(12)
	x.forward(rows...)
	require.Equal(t, x.want[11], x.forward(rows[8], rows[11]), "some rows again")
}

// TestRecurrentStores: texts of several stores, at positions that follow each other, may share a pass.
func TestRecurrentStores(t *testing.T) {
	x, y := newLong(t, 40), newLong(t, 40)
	x.forward(x.extend(20)...)
	y.forward(y.extend(21)...)
	rows := append(x.extend(21), y.extend(22)...)
	rows[1].KV = y.c.KV()
	require.Equal(t, x.want[21], x.forward(rows...))
	require.Equal(t, x.want[39], x.forward(x.extend(40)...))
	require.Equal(t, x.want[39], y.forward(y.extend(40)...))
}

// ending is a context that ends after some calls of Err.
type ending struct {
	context.Context
	calls int
}

func (c *ending) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestRecurrentFails: a pass that failed has left no states.
func TestRecurrentFails(t *testing.T) {
	x := newLong(t, 40)
	x.forward(x.extend(16)...)
	rows := x.extend(40)
	err := x.m.Forward(&ending{t.Context(), 3}, x.c.KV(), rows, nil, backend.Want{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 16, x.resume(40))
	require.Equal(t, x.want[39], x.forward(rows...))
}

func referenceLogits(t testing.TB, f *gguf.File, ids []int32) [][]float64 {
	t.Helper()
	r, err := reference.Load(f)
	require.NoError(t, err)
	return r.Logits(ids)
}

// TestRecurrentGreedy: after a text of more tokens than a pass takes, the most probable tokens are those of the
// reference.
func TestRecurrentGreedy(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(5, 5)), 600, 300)
	f := recurrentFile(t, "f32", func(s *synth.Spec) { s.Context = 1024 })
	r, err := reference.Load(f)
	require.NoError(t, err)
	run := r.Begin()
	var want []float64
	for _, id := range ids {
		want = run.Next(id)
	}
	m := load(t, f, host.Options{Threads: 2})
	c, err := m.NewCache(len(ids)+64, gguf.F32)
	require.NoError(t, err)
	for range 64 {
		rows, err := c.Extend(ids)
		require.NoError(t, err)
		out := make([]backend.Output, 1)
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out,
			backend.Want{Rows: []int{len(rows) - 1}, K: 1, Logits: true}))
		require.Less(t, relativeError(out[0].Logits, want), 5e-5, "after %d tokens", c.Len())
		ids = []int32{out[0].Top[0].ID}
		want = run.Next(ids[0])
	}
}

// TestRecurrentQuantised: states in F16 cost as little as keys and values in F16, and the error of the fast path is
// that of activations of 8 bits. It is larger than with attention only, as in each layer all tokens before add to it.
func TestRecurrentQuantised(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(4, 4)), 70, 300)
	for _, recipe := range []string{"q8_0", "q4_0", "q4_k_m", "f16"} {
		t.Run(recipe, func(t *testing.T) {
			f := recurrentFile(t, recipe, func(s *synth.Spec) { s.Linear.KeySize, s.Linear.ValueSize = 64, 64 })
			want := referenceLogits(t, f, ids)
			exact := load(t, f, host.Options{Threads: 2, Exact: true})
			assert.Less(t, medianError(allLogits(t, exact, ids, gguf.F16, len(ids)), want), 3e-3)
			m := load(t, f, host.Options{Threads: 2})
			got := allLogits(t, m, ids, gguf.F16, len(ids))
			assert.Less(t, medianError(got, want), 0.09)
			for _, pass := range []int{1, 5} {
				require.Equal(t, got, allLogits(t, m, ids, gguf.F16, pass), "passes of %d", pass)
			}
		})
	}
}

func medianError(got [][]float32, want [][]float64) float64 {
	errors := make([]float64, len(got))
	for i := range got {
		errors[i] = relativeError(got[i], want[i])
	}
	slices.Sort(errors)
	return errors[len(errors)/2]
}

// TestRecurrentTree is [TestTree] for states that cannot be cut: texts pass the ends of chunks, and the store drops
// states at random, so that they are computed again.
func TestRecurrentTree(t *testing.T) {
	m := load(t, recurrentFile(t, "q8_0", nil), host.Options{Threads: 2})
	seeds := uint64(16)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			c, err := m.NewCache(30+4*int(seed), gguf.F16)
			require.NoError(t, err)
			x := &tree{t: t, m: m, c: c}
			for range 60 {
				x.step(r)
				if r.IntN(4) == 0 {
					c.KV().(backend.DeltaKV).Trim(r.IntN(3), r.IntN(20))
				}
			}
		})
	}
}
