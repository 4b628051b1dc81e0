package soft

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/metal"
)

//go:embed testdata/faults.metal
var faultSource string

// lineOf returns the line of testdata/faults.metal that has a comment "fault: name".
func lineOf(t testing.TB, name string) int {
	for i, l := range strings.Split(faultSource, "\n") {
		if strings.HasSuffix(l, "// fault: "+name) {
			return i + 1
		}
	}
	t.Fatalf("no line of testdata/faults.metal is marked %q", name)
	return 0
}

// program is testdata/faults.metal on a device.
type program struct{ *rig }

func newProgram(t testing.TB, o Options) program {
	return program{newRig(t, "#line 1 \"faults.metal\"\n"+faultSource, o)}
}

// encode adds a dispatch of a kernel from x to y.
func (p program) encode(c metal.Commands, name string, groups int, x, y metal.Buffer) {
	c.SetPipeline(p.pipeline(name))
	set(c, 0, x, 0)
	set(c, 1, y, 0)
	c.SetThreadgroupMemory(0, 128)
	c.Dispatch(metal.Size{X: groups, Y: 1, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
}

// zeros makes a buffer of 64 numbers.
func (p program) zeros() metal.Buffer { return floats(p.t, p.Device, make([]float32, 64)...) }

// run runs one kernel on fresh buffers.
func (p program) run(name string, groups int) error {
	c := p.commands()
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i)
	}
	p.encode(c, name, groups, floats(p.t, p.Device, x...), p.zeros())
	return finish(c)
}

// fault checks that err contains a fault of a kind at a marked line.
func (p program) fault(err error, kind FaultKind, mark string) *Fault {
	p.t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !assert.True(p.t, ok, "%s: want a fault, have %v", mark, err) {
		return &Fault{}
	}
	assert.Equal(p.t, kind, f.Kind, "%s: %v", mark, err)
	assert.Equal(p.t, "faults.metal", f.File, mark)
	assert.Equal(p.t, lineOf(p.t, mark), f.Line, "%s: %v", mark, err)
	return f
}

// plantedBugs are the bugs of testdata/faults.metal: kernel NAME_bad has one, and NAME_good does not.
var plantedBugs = []struct {
	name       string
	kind       FaultKind
	everywhere bool // also reported by Fast
	groups     int  // 0: 1
}{
	{name: "barrier", kind: Race},
	{name: "flags", kind: Race},
	{name: "device_flags", kind: Race},
	{name: "reuse", kind: Race},
	{name: "simd_barrier", kind: Race},
	{name: "simd_reach", kind: Race},
	{name: "shared", kind: Race},
	{name: "bounds", kind: Bounds},
	{name: "bounds_write", kind: Bounds},
	{name: "below", kind: Bounds},
	{name: "divergent", kind: Divergence, everywhere: true},
	{name: "divergent_group", kind: Divergence, everywhere: true},
	{name: "divergent_simd", kind: Divergence, everywhere: true},
	{name: "early", kind: Divergence, everywhere: true},
	{name: "uninitialised", kind: Uninitialised},
	{name: "across", kind: Race, groups: 2},
	{name: "across_read", kind: Race, groups: 2},
	{name: "misaligned", kind: Misaligned},
	{name: "array", kind: Index},
	{name: "redzone", kind: Bounds},
	{name: "dynamic", kind: Bounds},
	{name: "lane", kind: Lane},
	{name: "matrix", kind: Divergence},
	{name: "matrix_bounds", kind: Bounds},
	{name: "matrix_race", kind: Race},
	{name: "shift", kind: Arithmetic},
	{name: "division", kind: Arithmetic},
	{name: "overflow", kind: Arithmetic},
	{name: "index", kind: Index},
	{name: "atomic", kind: Race},
	{name: "bytes", kind: Race},
	{name: "word", kind: Race},
	{name: "word_read", kind: Race},
	{name: "partly", kind: Uninitialised},
}

// TestFaults: each planted bug is reported at its line by the variants that promise it, with any schedule, and its twin
// without the bug is not.
func TestFaults(t *testing.T) {
	programs := map[Variant][]program{}
	for _, v := range []Variant{Check, Fast} {
		for seed := range uint64(4) {
			programs[v] = append(programs[v], newProgram(t, Options{Variant: v, Seed: seed}))
		}
	}
	kinds := map[FaultKind]string{
		Race: "race", Bounds: "out of bounds", Uninitialised: "uninitialised read", Divergence: "divergence",
		Lane: "no such thread", Misaligned: "misaligned access", Index: "array index",
		Arithmetic: "undefined arithmetic",
	}
	eitherAccess := []string{ // the order of the two accesses depends on the schedule
		"barrier", "simd_barrier", "simd_reach", "reuse", "shared", "across_read", "atomic", "word", "word_read",
	}
	for _, c := range plantedBugs {
		t.Run(c.name, func(t *testing.T) {
			devices, groups := programs[Check], max(c.groups, 1)
			if c.everywhere {
				devices = slices.Concat(devices, programs[Fast])
			}
			for _, p := range devices {
				p.t = t
				f, err := &Fault{}, p.run(c.name+"_bad", groups)
				if slices.Contains(eitherAccess, c.name) {
					f = p.anyFault(err)
				} else {
					f = p.fault(err, c.kind, c.name)
				}
				assert.Equal(t, c.name+"_bad", f.Kernel)
				assert.Contains(t, f.Error(), ": kernel "+f.Kernel+": "+kinds[f.Kind]+": ")
				assert.Regexp(t, `^\w`, f.Detail, "what is wrong comes first")
				assert.NoError(t, p.run(c.name+"_good", groups), "%s, seed %d", p.options.Variant, p.options.Seed)
			}
		})
	}
}

// anyFault checks that err contains a fault about unordered memory.
func (p program) anyFault(err error) *Fault {
	f, ok := errors.AsType[*Fault](err)
	if assert.True(p.t, ok, "want a fault, have %v", err) {
		assert.Contains(p.t, []FaultKind{Race, Uninitialised}, f.Kind)
		return f
	}
	return &Fault{}
}

// TestFaultSays: a fault reports what an access touched.
func TestFaultSays(t *testing.T) {
	p := newProgram(t, Options{Variant: Check})
	f := p.fault(p.run("bounds_bad", 1), Bounds, "bounds")
	assert.Equal(t, 0, f.Buffer)
	assert.Contains(t, f.Error(), "read of 4 bytes at offset 256 of buffer 0 (x), past the end of the buffer; "+
		"thread 63 of threadgroup 0")
	f = p.fault(p.run("redzone_bad", 1), Bounds, "redzone")
	assert.Equal(t, "s", f.Variable)
	f = p.fault(p.run("dynamic_bad", 1), Bounds, "dynamic")
	assert.Equal(t, "s", f.Variable)
	assert.Equal(t, 0, f.Buffer)
}

// TestMissingBarrier: dispatches without a barrier between them must not touch the same bytes, except for reads.
func TestMissingBarrier(t *testing.T) {
	for seed := range uint64(4) {
		p := newProgram(t, Options{Variant: Check, Seed: seed})
		x, y, z := p.zeros(), p.zeros(), p.zeros()
		for _, c := range []struct {
			name     string
			barrier  bool
			from, to metal.Buffer
			fault    bool
		}{
			{"reads what the first writes", false, y, z, true},
			{"reads what the first writes, after a barrier", true, y, z, false},
			{"writes the same", false, z, y, true},
			{"writes the same, after a barrier", true, z, y, false},
			{"writes what the first reads", false, z, x, true},
			{"writes what the first reads, after a barrier", true, z, x, false},
			{"reads the same", false, x, z, false},
		} {
			t.Run(fmt.Sprintf("%s, seed %d", c.name, seed), func(t *testing.T) {
				b := p.commands()
				p.encode(b, "copy", 1, x, y)
				if c.barrier {
					b.Barrier()
				}
				p.encode(b, "shifted", 1, c.from, c.to)
				err := finish(b)
				if !c.fault {
					assert.NoError(t, err)
					return
				}
				f, ok := errors.AsType[*Fault](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, MissingBarrier, f.Kind)
				assert.ElementsMatch(t, []string{"copy", "shifted"}, []string{f.Kernel, f.Other})
				assert.Contains(t, f.Error(), ": missing barrier: ")
			})
		}
		first, second := p.commands(), p.commands() // command buffers are ordered
		p.encode(first, "copy", 1, x, y)
		p.encode(second, "shifted", 1, y, z)
		first.Commit()
		second.Commit()
		_, err := first.Wait()
		assert.NoError(t, err)
		_, err = second.Wait()
		assert.NoError(t, err)
	}
}

// TestPoisonBuffers: poisoned memory must be written before it is read, by the CPU or by a kernel.
func TestPoisonBuffers(t *testing.T) {
	p := newProgram(t, Options{Variant: Check, PoisonBuffers: true})
	buffer := func() metal.Buffer {
		b, err := p.NewBuffer(256)
		require.NoError(t, err)
		return b
	}
	copyTo := func(from, to metal.Buffer) error {
		c := p.commands()
		p.encode(c, "copy", 1, from, to)
		return finish(c)
	}
	x, y, z := buffer(), buffer(), buffer()
	fast, err := open(t, Options{PoisonBuffers: true}).NewBuffer(252)
	require.NoError(t, err)
	defer fast.Close()
	for _, v := range append(values(x), values(fast)...) {
		assert.True(t, v != v, "poison is NaN")
	}
	f := p.fault(copyTo(x, y), Uninitialised, "copy")
	assert.Equal(t, 0, f.Buffer)
	clear(x.Bytes()[:248])
	f = p.fault(copyTo(x, y), Uninitialised, "copy")
	assert.Contains(t, f.Detail, "offset 248")
	clear(x.Bytes())
	require.NoError(t, copyTo(x, y), "the CPU has written it")
	require.NoError(t, copyTo(y, z), "a kernel has written it")
	pages := mustPages(t).used
	w, err := p.WrapBuffer(pages)
	require.NoError(t, err)
	defer w.Close()
	assert.Zero(t, pages[0], "the memory of another")
}

// TestAfterFault: after a fault the device works.
func TestAfterFault(t *testing.T) {
	p := newProgram(t, Options{})
	for range 3 {
		p.fault(p.run("divergent_bad", 5), Divergence, "divergent")
		assert.NoError(t, p.run("divergent_good", 1))
	}
}

// TestClockRunsOut: the logical clock restarts before it overflows, and earlier accesses no longer count.
func TestClockRunsOut(t *testing.T) {
	p := newProgram(t, Options{Variant: Check})
	x, y := p.zeros(), p.zeros()
	copyTwice := func(barrier bool) error {
		c := p.commands()
		p.encode(c, "copy", 1, x, y)
		if barrier {
			c.Barrier()
		}
		p.encode(c, "copy", 1, y, x)
		return finish(c)
	}
	require.NoError(t, copyTwice(true))
	p.workers[0].cStruct().clock = 1<<31 - 2
	require.NoError(t, copyTwice(true))
	assert.Less(t, p.workers[0].cStruct().clock, uint32(1<<31))
	f, ok := errors.AsType[*Fault](copyTwice(false))
	require.True(t, ok)
	assert.Equal(t, MissingBarrier, f.Kind)
}

// TestWaitsForCommitted: what reads or frees the memory of buffers waits until no command buffer runs.
func TestWaitsForCommitted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := open(t, Options{Variant: Check})
		running := func(is bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.running = is
			d.idle.Broadcast()
		}
		for name, call := range map[string]func() error{
			"Counts":      func() error { d.Counts(); return nil },
			"ResetCounts": d.ResetCounts,
		} {
			running(true)
			over := false
			go func() { assert.NoError(t, call()); over = true }()
			synctest.Wait()
			assert.False(t, over, name)
			running(false)
			synctest.Wait()
			assert.True(t, over, name)
		}
	})
}
