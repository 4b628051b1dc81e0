package soft

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

//go:embed testdata/commands.metal
var commandSource string

// words makes a buffer of numbers.
func words(t testing.TB, d *Device, v ...uint32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(4 * len(v))
	require.NoError(t, err)
	for i, x := range v {
		binary.NativeEndian.PutUint32(b.Bytes()[4*i:], x)
	}
	t.Cleanup(b.Close)
	return b
}

func size(x, y, z int) metal.Size { return metal.Size{X: x, Y: y, Z: z} }

// encodeCase is a use of a command buffer.
type encodeCase struct {
	name   string
	want   string // a part of the error that Wait returns; "": none
	encode func(c metal.Commands)
}

// setUp encodes what a dispatch of a pipeline needs, but for threadgroup memory of dynamic length.
func (r *rig) setUp(c metal.Commands, pipeline string) {
	c.SetPipeline(r.pipeline("add"))
	set(c, 0, r.buffer(4096), 0)
	set(c, 1, words(r.t, r.Device, 1), 0)
	c.SetPipeline(r.pipeline(pipeline))
}

// checkedDispatches are dispatches of too few and too many threads, and without what their pipeline needs.
func checkedDispatches(r *rig) []encodeCase {
	dispatch := func(pipeline string, groups, threads metal.Size) func(metal.Commands) {
		return func(c metal.Commands) {
			r.setUp(c, pipeline)
			c.Dispatch(groups, threads)
		}
	}
	one, line := size(1, 1, 1), size(32, 1, 1)
	return []encodeCase{
		{"one simdgroup", "", dispatch("add", one, line)},
		{"nothing", "", func(c metal.Commands) {}},
		{"barriers before a dispatch", "", func(c metal.Commands) {
			r.setUp(c, "add")
			c.Barrier()
			c.Barrier()
			c.Dispatch(size(4, 1, 1), size(256, 1, 1))
		}},
		{"no pipeline", "no pipeline is set", func(c metal.Commands) { c.Dispatch(one, line) }},
		{"no argument 1", "buffer 1 (n) is not bound", func(c metal.Commands) {
			c.SetPipeline(r.pipeline("add"))
			set(c, 0, r.buffer(4096), 0)
			c.Dispatch(one, line)
		}},
		{"no threadgroups", "at least 1", dispatch("add", size(0, 1, 1), line)},
		{"negative threads", "at least 1", dispatch("add", one, size(32, -1, 1))},
		{"a row of too many threadgroups", "at most 1073741824", dispatch("add", size(1<<30+1, 1, 1), one)},
		{"too many threadgroups", "more than 1073741824 in all", dispatch("add", size(1<<15, 1<<15, 2), one)},
		{"a number that overflows", "more than 1073741824 in all", dispatch("add", size(1<<30, 1<<30, 1<<30), one)},
		{"more threads than a device has", "the pipeline allows 1024", dispatch("add", one, size(32, 32, 2))},
		{"more threads than a kernel allows", "the pipeline allows 64", dispatch("few", one, size(65, 1, 1))},
		{"two errors", "at least 1", func(c metal.Commands) {
			r.setUp(c, "add")
			c.Dispatch(size(1, 1, 0), one)
			set(c, 99, r.buffer(4096), 0)
		}},
	}
}

// checkedMemory are lengths of threadgroup memory.
func checkedMemory(r *rig) []encodeCase {
	length := func(bytes int) func(metal.Commands) {
		return func(c metal.Commands) { c.SetThreadgroupMemory(0, bytes) }
	}
	dynamic := func(bytes int) func(metal.Commands) { // 16384 belong to the kernel
		return func(c metal.Commands) {
			r.setUp(c, "dynamic")
			if bytes > 0 {
				c.SetThreadgroupMemory(2, bytes)
			}
			c.Dispatch(size(1, 1, 1), size(32, 1, 1))
		}
	}
	return []encodeCase{
		{"20 bytes", "want a multiple of 16", length(20)},
		{"0 bytes", "want a multiple of 16", length(0)},
		{"-16 bytes", "want a multiple of 16", length(-16)},
		{"a length over the limit", "want a multiple of 16 up to 32768", length(32784)},
		{"no length", "threadgroup memory 2 (s) has no length", dynamic(0)},
		{"a sum over the limit", "32784 bytes of threadgroup memory, more than 32768", dynamic(16400)},
		{"a sum at the limit", "", dynamic(16384)},
	}
}

// refusedObjects are buffers and pipelines that cannot be set.
func refusedObjects(r, other *rig) []encodeCase {
	x, closed, closedPipeline := r.buffer(4096), r.buffer(4096), r.pipeline("add")
	closed.Close()
	closedPipeline.Close()
	bind := func(index int, b metal.Buffer, offset int) func(metal.Commands) {
		return func(c metal.Commands) { set(c, index, b, offset) }
	}
	use := func(p metal.Pipeline) func(metal.Commands) { return func(c metal.Commands) { c.SetPipeline(p) } }
	return []encodeCase{
		{"a misaligned buffer", "want a multiple of 4 inside it", bind(0, x, 2)},
		{"a buffer from its end", "want a multiple of 4 inside it", bind(0, x, 4096)},
		{"a buffer from before its start", "want a multiple of 4 inside it", bind(0, x, -4)},
		{"index 31", "want 0 to 30", bind(31, x, 0)},
		{"index -1", "want 0 to 30", bind(-1, x, 0)},
		{"a buffer of another device", "not an object of this device", bind(0, other.buffer(64), 0)},
		{"a nil buffer", "not an object of this device", bind(0, nil, 0)},
		{"a pipeline of another device", "not an object of this device", use(other.pipeline("add"))},
		{"a nil pipeline", "not an object of this device", use(nil)},
		{"a closed buffer", "closed", bind(0, closed, 0)},
		{"a closed pipeline", "closed", use(closedPipeline)},
	}
}

// TestMistakes: Wait returns each mistake in encoding; the first one is kept.
func TestMistakes(t *testing.T) {
	r, other := newRig(t, commandSource, Options{}), newRig(t, commandSource, Options{})
	for _, c := range slices.Concat(checkedDispatches(r), checkedMemory(r), refusedObjects(r, other)) {
		t.Run(c.name, func(t *testing.T) {
			b := r.commands()
			c.encode(b)
			err := finish(b)
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestStates: a command buffer accepts nothing after its commit, and waiting needs a commit.
func TestStates(t *testing.T) {
	r := newRig(t, commandSource, Options{})
	c := r.commands()
	_, err := c.Wait()
	assert.ErrorIs(t, err, errUnwaited)
	c.Commit()
	c.SetPipeline(r.pipeline("add"))
	_, err = c.Wait()
	assert.ErrorIs(t, err, errCommitted)

	c = r.commands()
	c.Commit()
	assert.ErrorIs(t, finish(c), errCommitted)

	c = r.commands()
	c.Commit()
	c.Discard() // in vain
	for range 2 {
		_, err = c.Wait()
		assert.NoError(t, err)
	}

	c = r.commands()
	c.Discard()
	assert.ErrorIs(t, finish(c), errDiscarded)
}

// TestInFlight: command buffers run in the order of their commits while others are encoded, and each reports its times.
func TestInFlight(t *testing.T) {
	for _, o := range []Options{{}, {Threads: 3, Seed: 4}, {Variant: Check, Seed: 1}} {
		r := newRig(t, commandSource, o)
		x := r.buffer(4 * 1000)
		var all []metal.Commands
		want := uint32(0)
		for i := range uint32(50) {
			c := r.commands()
			for _, k := range []struct {
				name string
				n    uint32
			}{{"add", i}, {"times", 3}} {
				c.SetPipeline(r.pipeline(k.name))
				c.SetBuffers(0, []metal.Binding{{Buffer: x}, {Buffer: words(t, r.Device, 99, k.n), Offset: 4}})
				c.Dispatch(size(10, 1, 1), size(100, 1, 1))
				c.Barrier()
			}
			c.Commit()
			want = (want + i) * 3
			all = append(all, c)
		}
		end := time.Duration(0)
		for _, c := range all {
			timing, err := c.Wait()
			require.NoError(t, err)
			assert.LessOrEqual(t, end, timing.Start)
			assert.LessOrEqual(t, timing.Start, timing.End)
			end = timing.End
		}
		for i := range 1000 {
			require.Equal(t, want, binary.NativeEndian.Uint32(x.Bytes()[4*i:]))
		}
	}
}

// TestManyGoroutines: goroutines may use a device concurrently, each with its own command buffers.
func TestManyGoroutines(t *testing.T) {
	r := newRig(t, commandSource, Options{Threads: 2})
	var all, collector sync.WaitGroup
	stop := make(chan struct{})
	collector.Go(func() { // which interrupts threads in kernels
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for g := range 8 {
		x, n := r.buffer(4*256), words(t, r.Device, uint32(g))
		all.Go(func() {
			for range 20 {
				p, err := r.library.NewPipeline("add")
				if !assert.NoError(t, err) {
					return
				}
				c, err := r.NewCommands()
				if !assert.NoError(t, err) {
					return
				}
				encode(c, p, size(4, 1, 1), size(64, 1, 1), x, n)
				assert.NoError(t, finish(c))
				p.Close()
			}
			assert.Equal(t, uint32(20*g), binary.NativeEndian.Uint32(x.Bytes()[4*255:]))
		})
	}
	all.Wait()
	close(stop)
	collector.Wait()
}

// TestShapes: grids and threadgroups have three dimensions, and threadgroups of any size run.
func TestShapes(t *testing.T) {
	for _, o := range []Options{{Threads: 2}, {Variant: Check, Seed: 3}} {
		r := newRig(t, commandSource, o)
		for _, s := range [][2]metal.Size{
			{size(1, 1, 1), size(1, 1, 1)}, {size(2, 3, 4), size(5, 3, 2)}, {size(1, 7, 1), size(33, 1, 1)},
			{size(3, 1, 2), size(8, 8, 16)}, {size(100, 1, 1), size(31, 2, 1)},
		} {
			groups, threads := s[0], s[1]
			n := size(groups.X*threads.X, groups.Y*threads.Y, groups.Z*threads.Z)
			x := r.buffer(4 * n.X * n.Y * n.Z)
			c := r.commands()
			encode(c, r.pipeline("cube"), groups, threads, x)
			require.NoError(t, finish(c))
			for i := range n.X * n.Y * n.Z {
				want := i%n.X + 10*(i/n.X%n.Y) + 100*(i/n.X/n.Y)
				got := binary.NativeEndian.Uint32(x.Bytes()[4*i:])
				require.Equal(t, uint32(want), got, "%v %v %d", groups, threads, i)
			}
		}
	}
}

// TestPipelines: pipelines report their limits, and are refused if a kernel cannot run.
func TestPipelines(t *testing.T) {
	r := newRig(t, commandSource, Options{})
	p := r.pipeline("few")
	assert.Equal(t, "few", p.Name())
	assert.Equal(t, 64, p.Threads())
	assert.Equal(t, 32, p.SIMDWidth())
	assert.Zero(t, p.ThreadgroupMemory())
	p = r.pipeline("dynamic")
	assert.Equal(t, 1024, p.Threads())
	assert.Equal(t, 16384, p.ThreadgroupMemory())
	for _, c := range []struct {
		function, want string
		constants      []metal.Constant
	}{
		{"absent", "has no such function, but add, times", nil},
		{"large", "declares 32772 bytes of threadgroup memory", nil},
		{"flagged", "function constant 3 (flag) has no value", nil},
		{"flagged", "is bool, but its value is uint32", []metal.Constant{{Index: 3, Value: uint32(1)}}},
		{"flagged", "is bool, but its value is string", []metal.Constant{{Index: 3, Value: "yes"}}},
		{"flagged", "has no function constant 4", []metal.Constant{{Index: 3, Value: true}, {Index: 4, Value: true}}},
	} {
		t.Run(c.function+" "+c.want, func(t *testing.T) {
			_, err := r.library.NewPipeline(c.function, c.constants...)
			var e *metal.CompileError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.function, e.Function)
			assert.ErrorContains(t, err, "Metal function "+c.function+": ")
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestConstantsStayApart: two pipelines of one kernel have their own constants, also if their dispatches alternate, and
// on two devices.
func TestConstantsStayApart(t *testing.T) {
	one, two := newRig(t, commandSource, Options{}), newRig(t, commandSource, Options{})
	var all sync.WaitGroup
	for _, r := range []*rig{one, two} {
		x, y := r.buffer(128), r.buffer(128)
		yes := r.pipeline("flagged", metal.Constant{Index: 3, Value: true})
		no := r.pipeline("flagged", metal.Constant{Index: 3, Value: false})
		if r == two {
			yes, no = no, yes
		}
		all.Go(func() {
			for range 50 {
				c, err := r.NewCommands()
				if !assert.NoError(t, err) {
					return
				}
				encode(c, yes, size(1, 1, 1), size(32, 1, 1), x)
				encode(c, no, size(1, 1, 1), size(32, 1, 1), y)
				if !assert.NoError(t, finish(c)) {
					return
				}
				want := [2]byte{1, 2}
				if r == two {
					want = [2]byte{2, 1}
				}
				assert.Equal(t, want, [2]byte{x.Bytes()[0], y.Bytes()[0]})
			}
		})
	}
	all.Wait()
}

// TestClose: a buffer that is closed while a command buffer uses it lives until that has run; a closed device refuses
// everything.
func TestClose(t *testing.T) {
	d, err := Open(Options{})
	if err != nil {
		open(t, Options{}) // skips
	}
	r := &rig{Device: d, t: t}
	r.library, err = d.NewLibrary(commandSource)
	require.NoError(t, err)
	x, err := d.NewBuffer(4096)
	require.NoError(t, err)
	p := r.pipeline("few")
	c := r.commands()
	c.SetPipeline(p)
	set(c, 0, x, 0)
	x.Close()
	x.Close()
	c.Dispatch(size(16, 1, 1), size(64, 1, 1))
	c.Commit()
	late := r.commands()
	require.NoError(t, d.Close())
	_, err = c.Wait()
	assert.NoError(t, err)
	late.SetPipeline(p)
	assert.ErrorIs(t, finish(late), metal.ErrClosed)
	for what, err := range map[string]error{
		"Close":       d.Close(),
		"NewBuffer":   second(d.NewBuffer(64)),
		"NewLibrary":  second(d.NewLibrary(commandSource)),
		"NewCommands": second(d.NewCommands()),
		"NewPipeline": second(r.library.NewPipeline("add")),
		"WrapBuffer":  second(d.WrapBuffer(mustPages(t).used)),
	} {
		assert.ErrorIs(t, err, metal.ErrClosed, what)
	}
}

func second[T any](_ T, err error) error { return err }

func mustPages(t testing.TB) pages {
	p, err := mapAligned(1 << 16)
	require.NoError(t, err)
	t.Cleanup(p.unmapPages)
	return p
}

// TestBuffers: buffers have the requested length, and wrapped ones must be whole pages. Their memory is free after
// Close, or when the last commands with them are done.
func TestBuffers(t *testing.T) {
	d := open(t, Options{PageSize: 16384})
	limits := metal.Limits{PageSize: 16384, BufferLength: maxBufferLength, Threads: 1024, ThreadgroupMemory: 32768}
	assert.Equal(t, limits, d.Limits())
	for _, n := range []int{1, 7, 4096, 5000} {
		b, err := d.NewBuffer(n)
		require.NoError(t, err)
		assert.Equal(t, make([]byte, n), b.Bytes())
		b.Close()
		assert.Nil(t, b.Bytes())
	}
	for _, end := range []func(c metal.Commands){metal.Commands.Discard, func(c metal.Commands) {
		require.NoError(t, finish(c))
	}} {
		held, err := d.NewBuffer(64)
		require.NoError(t, err)
		c, err := d.NewCommands()
		require.NoError(t, err)
		set(c, 0, held, 0)
		set(c, 1, held, 4)
		held.Close()
		assert.NotNil(t, held.Bytes())
		end(c)
		assert.Nil(t, held.Bytes())
	}
	for _, n := range []int{0, -1, maxBufferLength + 1} {
		_, err := d.NewBuffer(n)
		assert.Error(t, err, n)
	}
	p := mustPages(t)
	b, err := d.WrapBuffer(p.used[:16384])
	require.NoError(t, err)
	assert.Equal(t, addressOf(p.used), addressOf(b.Bytes()))
	b.Close()
	assert.Empty(t, d.buffers)
	for _, wrong := range [][]byte{nil, p.used[:4096], p.used[4096:20480], p.used[:16385]} {
		_, err := d.WrapBuffer(wrong)
		assert.ErrorContains(t, err, "want whole pages of 16384", fmt.Sprint(len(wrong)))
	}
}

// TestOpen: invalid options are refused, and a missing compiler is reported.
func TestOpen(t *testing.T) {
	for _, o := range []Options{{Variant: "quick"}, {Threads: -1}, {PageSize: -4096}} {
		_, err := Open(o)
		assert.Error(t, err)
		assert.NotErrorIs(t, err, metal.ErrNoDevice)
	}
	d := open(t, Options{Variant: Check})
	assert.Equal(t, "software Metal (check)", d.Name())
	_, err := Open(Options{Clang: "/nowhere/clang-19"})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	t.Setenv("PATH", t.TempDir())
	_, err = Open(Options{})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "install clang-19 and lld-19")
}

// set binds one buffer.
func set(c metal.Commands, index int, b metal.Buffer, offset int) {
	c.SetBuffers(index, []metal.Binding{{Buffer: b, Offset: offset}})
}
