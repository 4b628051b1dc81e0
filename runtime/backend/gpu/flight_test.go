package gpu_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// late is a device that runs a command buffer as late as possible: when the host waits for it or for a later one.
// Changes of memory that a committed pass still needs thus have an effect. A buffer must not be closed while such a
// pass uses it.
type late struct {
	metal.Device
	t     testing.TB
	queue []*lateCommands // committed, to run in this order
	open  []*lateCommands // committed and not waited for
	limit int             // max length of open
}

type lateBuffer struct {
	metal.Buffer
	d *late
}

type lateCommands struct {
	metal.Commands
	d    *late
	uses []*lateBuffer
}

func (d *late) NewBuffer(n int) (metal.Buffer, error) {
	b, err := d.Device.NewBuffer(n)
	return &lateBuffer{b, d}, err
}

func (d *late) NewCommands() (metal.Commands, error) {
	c, err := d.Device.NewCommands()
	return &lateCommands{Commands: c, d: d}, err
}

func (b *lateBuffer) Close() {
	for _, c := range b.d.open {
		assert.False(b.d.t, slices.Contains(c.uses, b), "a committed pass uses a closed buffer")
	}
	b.Buffer.Close()
}

func (c *lateCommands) SetBuffers(first int, bindings []metal.Binding) {
	all := slices.Clone(bindings)
	for i, b := range all {
		own := b.Buffer.(*lateBuffer)
		c.uses, all[i].Buffer = append(c.uses, own), own.Buffer
	}
	c.Commands.SetBuffers(first, all)
}

func (c *lateCommands) Commit() {
	c.d.queue, c.d.open = append(c.d.queue, c), append(c.d.open, c)
	c.d.limit = max(c.d.limit, len(c.d.open))
}

func (c *lateCommands) Wait() (metal.Timing, error) {
	assert.Contains(c.d.t, c.d.open, c, "Wait for a pass that is not open")
	for n := slices.Index(c.d.queue, c) + 1; n > 0; n-- {
		c.d.queue[0].Commands.Commit()
		c.d.queue = c.d.queue[1:]
	}
	c.d.open = slices.DeleteFunc(c.d.open, func(o *lateCommands) bool { return o == c })
	return c.Commands.Wait()
}

// small returns a model that is fast on a software device.
func small(t testing.TB) *gguf.File {
	return file(t, "q8_0", func(s *synth.Spec) {
		s.Layers, s.Dim, s.Heads, s.KVHeads, s.FFN, s.Vocab = 2, 64, 4, 2, 64, 300
	})
}

// text is a program of random passes over one KV store: rows with the best or a sampled token of the row before,
// batches, and slots that are copied, swapped, read and written. Ahead of results it must give the same results as step
// by step.
type text struct {
	t     *testing.T
	m     *transformer.Model
	kv    backend.KV
	r     *rand.Rand
	ahead bool
	under []flown // rows without a result yet
	found []any
	chain bool // the next row takes its token from the last of under
	full  []int32
}

// flown is a row in flight, or its result if the program runs step by step.
type flown struct {
	f   *transformer.Flight
	out *backend.Output
}

const textSlots, textPrefix = 24, 8

// row returns a row in a slot, which sees the prefix and one more slot.
func (x *text) row(slot int32) backend.Row {
	see := []backend.Span{{From: 0, To: textPrefix}}
	if other := x.full[x.r.IntN(len(x.full))]; other != slot && other >= textPrefix {
		see = append(see, backend.Span{From: other, To: other + 1})
	}
	see = append(see, backend.Span{From: slot, To: slot + 1})
	return backend.Row{Token: x.r.Int32N(300), Pos: textPrefix + slot, Slot: slot, See: see}
}

func (x *text) slot() int32 { return textPrefix + x.r.Int32N(textSlots-textPrefix) }

// next runs one row.
func (x *text) next() {
	row, before := x.row(x.slot()), (*transformer.Flight)(nil)
	x.full = append(x.full, row.Slot)
	if x.chain {
		last := x.under[len(x.under)-1]
		if before = last.f; !x.ahead {
			row.Token, before = last.out.Next, nil
		}
	}
	want := backend.Want{Rows: []int{0}, K: 1 + x.r.IntN(3), Logits: x.r.IntN(3) == 0}
	if x.r.IntN(2) == 0 {
		want.Draw.Sampling = terms.Sampling{Temperature: 20, Seed: x.r.Uint64(), TopK: 20 * x.r.IntN(2)}
	}
	f, err := x.m.Start(x.kv, row, want, before)
	require.NoError(x.t, err)
	now := flown{f: f}
	if !x.ahead {
		now.out, err = f.Wait(x.t.Context())
		require.NoError(x.t, err)
	}
	x.under, x.chain = append(x.under, now), true
}

// settle gets the results of all rows in flight except the last keep.
func (x *text) settle(keep int) {
	for len(x.under) > keep {
		out := x.under[0].out
		if x.ahead {
			var err error
			out, err = x.under[0].f.Wait(x.t.Context())
			require.NoError(x.t, err)
		}
		x.found, x.under = append(x.found, *out), x.under[1:]
	}
	x.chain = len(x.under) > 0
}

// drop drops the rows in flight.
func (x *text) drop() {
	for _, u := range x.under {
		if x.ahead {
			u.f.Drop()
		}
	}
	x.under, x.chain = nil, false
}

// batch runs rows in one pass and gets all results.
func (x *text) batch(rows []backend.Row) {
	out, want := make([]backend.Output, len(rows)), backend.Want{K: 2, Logits: true, Hidden: true}
	for i := range rows {
		want.Rows = append(want.Rows, i)
		x.full = append(x.full, rows[i].Slot)
	}
	require.NoError(x.t, x.m.Forward(x.t.Context(), x.kv, rows, out, want))
	x.found = append(x.found, out)
}

// run runs the program of a seed.
func (x *text) run(seed uint64) []any {
	x.r = rand.New(rand.NewPCG(seed, 3))
	var prefix []backend.Row
	for i := range int32(textPrefix) {
		prefix = append(prefix, backend.Row{Token: 7 * i, Pos: i, Slot: i, See: []backend.Span{{From: 0, To: i + 1}}})
	}
	x.batch(prefix[:2])
	x.batch(prefix[2:])
	for range 40 {
		switch x.r.IntN(11) {
		case 0:
			x.settle(x.r.IntN(2))
		case 1:
			x.drop()
		case 2:
			x.kv.Copy(x.full[x.r.IntN(len(x.full))], x.full[x.r.IntN(len(x.full))])
		case 3:
			x.kv.Swap(x.full[x.r.IntN(len(x.full))], x.full[x.r.IntN(len(x.full))])
		case 4: // keys and values are read, and written to the other layer
			layer, b := x.r.IntN(2), make([]byte, x.kv.Config().LayerBytes(textSlots))
			x.kv.Read(layer, textSlots, b)
			x.kv.Write(1-layer, textSlots, b)
			x.found = append(x.found, b)
		case 5:
			slots, rows := x.r.Perm(textSlots - textPrefix)[:1+x.r.IntN(12)], []backend.Row(nil)
			for _, s := range slots {
				row := x.row(int32(textPrefix + s))
				row.See = append(row.See[:1:1], row.See[len(row.See)-1]) // it sees none of the other rows of the pass
				rows = append(rows, row)
			}
			x.batch(rows)
		default:
			x.next()
		}
	}
	x.settle(0)
	return x.found
}

// TestFlights: passes that run ahead, on a device that runs them as late as possible, give the results of passes one by
// one. Slots are copied and swapped, and memory is replaced, only when no pass in flight needs it any more.
func TestFlights(t *testing.T) {
	f := small(t)
	m, _ := load(t, f, gpu.OpenMetal(t, soft.Options{}), gpu.Options{})
	flown := 0
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, rand.Uint64N(1 << 30)} {
		device := &late{Device: gpu.OpenMetal(t, soft.Options{Seed: seed}), t: t}
		ahead, d := load(t, f, device, gpu.Options{})
		step := &text{t: t, m: m}
		fly := &text{t: t, m: ahead, ahead: true}
		for _, x := range []*text{step, fly} {
			c, err := x.m.NewCache(textSlots, gguf.F16)
			require.NoError(t, err)
			x.kv = c.KV()
		}
		require.Equal(t, step.run(seed), fly.run(seed), "seed %d", seed)
		flown = max(flown, device.limit) // a random program may wait for each pass
		fly.next()
		fly.settle(0) // dropped passes have completed, too
		assert.Equal(t, d.Frames(), d.Spare(), "frames are reused, seed %d", seed)
		for range 3 {
			fly.next()
		}
		require.NoError(t, d.Close(), "with passes in flight")
		assert.Empty(t, device.open, "all passes have completed")
	}
	assert.GreaterOrEqual(t, flown, 2, "passes were in flight at the same time")
}

// TestNoToken: a pass cannot follow one that has ended, or one without a single token on the device.
func TestNoToken(t *testing.T) {
	m, d := load(t, small(t), gpu.OpenMetal(t, soft.Options{}), gpu.Options{})
	c, err := m.NewCache(8, gguf.F16)
	require.NoError(t, err)
	row := func(slot int32) backend.Row {
		return backend.Row{Token: 1, Pos: slot, Slot: slot, See: []backend.Span{{From: slot, To: slot + 1}}}
	}
	x, err := d.NewTensor(2, 64)
	require.NoError(t, err)
	g, err := d.LoadNorm(gguf.Tensor{Type: gguf.F32, Shape: []int{64}, Data: make([]byte, 256)}, 1e-6)
	require.NoError(t, err)
	w, err := d.LoadWeight(gguf.Tensor{Type: gguf.F32, Shape: []int{64, 100}, Data: make([]byte, 25600)}, nil)
	require.NoError(t, err)
	pass := func(rows int, want backend.Want) backend.Flight {
		p := d.Begin(c.KV(), []backend.Row{row(0), row(1)}[:rows]).(backend.Flight)
		p.Embed(x, w)
		p.Head(make([]backend.Output, rows), x, g, w, want)
		p.Commit()
		return p
	}
	drawn := backend.Draw{Sampling: terms.Sampling{Temperature: 1, TopK: 65}}
	for _, k := range []struct {
		rows int
		want backend.Want
		err  string
	}{
		{1, backend.Want{}, "does not find its token"},
		{2, backend.Want{Rows: []int{0, 1}, K: 3}, "does not find its token"},
		{1, backend.Want{Rows: []int{0}, K: 65}, "does not find its token"},
		{1, backend.Want{Rows: []int{0}, K: 65, Draw: drawn}, ""},
		{2, backend.Want{Rows: []int{0, 1}, K: 3, Draw: drawn}, "does not find its token"},
		{2, backend.Want{Rows: []int{1}, K: 64}, ""},
	} {
		before := pass(k.rows, k.want)
		next := row(3)
		next.Token = 1000 // ignored
		after := d.BeginAfter(before, c.KV(), next)
		after.Embed(x, w)
		after.Commit()
		if err := after.Wait(t.Context()); k.err == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, k.err)
		}
		require.NoError(t, before.Wait(t.Context()))
	}
	assert.Equal(t, d.Frames(), d.Spare(), "errors leak no frame")
}

// kept is a device that counts the bytes of open buffers, and panics if one is closed twice.
type kept struct {
	metal.Device
	open  map[metal.Buffer]bool
	bytes int
	limit int // max bytes; 0: any number
}

func openKept(t *testing.T) (*kept, *gpu.Device) {
	t.Helper()
	k := &kept{Device: gpu.OpenMetal(t, soft.Options{}), open: map[metal.Buffer]bool{}}
	d, err := gpu.New(k, gpu.Options{})
	require.NoError(t, err)
	return k, d
}

type keptBuffer struct {
	metal.Buffer
	d *kept
}

func (d *kept) NewBuffer(n int) (metal.Buffer, error) {
	if d.limit > 0 && d.bytes+n > d.limit {
		return nil, errors.New("no memory is left")
	}
	b, err := d.Device.NewBuffer(n)
	d.bytes += n
	d.open[b] = true
	return keptBuffer{b, d}, err
}

func (b keptBuffer) Close() {
	if !b.d.open[b.Buffer] {
		panic("a buffer is closed twice")
	}
	delete(b.d.open, b.Buffer)
	b.d.bytes -= len(b.Bytes())
	b.Buffer.Close()
}

func (d *kept) NewCommands() (metal.Commands, error) {
	c, err := d.Device.NewCommands()
	return keptCommands{c}, err
}

type keptCommands struct{ metal.Commands }

func (c keptCommands) SetBuffers(first int, bindings []metal.Binding) {
	all := slices.Clone(bindings)
	for i, b := range all {
		all[i].Buffer = b.Buffer.(keptBuffer).Buffer
	}
	c.Commands.SetBuffers(first, all)
}

// TestNothingIsLeft: a device frees everything that it allocated for short and long passes, with logits, with more best
// tokens than its kernels find, with a router, and with a draw. Passes of a size that it has had allocate nothing.
func TestNothingIsLeft(t *testing.T) {
	k, d := openKept(t)
	m, err := transformer.Load(file(t, "q8_0", nil), d)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(9, 9))
	layers, _ := network(t, r, 256, []int{33, 1}, true)
	net, err := d.LoadRouter(layers, true)
	require.NoError(t, err)
	c, err := m.NewCache(200, gguf.F16)
	require.NoError(t, err)
	for i, want := range []backend.Want{
		{Rows: []int{0}, K: 3, Router: net},
		{Rows: []int{0}, K: 70, Hidden: true},
		{Rows: []int{0}, K: 1, Logits: true},
	} {
		rows, err := c.Extend(randomTokens(r, []int{150, 1, 20}[i], 512))
		require.NoError(t, err)
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), want))
	}
	row, err := c.Extend(randomTokens(r, 1, 512))
	require.NoError(t, err)
	drawn := backend.Draw{Sampling: terms.Sampling{Temperature: 1, Seed: 1}}
	f, err := m.Start(c.KV(), row[0], backend.Want{K: 1, Draw: drawn}, nil)
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
	first := 0
	for i := range 21 {
		rows, err := c.Extend(randomTokens(r, 1, 512))
		require.NoError(t, err)
		want := backend.Want{Rows: []int{0}, K: 1}
		require.NoError(t, m.Forward(t.Context(), c.KV(), rows, make([]backend.Output, 1), want))
		if i == 0 {
			first = k.bytes
		}
	}
	assert.Equal(t, first, k.bytes, "equal passes need no more memory")
	for range 2 {
		require.NoError(t, d.Close())
		assert.Zero(t, k.bytes)
	}
}

// TestKVWithoutMemory: if memory runs out in the middle of a KV store, none of it is kept.
func TestKVWithoutMemory(t *testing.T) {
	k, d := openKept(t)
	c := backend.KVConfig{Layers: 3, Slots: 10, Heads: 1, KVHeads: 1, HeadSize: 8, RopeBase: 1e4, Type: gguf.F16}
	before := k.bytes
	for layers := range int(c.Layers) {
		k.limit = before + layers*int(c.Bytes())/int(c.Layers)
		if layers == 0 {
			k.limit++
		}
		_, err := d.NewKV(c)
		require.ErrorContains(t, err, "no memory is left")
		assert.Equal(t, before, k.bytes, "with room for %d layers", layers)
	}
	k.limit = 0
	require.NoError(t, d.Close())
	assert.Zero(t, k.bytes)
}

// TestKVGivenBack: the memory of an unreachable KV store is freed when another store is made, and no other memory.
func TestKVGivenBack(t *testing.T) {
	k, d := openKept(t)
	before := k.bytes
	c := backend.KVConfig{Layers: 2, Slots: 10, Heads: 1, KVHeads: 1, HeadSize: 8, RopeBase: 1e4, Type: gguf.F16}
	held, err := d.NewKV(c)
	require.NoError(t, err)
	one := k.bytes - before
	assert.EqualValues(t, c.Bytes(), one)
	for range 5 {
		_, err = d.NewKV(c)
		require.NoError(t, err)
	}
	for range 10000 { // cleanups run some time after a collection
		runtime.GC()
		_, err = d.NewKV(c)
		require.NoError(t, err)
		if k.bytes-before == 2*one {
			break
		}
	}
	assert.Equal(t, 2*one, k.bytes-before, "the reachable one, and the last")
	held.Copy(0, 1)
	require.NoError(t, d.Close())
	assert.Zero(t, k.bytes, "a closed device has no memory")
}
