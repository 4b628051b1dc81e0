package gpu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// file returns a random model in memory, changed by edit if that is given.
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

// load loads f on a device that runs on m, closed with the test.
func load(t testing.TB, f *gguf.File, m metal.Device, o gpu.Options) (*transformer.Model, *gpu.Device) {
	t.Helper()
	d, err := gpu.New(m, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	model, err := transformer.Load(f, d)
	require.NoError(t, err)
	return model, d
}

// exact loads f on the reference device.
func exact(t testing.TB, f *gguf.File) *transformer.Model {
	t.Helper()
	d, err := host.New(host.Options{Exact: true})
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

// feed appends ids to the cache, piece tokens at a time, and returns the output after the last.
func feed(t testing.TB, m *transformer.Model, c *transformer.Cache, ids []int32, piece int) backend.Output {
	t.Helper()
	out := make([]backend.Output, 1)
	for len(ids) > 0 {
		n := min(piece, len(ids))
		rows, err := c.Extend(ids[:n])
		require.NoError(t, err)
		want := backend.Want{Rows: []int{n - 1}, K: 4, Logits: true, Hidden: true}
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
		ids = ids[n:]
	}
	return out[0]
}

// run feeds ids to an empty cache.
func run(t testing.TB, m *transformer.Model, ids []int32, kv gguf.Type, piece int) backend.Output {
	t.Helper()
	c, err := m.NewCache(len(ids), kv)
	require.NoError(t, err)
	return feed(t, m, c, ids, piece)
}

// relativeError returns ‖x-ref‖ / ‖ref-mean(ref)‖.
func relativeError[F float32 | float64](x []float32, ref []F) float64 {
	mean, diff, norm := 0.0, 0.0, 0.0
	for _, r := range ref {
		mean += float64(r) / float64(len(ref))
	}
	for i, r := range ref {
		diff += (float64(x[i]) - float64(r)) * (float64(x[i]) - float64(r))
		norm += (float64(r) - mean) * (float64(r) - mean)
	}
	return math.Sqrt(diff / norm)
}

// native reports whether a recipe has only types that are loaded without loss.
func native(recipe string) bool {
	for _, name := range []string{"q4_1", "q5_1", "q2_k", "iq4_xs"} {
		if strings.HasSuffix(recipe, name) {
			return false
		}
	}
	return true
}

// TestModel compares a small model of every type with the reference on the CPU, token by token, in pieces, and at once:
// types with kernels agree within the rounding of float32, those converted to F16 within that rounding.
func TestModel(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(1, 1)), 11, 512)
	dev := gpu.OpenMetal(t, soft.Options{Seed: 1})
	recipes := synth.RecipeNames()
	if testing.Short() {
		recipes = []string{"q4_k_m"}
	}
	for _, recipe := range recipes {
		f := file(t, recipe, func(s *synth.Spec) {
			if recipe != "q4_k_m" {
				s.Layers = 1 // a second layer of the same recipe tests what follows a layer
			}
		})
		m, _ := load(t, f, dev, gpu.Options{})
		want := run(t, exact(t, f), ids, gguf.F32, 11)
		bar := 1e-5
		if !native(recipe) {
			bar = 2e-3
		}
		for _, piece := range []int{1, 8, 11} {
			got := run(t, m, ids, gguf.F32, piece)
			assert.Less(t, relativeError(got.Logits, want.Logits), bar, "%s in pieces of %d", recipe, piece)
			assert.Less(t, relativeError(got.Hidden, want.Hidden), bar, "%s in pieces of %d", recipe, piece)
			assert.InDelta(t, want.LogSumExp, got.LogSumExp, bar, recipe)
			assert.InDelta(t, want.Entropy, got.Entropy, bar, recipe)
			if native(recipe) {
				for i := range want.Top {
					assert.Equal(t, want.Top[i].ID, got.Top[i].ID, recipe)
				}
			}
		}
	}
}

// TestEqualOperands: the form of the kernels for compilers that multiply only matrices of one type gives the same
// results to the last bit, because a half becomes a float exactly. The device's name says why it has this form.
func TestEqualOperands(t *testing.T) {
	racing.Spare(t)
	ids := randomTokens(rand.New(rand.NewPCG(3, 3)), 41, 512)
	dev := gpu.OpenMetal(t, soft.Options{Seed: 1})
	for _, recipe := range []string{"f16", "q8_0"} {
		f := file(t, recipe, nil)
		mixed, d := load(t, f, dev, gpu.Options{})
		equal, e := load(t, f, gpu.EqualOperands{Device: dev}, gpu.Options{})
		assert.Equal(t, run(t, mixed, ids, gguf.F16, 41), run(t, equal, ids, gguf.F16, 41), recipe)
		assert.Equal(t, fmt.Sprintf("gpu (%s)", dev.Name()), d.Name())
		assert.Equal(t, d.Name()+", equal operands because of no product of floats and halves", e.Name())
		assert.Equal(t, dev.Name(), e.GPU())
	}
}

// TestShapes: sizes of heads, groups, untied heads, and rows that are not multiples of 4 or 32, with every access
// checked.
func TestShapes(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(2, 2)), 9, 300)
	dev := gpu.OpenChecked(t, 3)
	edits := []func(*synth.Spec){
		func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN = 896, 14, 2, 96 }, // attention of Qwen2.5-0.5B
		func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN = 64, 8, 4, 172 },
		func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN, s.Tied = 256, 2, 1, 64, false }, // heads of 128
		func(s *synth.Spec) { s.Dim, s.Heads, s.KVHeads, s.FFN, s.Vocab = 60, 3, 3, 50, 1031 },
		func(s *synth.Spec) { s.Vocab = 300 },
		qwen3(256, 4, 2, 128), qwen3(96, 14, 2, 64), qwen3(64, 6, 2, 80), qwen3(60, 5, 5, 12),
		qwen3(128, 5, 1, 32),
	}
	for i, edit := range edits {
		f := file(t, "q8_0", func(s *synth.Spec) {
			s.Layers = 1
			edit(s)
		})
		m, _ := load(t, f, dev, gpu.Options{})
		want := run(t, exact(t, f), ids, gguf.F32, 9)
		for _, piece := range []int{1, 2, 9} {
			got := run(t, m, ids, gguf.F32, piece)
			assert.Less(t, relativeError(got.Logits, want.Logits), 1e-5, "shape %d in pieces of %d", i, piece)
		}
	}
}

// qwen3 makes a shape a Qwen3 with heads of size elements.
func qwen3(dim, heads, kvHeads, size int) func(*synth.Spec) {
	return func(s *synth.Spec) {
		s.Qwen3, s.Dim, s.Heads, s.KVHeads, s.HeadSize, s.FFN = true, dim, heads, kvHeads, size, 64
	}
}

// TestLongQwen3: norms of heads in a pass of more rows than a tile has, each head in two tiles.
func TestLongQwen3(t *testing.T) {
	ids := randomTokens(rand.New(rand.NewPCG(6, 6)), 70, 300)
	f := file(t, "q8_0", func(s *synth.Spec) {
		s.Layers = 1
		qwen3(64, 3, 1, 128)(s)
	})
	m, _ := load(t, f, gpu.OpenChecked(t, 3), gpu.Options{})
	want := run(t, exact(t, f), ids, gguf.F32, 70)
	for _, piece := range []int{35, 70} {
		got := run(t, m, ids, gguf.F32, piece)
		assert.Less(t, relativeError(got.Logits, want.Logits), 1e-5, "in pieces of %d", piece)
	}
}

// TestBeside: the results of a row are the same to the last bit alone and with up to seven others, after few and many
// tokens, in any order of threads; and in longer passes with any other rows.
func TestBeside(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	recipes := []string{"q4_k_m", "q4_0", "q8_0"}
	if testing.Short() {
		recipes = recipes[:1]
	}
	for _, recipe := range recipes {
		t.Run(recipe, func(t *testing.T) {
			f := file(t, recipe, func(s *synth.Spec) {
				if s.Layers = 1; recipe == "q8_0" {
					qwen3(64, 4, 2, 128)(s)
				}
			})
			alone, long := map[int]backend.Output{}, map[int]backend.Output{} // by row
			for _, o := range []soft.Options{{}, {Seed: 7}} {
				s := newSiblings(t, f, o)
				for i := len(alone); i < 8; i++ {
					alone[i] = s.forward([]int{i})[0]
				}
				for n := 1; n <= 8; n++ {
					order := r.Perm(8)[:n]
					for i, out := range s.forward(order) {
						require.Equal(t, alone[order[i]], out, "row %d among %v", order[i], order)
					}
				}
				for _, n := range []int{17, 16, 9} {
					order := r.Perm(17)[:n]
					for i, out := range s.forward(order) {
						if len(long) < 17 { // the first pass, of all rows
							long[order[i]] = out
						}
						require.Equal(t, long[order[i]], out, "row %d among %v", order[i], order)
					}
				}
			}
		})
	}
}

// siblings are 17 rows that see prefixes of several lengths of one text, with attention in two splits for some.
type siblings struct {
	t     *testing.T
	model *transformer.Model
	cache *transformer.Cache
	rows  []backend.Row
}

func newSiblings(t *testing.T, f *gguf.File, o soft.Options) *siblings {
	m, _ := load(t, f, gpu.OpenMetal(t, o), gpu.Options{})
	c, err := m.NewCache(160, gguf.F16)
	require.NoError(t, err)
	feed(t, m, c, randomTokens(rand.New(rand.NewPCG(5, 5)), 140, 512), 70)
	rows := make([]backend.Row, 17)
	for i := range rows {
		see := []backend.Span{{From: 0, To: int32(140 - 19*i%139)}, {From: int32(140 + i), To: int32(141 + i)}}
		rows[i] = backend.Row{Token: int32(3 * i), Pos: see[0].To, Slot: int32(140 + i), See: see}
	}
	return &siblings{t, m, c, rows}
}

// forward runs a pass of some rows, and returns all their outputs.
func (s *siblings) forward(order []int) []backend.Output {
	var rows []backend.Row
	want := backend.Want{K: 3, Logits: true, Hidden: true}
	for i, j := range order {
		rows = append(rows, s.rows[j])
		want.Rows = append(want.Rows, i)
	}
	out := make([]backend.Output, len(order))
	require.NoError(s.t, s.model.Forward(s.t.Context(), s.cache.KV(), rows, out, want))
	return out
}

// TestTree grows random draft trees in shuffled slots. The results of each node equal, to the last bit, those of its
// text alone, token by token.
func TestTree(t *testing.T) {
	recipes := []string{"q8_0", "f16"}
	if testing.Short() {
		recipes = recipes[:1]
	}
	for _, recipe := range recipes {
		f := file(t, recipe, func(s *synth.Spec) { s.Layers, s.FFN = 1, 64 })
		m, _ := load(t, f, gpu.OpenMetal(t, soft.Options{Seed: 9}), gpu.Options{})
		for seed := range uint64(1) {
			r := rand.New(rand.NewPCG(seed, 7))
			prefix := randomTokens(r, 5, 512)
			c, err := m.NewCache(40, gguf.F16)
			require.NoError(t, err)
			feed(t, m, c, prefix, 1)
			type node struct {
				text  []int32
				slots []int32
			}
			nodes := []node{{text: prefix}}
			slots := r.Perm(35)
			for range 4 {
				n := 1 + r.IntN(8)
				var rows []backend.Row
				want := backend.Want{K: 2, Logits: true}
				var added []node
				for i := range n {
					above := nodes[r.IntN(len(nodes))]
					id, slot := r.Int32N(512), int32(5+slots[0])
					slots = slots[1:]
					rows = append(rows, c.Node(id, slot, above.slots...))
					want.Rows = append(want.Rows, i)
					added = append(added, node{
						append(above.text[:len(above.text):len(above.text)], id),
						append(above.slots[:len(above.slots):len(above.slots)], slot),
					})
				}
				out := make([]backend.Output, n)
				require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
				for i, a := range added {
					alone := run(t, m, a.text, gguf.F16, 1)
					require.Equal(t, alone.Logits, out[i].Logits,
						"%s: text of %d tokens in a batch of %d", recipe, len(a.text), n)
				}
				nodes = append(nodes, added...)
			}
		}
	}
}

// TestLevels: a token of a model with 24 layers has 123 dependency levels, in short and long passes.
func TestLevels(t *testing.T) {
	for _, edit := range []func(*synth.Spec){func(*synth.Spec) {}, qwen3(128, 4, 2, 128)} {
		f := file(t, "q4_0", func(s *synth.Spec) {
			s.Layers, s.Dim, s.FFN = 24, 128, 64
			edit(s)
		})
		m, d := load(t, f, gpu.OpenMetal(t, soft.Options{}), gpu.Options{})
		for _, n := range []int{1, 4, 9} {
			run(t, m, make([]int32, n), gguf.F16, n)
			s := d.LastPass()
			assert.Equal(t, 1+24*5+2, s.Levels)
			assert.LessOrEqual(t, s.Levels, 125)
			assert.Equal(t, s.Levels, s.Dispatches, "one kernel for each level where the weights are of one type")
		}
	}
}

// golden holds the expected answers of a tiny random model.
type golden struct {
	Model string
	Error struct {
		RelMax float64 `json:"rel_l2_max"`
	} `json:"error_of_llama_vs_ref"`
	Prompts []struct {
		Tokens    []int32
		Ref       []float64 `json:"ref_logits"`
		GreedyRef []int32   `json:"greedy_ref"`
	}
}

// TestGolden compares every golden file with the float64 evaluation of its weights. With keys and values in F32, an
// evaluation without other rounding agrees within 1e-4. Types converted to F16 at loading must be within a small part
// of the bound that the file states for 8 bits. Greedy ids are all equal.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedtest.Shared(t, "golden"), "a-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	if testing.Short() {
		files = files[:3]
	}
	dev := gpu.OpenMetal(t, soft.Options{Seed: 2})
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			var g golden
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &g))
			f, err := gguf.Open(filepath.Join(filepath.Dir(path), g.Model))
			require.NoError(t, err)
			defer f.Close()
			d, err := gpu.New(dev, gpu.Options{Mapped: f.Mappings()})
			require.NoError(t, err)
			defer d.Close()
			m, err := transformer.Load(f, d)
			require.NoError(t, err)
			bar := 1e-4
			if !native(name) {
				bar = g.Error.RelMax / 8
			}
			for i, p := range g.Prompts {
				pieces := []int{len(p.Tokens)}
				if i == 1 {
					pieces = append(pieces, 3)
				}
				for _, piece := range pieces {
					c, err := m.NewCache(len(p.Tokens)+len(p.GreedyRef), gguf.F32)
					require.NoError(t, err)
					out := feed(t, m, c, p.Tokens, piece)
					require.Less(t, relativeError(out.Logits, p.Ref), bar,
						"prompt of %d in pieces of %d", len(p.Tokens), piece)
					// One continuation is enough for the software device, and its beginning for most files.
					if i == 1 && piece > 3 {
						if !strings.Contains(name, "mixed") {
							p.GreedyRef = p.GreedyRef[:4]
						}
						for step, want := range p.GreedyRef {
							require.Equal(t, want, out.Top[0].ID, "greedy step %d", step)
							out = feed(t, m, c, []int32{want}, 1)
						}
					}
				}
				if len(p.Tokens) > 8 || i == 1 && !strings.Contains(name, "mixed") {
					continue
				}
				out := run(t, m, p.Tokens, gguf.F16, 8)
				require.Less(t, relativeError(out.Logits, p.Ref), bar+5e-3, "keys and values in F16")
			}
		})
	}
}

// watched is a device that counts how its memory is made, and fails on request.
type watched struct {
	metal.Device
	made, wrapped int // bytes
	wraps         int
	inside        []byte // if given, all wrapped bytes must be in this memory
	failWait      error
}

func (w *watched) NewBuffer(n int) (metal.Buffer, error) {
	w.made += n
	return w.Device.NewBuffer(n)
}

func (w *watched) WrapBuffer(b []byte) (metal.Buffer, error) {
	w.wrapped += len(b)
	w.wraps++
	if w.inside != nil {
		first := uintptr(unsafe.Pointer(&w.inside[0]))
		at := uintptr(unsafe.Pointer(&b[0]))
		if at < first || at+uintptr(len(b)) > first+uintptr(len(w.inside)) {
			return nil, fmt.Errorf("%d bytes at %#x are not all mapped", len(b), at)
		}
	}
	return w.Device.WrapBuffer(b)
}

func (w *watched) NewCommands() (metal.Commands, error) {
	c, err := w.Device.NewCommands()
	return failing{c, w}, err
}

type failing struct {
	metal.Commands
	w *watched
}

func (f failing) Wait() (metal.Timing, error) {
	timing, err := f.Commands.Wait()
	return timing, errors.Join(err, f.w.failWait)
}

// limited is a device with a max size of buffers.
type limited struct {
	metal.Device
	most int
}

func (l limited) Limits() metal.Limits {
	limits := l.Device.Limits()
	limits.BufferLength = l.most
	return limits
}

// TestMapped: the weights of a mapped file are used in place, with the results of copies.
func TestMapped(t *testing.T) {
	racing.Spare(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	r, err := synth.ParseRecipe("q4_k_m")
	require.NoError(t, err)
	s := synth.Tiny(r, 1)
	s.FFN, s.Vocab = 1024, 14000
	to, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(to, nil))
	require.NoError(t, to.Close())
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	ids := []int32{1, 2, 3, 4}
	plain := &watched{Device: gpu.OpenMetal(t, soft.Options{})}
	mapped := &watched{Device: gpu.OpenMetal(t, soft.Options{})}
	copies, _ := load(t, f, plain, gpu.Options{})
	here, _ := load(t, f, mapped, gpu.Options{Mapped: f.Mappings()})
	assert.Zero(t, plain.wrapped)
	assert.Greater(t, plain.made, int(f.Size())/2)
	assert.Greater(t, mapped.wrapped, int(f.Size())/2)
	assert.Less(t, mapped.made, int(f.Size())/20, "norms and biases")
	assert.Equal(t, run(t, copies, ids, gguf.F16, 2), run(t, here, ids, gguf.F16, 2))
	assert.Equal(t, 1, mapped.wraps, "one buffer for the whole file")

	// If the file is too large for one buffer, each matrix is one.
	small := &watched{Device: limited{gpu.OpenMetal(t, soft.Options{}), int(f.Size()) - 1}}
	matrices, _ := load(t, f, small, gpu.Options{Mapped: f.Mappings()})
	assert.Greater(t, small.wraps, 10)
	assert.Equal(t, run(t, copies, ids, gguf.F16, 2), run(t, matrices, ids, gguf.F16, 2))

	// A last page of the device that is larger than the system's could extend beyond the file.
	page := os.Getpagesize()
	whole := f.Mappings()[0]
	whole = unsafe.Slice(&whole[0], (len(whole)+page-1)/page*page)
	large := &watched{Device: gpu.OpenMetal(t, soft.Options{PageSize: 4 * page}), inside: whole}
	load(t, f, large, gpu.Options{Mapped: f.Mappings()})
}

// TestErrors: Forward returns errors of the device and the cause of a cancelled context; the next pass works.
func TestErrors(t *testing.T) {
	w := &watched{Device: gpu.OpenMetal(t, soft.Options{})}
	m, d := load(t, file(t, "q8_0", nil), w, gpu.Options{})
	c, err := m.NewCache(4, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend([]int32{1})
	require.NoError(t, err)
	out := make([]backend.Output, 1)
	want := backend.Want{Rows: []int{0}, K: 1}
	w.failWait = errors.New("the GPU hung")
	require.ErrorIs(t, m.Forward(t.Context(), c.KV(), rows, out, want), w.failWait)
	w.failWait = nil
	ctx, cancel := context.WithCancelCause(t.Context())
	pass := d.Begin(c.KV(), rows)
	stop := errors.New("enough")
	cancel(stop)
	require.ErrorIs(t, pass.End(ctx), stop)
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	assert.Contains(t, d.Name(), w.Device.Name())
}

// few is a device with pipelines that allow few threads, as for kernels that need many registers.
type few struct {
	metal.Device
	threads int
}

func (f few) NewLibrary(source string) (metal.Library, error) {
	l, err := f.Device.NewLibrary(source)
	return fewLibrary{l, f.threads}, err
}

type fewLibrary struct {
	metal.Library
	threads int
}

func (l fewLibrary) NewPipeline(name string, c ...metal.Constant) (metal.Pipeline, error) {
	p, err := l.Library.NewPipeline(name, c...)
	return fewPipeline{p, l.threads}, err
}

type fewPipeline struct {
	metal.Pipeline
	threads int
}

func (p fewPipeline) Threads() int { return p.threads }

func (p fewPipeline) SIMDWidth() int { return min(32, p.threads) }

// undress returns the software device's own pipelines to it.
func (f few) NewCommands() (metal.Commands, error) {
	c, err := f.Device.NewCommands()
	return undress{c}, err
}

type undress struct{ metal.Commands }

func (u undress) SetPipeline(p metal.Pipeline) { u.Commands.SetPipeline(p.(fewPipeline).Pipeline) }

// TestFewThreads: pipelines that allow fewer threads get smaller threadgroups, with the same results to the last bit.
// If that is impossible, the error says so.
func TestFewThreads(t *testing.T) {
	f := file(t, "q4_k_m", nil)
	ids := []int32{1, 2, 3}
	dev := gpu.OpenMetal(t, soft.Options{})
	m, _ := load(t, f, dev, gpu.Options{})
	small, _ := load(t, f, few{dev, 300}, gpu.Options{})
	assert.Equal(t, run(t, m, ids, gguf.F16, 3), run(t, small, ids, gguf.F16, 3))
	tiny, _ := load(t, f, few{dev, 64}, gpu.Options{})
	c, err := tiny.NewCache(1, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(ids[:1])
	require.NoError(t, err)
	require.ErrorContains(t, tiny.Forward(t.Context(), c.KV(), rows, nil, backend.Want{}), "allows 64 threads")
	_, err = gpu.New(few{dev, 16}, gpu.Options{})
	require.ErrorContains(t, err, "simdgroups of 16 threads, the kernels need 32")
}

// tight is a device with little threadgroup memory.
type tight struct {
	metal.Device
	bytes int
}

func (d tight) Limits() metal.Limits {
	l := d.Device.Limits()
	l.ThreadgroupMemory = d.bytes
	return l
}

// TestTightMemory: if activations do not fit next to the rings, they are staged in pieces, with the same results to the
// last bit. If nothing fits, the error says so.
func TestTightMemory(t *testing.T) {
	f := file(t, "q4_0", func(s *synth.Spec) { s.Layers, s.Heads, s.KVHeads, s.FFN, s.Vocab = 1, 16, 8, 1024, 300 })
	dev := gpu.OpenMetal(t, soft.Options{})
	m, _ := load(t, f, dev, gpu.Options{})
	small, _ := load(t, f, tight{dev, 20000}, gpu.Options{})
	ids := randomTokens(rand.New(rand.NewPCG(3, 3)), 8, 300)
	for _, piece := range []int{1, 8} {
		assert.Equal(t, run(t, m, ids, gguf.F16, piece), run(t, small, ids, gguf.F16, piece), "in pieces of %d", piece)
	}
	tiny, _ := load(t, f, tight{dev, 17000}, gpu.Options{})
	c, err := tiny.NewCache(8, gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(ids)
	require.NoError(t, err)
	out := make([]backend.Output, 8)
	want := backend.Want{Rows: []int{0, 1, 2, 3, 4, 5, 6, 7}, K: 1}
	require.ErrorContains(t, tiny.Forward(t.Context(), c.KV(), rows, out, want),
		"17000 bytes of threadgroup memory are too few")
}
