package host

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// lengths are the numbers of slots that the last rows of texts see, including themselves: around those where keys begin
// another block, attention another KV split, and the work is divided differently.
var lengths = []int{1, 2, 16, 17, 100, 127, 128, 129, 255, 256, 257, 258, 384, 511, 512, 513, 514, 700, 767, 769}

// crowd holds rows of many texts over one store, and the result of each alone, evaluated one after the other. The last
// ones are a draft tree, parents first.
type crowd struct {
	t            *testing.T
	m            *small
	store, other *kv // with the same contents
	rows         []backend.Row
	alone        []backend.Output
	after        [][]uint32 // the store after all evaluations
}

// The first slots of a crowd contain the common prefix of the texts, of which each sees a part; rows use every second
// slot after that. All others hold NaN, which no row may see.
const (
	common   = 800
	holeFrom = 395 // a hole in them
	holeTo   = 402
)

// newCrowd evaluates the rows of all texts alone on d.
func newCrowd(t *testing.T, m *small, d *Device, kind gguf.Type) *crowd {
	r := rand.New(rand.NewPCG(8, 9))
	c := &crowd{t: t, m: m, store: m.kv(t, d, common+101, kind)}
	nan := make([]float32, m.kvHeads*m.dim/m.heads)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	c.store.allocateSlots(0, common+101)
	for slot := range int32(common + 101) {
		for _, l := range c.store.layers {
			k, v := slices.Clone(nan), slices.Clone(nan)
			if slot < common && (slot < holeFrom || slot >= holeTo) {
				for i := range k {
					k[i], v[i] = r.Float32()*2-1, r.Float32()*2-1
				}
			}
			l.storeRow(slot, k, v)
		}
	}
	for _, n := range lengths {
		c.add(r, n-1, seen(r, n-1))
	}
	c.addTree(r, seen(r, 253))
	for i := range c.rows {
		out := m.pass(t, d, c.store, c.rows[i:i+1], everything(1))
		c.alone = append(c.alone, out...)
	}
	c.after = contents(c.store)
	c.other = clone(t, d, c.store)
	return c
}

// clone returns another store with the same keys and values.
func clone(t *testing.T, d *Device, s *kv) *kv {
	made, err := d.NewKV(s.c)
	require.NoError(t, err)
	c := made.(*kv)
	c.allocateSlots(0, int32(c.c.Slots))
	for i := range s.layers {
		switch from := s.layers[i].(type) {
		case *layerOf[uint16]:
			to := c.layers[i].(*layerOf[uint16])
			for n := range from.k {
				copy(to.k[n], from.k[n])
				copy(to.v[n], from.v[n])
			}
		case *layerOf[float32]:
			to := c.layers[i].(*layerOf[float32])
			for n := range from.k {
				copy(to.k[n], from.k[n])
				copy(to.v[n], from.v[n])
			}
		}
	}
	return c
}

// seen returns n of the common slots, in a few spans that may start inside a block of keys.
func seen(r *rand.Rand, n int) []backend.Span {
	var see []backend.Span
	at := r.Int32N(common - 780)
	for left := int32(n); left > 0; {
		if at >= holeFrom-1 && at < holeTo {
			at = holeTo
		}
		end := at + min(left, 1+r.Int32N(400))
		if at < holeFrom {
			end = min(end, holeFrom)
		}
		end = min(end, common)
		if end == common {
			left -= end - at
			see = append(see, backend.Span{From: at, To: end})
			at = 0
			continue
		}
		see = append(see, backend.Span{From: at, To: end})
		left, at = left-(end-at), end
	}
	return see
}

// add adds a row at a position that sees see and then itself; it returns what its children see.
func (c *crowd) add(r *rand.Rand, pos int, see []backend.Span) []backend.Span {
	slot := int32(common + 1 + 2*len(c.rows))
	see = append(slices.Clone(see), backend.Span{From: slot, To: slot + 1})
	c.rows = append(c.rows, backend.Row{Token: r.Int32N(int32(c.m.vocab)), Pos: int32(pos), Slot: slot, See: see})
	return see
}

// addTree adds a draft tree after a text: a branch that crosses KV splits, and leaves at its nodes.
func (c *crowd) addTree(r *rand.Rand, see []backend.Span) {
	pos := 0
	for _, s := range see {
		pos += int(s.To - s.From)
	}
	for i := range 6 {
		c.add(r, pos+i, see)
		if i%2 == 0 {
			c.add(r, pos+i, see)
		}
		see = c.add(r, pos+i, see)
	}
}

// contents returns the bits of all keys and values of a store, by layer.
func contents(s *kv) [][]uint32 {
	s.allocateSlots(0, int32(s.c.Slots))
	var all [][]uint32
	for _, l := range s.layers {
		var bits []uint32
		switch r := l.(type) {
		case *layerOf[uint16]:
			for _, v := range slices.Concat(append(slices.Clone(r.k), r.v...)...) {
				bits = append(bits, uint32(v))
			}
		case *layerOf[float32]:
			for _, v := range slices.Concat(append(slices.Clone(r.k), r.v...)...) {
				bits = append(bits, math.Float32bits(v))
			}
		}
		all = append(all, bits)
	}
	return all
}

// spoil overwrites the slots of rows with other keys and values, as dropped rows leave there.
func (c *crowd) spoil(rows []backend.Row) {
	junk := make([]float32, c.m.kvHeads*c.m.dim/c.m.heads)
	for i := range junk {
		junk[i] = 77
	}
	for _, r := range rows {
		store := c.store
		if r.KV != nil {
			store = c.other
		}
		for _, l := range store.layers {
			l.storeRow(r.Slot, junk, junk)
		}
	}
}

// company evaluates the rows of the given numbers in one pass on d, in that order, and checks that the results are
// those of the rows alone.
func (c *crowd) company(d *Device, numbers ...int) {
	c.t.Helper()
	var rows []backend.Row
	for at, i := range numbers {
		rows = append(rows, c.rows[i])
		if (i+len(numbers))%3 == 0 { // in the other store, with the same contents
			rows[at].KV = c.other
		}
	}
	c.spoil(rows)
	out := c.m.pass(c.t, d, c.store, rows, everything(len(rows)))
	for at, o := range out {
		want := c.alone[numbers[at]]
		same := slices.Equal(want.Logits, o.Logits) && slices.Equal(want.Hidden, o.Hidden) &&
			slices.Equal(want.Top, o.Top)
		if !same || want.LogSumExp != o.LogSumExp || want.Entropy != o.Entropy {
			sees := backend.CountVisible(rows[at].See)
			c.t.Fatalf("%s: row %d, which sees %d slots, differs at place %d of %v",
				d.Name(), numbers[at], sees, at, numbers)
		}
	}
}

// neighbours tries two and three rows with similar lengths, in any order.
func (c *crowd) neighbours(d *Device) {
	c.t.Helper()
	for i := 2; i < len(c.rows); i++ {
		c.company(d, i-1, i)
		if i%3 == 0 {
			c.company(d, i, i-1)
			c.company(d, i, i-2, i-1)
		}
	}
}

// companies tries random groups of all relevant sizes, and all rows at once.
func (c *crowd) companies(d *Device, r *rand.Rand) {
	c.t.Helper()
	sizes := []int{2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18}
	if testing.Short() || cpu.Features() == "generic" { // which is slow, and has fewer cases by size
		sizes = []int{2, 3, 5, 9}
	}
	for _, n := range sizes {
		c.company(d, r.Perm(len(c.rows))[:n]...)
	}
	c.company(d, r.Perm(len(c.rows))...)
	require.Equal(c.t, c.after, contents(c.store), "%s: keys and values", d.Name())
	require.Equal(c.t, c.after, contents(c.other), "%s: keys and values of the other store", d.Name())
}

// TestAloneOrBeside: the head, the hidden state, keys and values of a row have the same bits alone and in a pass with
// other texts, other branches and its own, in any order, for all types of weights, shapes of attention and numbers of
// workers.
func TestAloneOrBeside(t *testing.T) {
	racing.Spare(t)
	ds := devices(t, Options{Threads: 1}, Options{Threads: 2}, Options{Threads: 3})
	seed := rand.Uint64()
	t.Logf("seed of the companies: %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	many := shape{layers: 1, dim: 256, ffn: 256, heads: 16, kvHeads: 2, vocab: 300}
	files := many.files(t)
	recipes := synth.RecipeNames()
	if testing.Short() {
		recipes = []string{"q4_k_m"} // "each its own" has q8_0
	}
	for i, recipe := range recipes {
		t.Run(recipe, func(t *testing.T) {
			m := newSmall(t, ds[0], many, func(string) *gguf.File { return files(recipe) })
			newCrowd(t, m, ds[0], []gguf.Type{gguf.F16, gguf.F32}[i%2]).companies(ds[1], r)
		})
	}
	t.Run("each its own", func(t *testing.T) {
		own := map[string]string{
			"attn_v": "q4_k", "attn_k": "f32", "ffn_up": "q5_0", "ffn_down": "f16", "output": "q6_k",
		}
		m := newSmall(t, ds[0], many, func(tensor string) *gguf.File { return files(cmp.Or(own[tensor], "q8_0")) })
		newCrowd(t, m, ds[0], gguf.F16).companies(ds[1], r)
	})
	for name, s := range map[string]struct {
		shape
		kv gguf.Type
	}{
		"heads of 64":                {shape{1, 256, 256, 4, 2, chunk + 30}, gguf.F16},
		"heads of 128":               {shape{2, 256, 256, 2, 1, 300}, gguf.F16},
		"groups of 7":                {shape{1, 448, 64, 7, 1, 300}, gguf.F32},
		"a group of more than eight": {shape{1, 384, 64, 12, 1, 300}, gguf.F16},
		"heads of 16":                {shape{2, 64, 64, 4, 4, 300}, gguf.F32},
	} {
		if testing.Short() && s.dim > 256 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := s.file(t, "q8_0")
			c := newCrowd(t, newSmall(t, ds[0], s.shape, func(string) *gguf.File { return f }), ds[0], s.kv)
			c.companies(ds[2], r)
			if s.dim > 64 && cpu.Features() == "generic" {
				return
			}
			for _, d := range ds {
				c.neighbours(d)
			}
		})
	}
}

// TestWantEach: each row gets exactly the requested outputs, with the same values as if all were requested.
func TestWantEach(t *testing.T) {
	d := devices(t, Options{Threads: 2})[0]
	s := shape{layers: 1, dim: 64, ffn: 64, heads: 4, kvHeads: 2, vocab: chunk + 100}
	f := s.file(t, "q8_0")
	c := newCrowd(t, newSmall(t, d, s, func(string) *gguf.File { return f }), d, gguf.F32)
	rows, want := c.rows[:4], backend.Want{Rows: []int{0, 2, 3}, K: 4, Logits: true, Hidden: true}
	all := c.m.pass(t, d, c.store, rows, want)
	want.Each = []backend.WantRow{{K: 2, Hidden: true}, {K: 9}, {K: 1, Logits: true}}
	got := c.m.pass(t, d, c.store, rows, want)
	require.Len(t, got[1].Top, 9)
	assert.Equal(t, all[0].Top[:2], got[0].Top)
	assert.Equal(t, all[1].Top, got[1].Top[:4])
	assert.Equal(t, all[2].Top[:1], got[2].Top)
	assert.Equal(t, all[0].Hidden, got[0].Hidden)
	assert.Equal(t, all[2].Logits, got[2].Logits)
	assert.Empty(t, slices.Concat(got[0].Logits, got[1].Logits, got[1].Hidden, got[2].Hidden))
	for i := range got {
		assert.Equal(t, all[i].LogSumExp, got[i].LogSumExp)
		assert.Equal(t, all[i].Entropy, got[i].Entropy)
	}
}

// TestOtherShapes: rows of KV stores with different shapes in one pass are a bug of the caller.
func TestOtherShapes(t *testing.T) {
	d := devices(t, Options{Threads: 1})[0]
	c := backend.KVConfig{Layers: 1, Slots: 4, Heads: 2, KVHeads: 2, HeadSize: 4, RopeBase: 1000, Type: gguf.F16}
	one, err := d.NewKV(c)
	require.NoError(t, err)
	begin := func(edit func(*backend.KVConfig)) func() {
		c := c
		edit(&c)
		other, err := d.NewKV(c)
		require.NoError(t, err)
		see := []backend.Span{{From: 0, To: 1}}
		rows := []backend.Row{{See: see}, {See: see, KV: other}}
		return func() { assert.NoError(t, d.Begin(one, rows).End(t.Context())) }
	}
	assert.NotPanics(t, begin(func(c *backend.KVConfig) { c.Slots = 900 }))
	assert.Panics(t, begin(func(c *backend.KVConfig) { c.Type = gguf.F32 }))
	assert.Panics(t, begin(func(c *backend.KVConfig) { c.Layers = 2 }))
}

// TestAloneOrBesideExact tests the same on the reference device.
func TestAloneOrBesideExact(t *testing.T) {
	racing.Spare(t)
	ds := devices(t, Options{Threads: 1, Exact: true}, Options{Threads: 2, Exact: true})
	s := shape{layers: 1, dim: 64, ffn: 64, heads: 4, kvHeads: 2, vocab: 300}
	f := s.file(t, "q8_0")
	c := newCrowd(t, newSmall(t, ds[0], s, func(string) *gguf.File { return f }), ds[0], gguf.F32)
	for _, d := range ds {
		c.neighbours(d)
		c.companies(d, rand.New(rand.NewPCG(1, 1)))
	}
}

// TestEveryVariant runs the tests of bits again in child processes with the other variants of the kernels that this
// machine supports. The tests without assembly cover plain Go.
func TestEveryVariant(t *testing.T) {
	racing.Spare(t)
	if os.Getenv(cpu.Env) != "" {
		t.Skip("a single variant is selected")
	}
	for _, name := range cpu.Variants() {
		if name == cpu.Features() || name == "generic" {
			continue
		}
		const tests = "^(TestAloneOrBeside|TestAttendSplits|TestTies|TestRoundedWhereMade|TestDelta.*)$"
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run="+tests)
		cmd.Env = append(os.Environ(), cpu.Env+"="+name)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("the program runs in an emulator and cannot start itself")
		}
		require.NoError(t, err, "%s: %s", name, out)
	}
}
