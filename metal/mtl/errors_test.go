//go:build linux && (amd64 || arm64)

package mtl

import (
	"slices"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCompileErrors(t *testing.T) {
	f := newFake(t, &goGPU{})
	d := f.open(t)
	for source, want := range map[string]string{
		"scale nonsense": "program_source:1:1: error: unknown word nonsense",
		"scale\x00":      "the source has a zero byte",
	} {
		t.Run(source, func(t *testing.T) {
			_, err := d.NewLibrary(source)
			var compile *metal.CompileError
			require.ErrorAs(t, err, &compile)
			assert.Equal(t, metal.CompileError{Log: want}, *compile)
		})
	}

	l, err := d.NewLibrary("scale")
	require.NoError(t, err)
	defer l.Close()
	for _, c := range []struct {
		name, function string
		constants      []metal.Constant
		want           string
	}{
		{"missing", "missing", nil, "the library has no function of this name"},
		{"missing, with a constant", "missing", []metal.Constant{{Value: true}},
			"function missing is not in the library"},
		{"a name with a zero byte", "sca\x00le", nil, "this is no name of a function"},
		{"a constant of type int", "scale", []metal.Constant{{Value: 1}}, "function constant 0 is a int"},
		{"a nil constant", "scale", []metal.Constant{{Value: nil}}, "function constant 0 is a <nil>"},
		{"index -1", "scale", []metal.Constant{{Index: -1, Value: true}}, "no function constant has index -1"},
		{"index 65536", "scale", []metal.Constant{{Index: 65536, Value: true}}, "no function constant has index 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.NewPipeline(c.function, c.constants...)
			var compile *metal.CompileError
			require.ErrorAs(t, err, &compile)
			assert.Equal(t, c.function, compile.Function)
			assert.Contains(t, compile.Log, c.want)
		})
	}
}

// TestLimits: a pipeline or a device with limits that are too small for the kernels is refused.
func TestLimits(t *testing.T) {
	f := newFake(t, &goGPU{})
	d := f.open(t)
	l, err := d.NewLibrary("scale")
	require.NoError(t, err)
	defer l.Close()
	for want, change := range map[string]func(*fakeLimits){
		"simdgroups have 64 threads instead of 32":   func(l *fakeLimits) { l.width = 64 },
		"declares 32784 bytes of threadgroup memory": func(l *fakeLimits) { l.uses = 32784 },
		"threadgroups have at most 16 threads":       func(l *fakeLimits) { l.threads = 16 },
	} {
		t.Run(want, func(t *testing.T) {
			f.limits = change
			_, err := l.NewPipeline("scale")
			assert.ErrorContains(t, err, want)
		})
	}
	f.limits = func(l *fakeLimits) { l.most = size{width: 64, height: 32, depth: 16} }
	flat := newBench(t, f)
	for _, threads := range []metal.Size{{X: 65, Y: 1, Z: 1}, {X: 1, Y: 33, Z: 1}, {X: 1, Y: 1, Z: 17}} {
		c := begin(t, flat)
		flat.set(c, 1)
		c.Dispatch(one(1), threads)
		assert.ErrorContains(t, finish(c), "threads: at most")
	}

	f.limits = func(l *fakeLimits) { l.memory = 0 }
	_, err = Open(Options{Libraries: []string{buildFake(t)}})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "limits that make no sense")

	f.limits = func(l *fakeLimits) { l.buffer = 1000 }
	small, err := Open(Options{Libraries: []string{buildFake(t)}})
	require.NoError(t, err)
	defer small.Close()
	_, err = small.NewBuffer(1001)
	assert.ErrorContains(t, err, "a Metal buffer has 1 to 1000 bytes, not 1001")
	_, err = small.NewBuffer(0)
	assert.ErrorContains(t, err, "has 1 to 1000 bytes, not 0")
	_, err = small.NewBuffer(-1)
	assert.ErrorContains(t, err, "has 1 to 1000 bytes, not -1")
}

// misuse is a use of a command buffer that is an error.
type misuse struct {
	name   string
	want   string // a part of the error
	encode func(c metal.Commands)
}

// refusedBindings are buffers of b and of others that cannot be arguments.
func refusedBindings(t *testing.T, b, other *bench) []misuse {
	closed, err := b.NewBuffer(16)
	require.NoError(t, err)
	closed.Close()
	bind := func(index int, x metal.Buffer, offset int) func(metal.Commands) {
		return func(c metal.Commands) { set(c, index, x, offset) }
	}
	bindAll := func(first int, all ...metal.Binding) func(metal.Commands) {
		return func(c metal.Commands) { c.SetBuffers(first, all) }
	}
	return []misuse{
		{"from the end", "[[buffer(0)]] is set to begin at byte 256 of 256", bind(0, b.x, 256)},
		{"from before the start", "[[buffer(0)]] is set to begin at byte -4", bind(0, b.x, -4)},
		{"misaligned", "[[buffer(0)]] is set to begin at byte 2", bind(0, b.x, 2)},
		{"closed", "[[buffer(5)]] is set to a *mtl.buffer that is closed", bind(5, closed, 0)},
		{"another device's", "closed or of another device", bind(0, other.x, 0)},
		{"nil", "is set to a <nil>", bind(0, nil, 0)},
		{"another package's", "is set to a *mtl.goBuffer", bind(0, &goBuffer{make([]byte, 4)}, 0)},
		{"index 31", "no argument index 31", bind(31, b.x, 0)},
		{"index -1", "no argument index -1", bind(-1, b.x, 0)},
		{"the second of a list from its end", "[[buffer(1)]] is set to begin at byte 256 of 256",
			bindAll(0, metal.Binding{Buffer: b.x}, metal.Binding{Buffer: b.out, Offset: 256})},
		{"nil in a list", "[[buffer(4)]] is set to a <nil>", bindAll(4, metal.Binding{})},
		{"a list up to index 31", "no argument index 31", bindAll(30, make([]metal.Binding, 2)...)},
	}
}

// refusedPipelines are pipelines that b cannot use.
func refusedPipelines(t *testing.T, b, other *bench) []misuse {
	closed := newPipeline(t, b, "scale", "scale")
	closed.Close()
	return []misuse{
		{"no pipeline", "Dispatch without a pipeline", func(c metal.Commands) { c.Dispatch(one(1), one(1)) }},
		{"a nil pipeline", "SetPipeline with a <nil>", func(c metal.Commands) { c.SetPipeline(nil) }},
		{"a closed pipeline", "SetPipeline with a *mtl.pipeline that is closed",
			func(c metal.Commands) { c.SetPipeline(closed) }},
		{"another device's pipeline", "SetPipeline with a *mtl.pipeline",
			func(c metal.Commands) { c.SetPipeline(other.pipeline) }},
	}
}

// refusedSizes are numbers of threads that a threadgroup of b cannot have.
func refusedSizes(b *bench) []misuse {
	dispatch := func(groups, threads metal.Size) func(metal.Commands) {
		return func(c metal.Commands) {
			b.set(c, 1)
			c.Dispatch(groups, threads)
		}
	}
	return []misuse{
		{"no threadgroups", "Dispatch of {0 1 1} threadgroups", dispatch(one(0), one(1))},
		{"negative threads", "of {1 1 -1} threads", dispatch(one(1), metal.Size{X: 1, Y: 1, Z: -1})},
		{"a long threadgroup", "threadgroups of {513 1 1} threads: at most 512", dispatch(one(1), one(513))},
		{"a deep threadgroup", "threadgroups of {16 16 4} threads", dispatch(one(1), metal.Size{X: 16, Y: 16, Z: 4})},
		{"a number that overflows", "threads: at most 512", dispatch(one(1), metal.Size{X: 1 << 32, Y: 1 << 32, Z: 1})},
	}
}

// refusedMemory are lengths of threadgroup memory that b cannot have.
func refusedMemory(t *testing.T, b *bench) []misuse {
	scale := newPipeline(t, b, "scale", "scale")
	length := func(index, bytes int) func(metal.Commands) {
		return func(c metal.Commands) { c.SetThreadgroupMemory(index, bytes) }
	}
	return []misuse{
		{"8 bytes", "[[threadgroup(0)]] is given 8 bytes", length(0, 8)},
		{"0 bytes", "[[threadgroup(0)]] is given 0 bytes", length(0, 0)},
		{"a length over the limit", "multiples of 16 up to 32768", length(0, 32784)},
		{"memory with index 40", "no argument index 40", length(40, 16)},
		{"a sum over the limit", "32784 bytes of threadgroup memory: 32768", func(c metal.Commands) {
			b.set(c, 1)
			c.SetThreadgroupMemory(0, 16384)
			c.SetThreadgroupMemory(30, 12304) // 4096 belong to the kernel
			c.Dispatch(one(1), one(1))
		}},
		{"a sum over the limit with a second kernel", "scale: Dispatch with 32784 bytes of threadgroup memory",
			func(c metal.Commands) {
				b.set(c, 1) // the next kernel has the same number of bytes as this one
				c.SetThreadgroupMemory(0, 16384)
				c.SetPipeline(scale)
				c.SetThreadgroupMemory(0, 16384)
				c.SetThreadgroupMemory(30, 12304)
				c.Dispatch(one(1), one(1))
			}},
	}
}

// TestMisuse: uses that make Metal end the process, or give wrong results, are returned by Wait as errors, without
// calling Metal.
func TestMisuse(t *testing.T) {
	f, b := goBench(t)
	other := newBench(t, f)
	cases := slices.Concat(refusedBindings(t, b, other), refusedPipelines(t, b, other), refusedSizes(b),
		refusedMemory(t, b))
	commits := f.counts["commit"] // of the residency set
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			commands := begin(t, b)
			c.encode(commands)
			commands.SetThreadgroupMemory(0, 1) // the first error is kept
			assert.ErrorContains(t, finish(commands), c.want)
		})
	}
	assert.Equal(t, commits, f.counts["commit"])
	assert.Zero(t, f.counts["dispatchThreadgroups:threadsPerThreadgroup:"])
}

// TestOrder: calls in a wrong order are errors.
func TestOrder(t *testing.T) {
	_, b := goBench(t)
	c := begin(t, b)
	_, err := c.Wait()
	assert.ErrorContains(t, err, "Wait before Commit")
	c.Discard()
	c.Discard()
	assert.ErrorContains(t, finish(c), "Wait before Commit", "the first error is kept")

	for want, do := range map[string]func(c metal.Commands){
		"SetBuffers after":           func(c metal.Commands) { c.SetBuffers(0, []metal.Binding{{Buffer: b.x}}) },
		"SetPipeline after":          func(c metal.Commands) { c.SetPipeline(b.pipeline) },
		"SetThreadgroupMemory after": func(c metal.Commands) { c.SetThreadgroupMemory(0, 16) },
		"Dispatch after":             func(c metal.Commands) { c.Dispatch(one(1), one(1)) },
		"Barrier after":              func(c metal.Commands) { c.Barrier() },
		"Commit after":               func(c metal.Commands) { c.Commit() },
	} {
		t.Run(want, func(t *testing.T) {
			c := begin(t, b)
			c.Commit()
			do(c)
			c.Discard() // does nothing
			_, err := c.Wait()
			assert.ErrorContains(t, err, want)
			_, err = c.Wait()
			assert.ErrorContains(t, err, want)
		})
	}

	c = begin(t, b)
	require.NoError(t, finish(c))
	_, err = c.Wait()
	assert.ErrorContains(t, err, "a second time")
}

// TestCommandBufferFails: a command buffer that fails on the GPU returns Metal's error, as do those behind it in its
// queue. The next one runs, in a queue of its own.
func TestCommandBufferFails(t *testing.T) {
	f, b := goBench(t)
	crash := newPipeline(t, b, "crash", "crash")
	for i := range 2 {
		c := begin(t, b)
		c.SetPipeline(crash)
		c.Dispatch(one(1), one(1))
		behind := begin(t, b)
		c.Commit()
		timing, err := c.Wait()
		assert.EqualError(t, err, "Metal command buffer: the GPU failed: status 5: page fault")
		assert.ErrorIs(t, err, metal.ErrFault)
		assert.Zero(t, timing)
		next := begin(t, b)
		b.set(behind, 1)
		behind.Dispatch(one(1), one(1))
		assert.ErrorContains(t, finish(behind), "status 5: Ignored (for causing prior/excessive GPU errors)")

		for range 2 {
			b.set(next, 1)
			next.Dispatch(one(1), one(1))
			assert.NoError(t, finish(next))
			next = begin(t, b)
		}
		next.Discard()
		assert.Equal(t, 2+i, f.counts["newCommandQueue"])
		assert.Equal(t, 2+i, f.counts["addResidencySet:"])
	}
	f.refuses["newCommandQueue"] = true
	c := begin(t, b)
	c.SetPipeline(crash)
	c.Dispatch(one(1), one(1))
	require.ErrorIs(t, finish(c), metal.ErrFault)
	_, err := b.NewCommands()
	assert.EqualError(t, err, "the GPU gives no command queue")
	delete(f.refuses, "newCommandQueue")
	c = begin(t, b)
	c.SetPipeline(b.pipeline)
	c.Dispatch(one(1), one(1))
	assert.ErrorContains(t, finish(c), "an argument of scale is not bound")
}

// TestOutOfMemory: a method that returns nil is an error, and earlier objects are released.
func TestOutOfMemory(t *testing.T) {
	f, b := goBench(t)
	refuse := func(selector string, want string, do func() error) {
		t.Helper()
		f.refuses[selector] = true
		assert.ErrorContains(t, do(), want)
		delete(f.refuses, selector)
	}
	begin := func() error { _, err := b.NewCommands(); return err }
	buffer := func() error { _, err := b.NewBuffer(16); return err }
	open := func() error { _, err := Open(Options{Libraries: []string{buildFake(t)}}); return err }
	refuse("commandBufferWithUnretainedReferences", "no Metal command buffer", begin)
	refuse("computeCommandEncoderWithDispatchType:", "no Metal command buffer", begin)
	refuse("newBufferWithLength:options:", "out of memory", buffer)
	refuse("contents", "not shared with the CPU", buffer)
	refuse("newCommandQueue", "no command queue", open)
	refuse("newFence", "no command queue", open)
	refuse("stringWithUTF8String:", "not UTF-8", func() error { _, err := b.NewLibrary("scale"); return err })
	refuse("newComputePipelineStateWithFunction:error:", "no reason", func() error {
		l, err := b.NewLibrary("scale")
		require.NoError(t, err)
		defer l.Close()
		_, err = l.NewPipeline("scale")
		return err
	})
	refuse("localizedDescription", "gives no reason", func() error { _, err := b.NewLibrary("?"); return err })
	refuse("UTF8String", "gives no reason", func() error { _, err := b.NewLibrary("?"); return err })
}

// TestCompileOptions: systems before macOS 15 have one switch for IEEE arithmetic, others have two. The fake accepts no
// other settings.
func TestCompileOptions(t *testing.T) {
	f, b := goBench(t)
	assert.Equal(t, 1, f.counts["setMathMode:"])
	assert.Zero(t, f.counts["setFastMathEnabled:"])
	f.without["setMathMode:"], f.without["setMathFloatingPointFunctions:"] = true, true
	newPipeline(t, b, "scale", "scale")
	assert.Equal(t, 1, f.counts["setMathMode:"])
	assert.Equal(t, 1, f.counts["setFastMathEnabled:"])
}

// TestIgnoredOptions: a system that ignores an option of the compiler is refused with the name of the option.
func TestIgnoredOptions(t *testing.T) {
	for selector, want := range map[string]string{
		"setLanguageVersion:":            "languageVersion: it is 0x0 instead of 0x30001",
		"setMathMode:":                   "mathMode: it is 0x2 instead of 0x0",
		"setMathFloatingPointFunctions:": "mathFloatingPointFunctions: it is 0x0 instead of 0x1",
		"setFastMathEnabled:":            "fastMathEnabled: it is 0x1 instead of 0x0",
	} {
		t.Run(selector, func(t *testing.T) {
			f, b := goBench(t)
			f.without["setMathMode:"] = selector == "setFastMathEnabled:"
			f.refuses[selector] = true
			_, err := b.NewLibrary("scale")
			var refused *metal.CompileError
			assert.ErrorAs(t, err, &refused)
			assert.ErrorContains(t, err, "Metal ignores the option "+want)
		})
	}
}

func TestClosed(t *testing.T) {
	f, b := goBench(t)
	l, err := b.NewLibrary("scale")
	require.NoError(t, err)
	l.Close()
	l.Close()
	_, err = l.NewPipeline("scale")
	assert.ErrorIs(t, err, metal.ErrClosed)
	b.x.Close()
	assert.Nil(t, b.x.Bytes())

	d := f.open(t)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = d.NewBuffer(4)
	assert.ErrorIs(t, err, metal.ErrClosed)
	_, err = d.NewLibrary("scale")
	assert.ErrorIs(t, err, metal.ErrClosed)
	_, err = d.NewCommands()
	assert.ErrorIs(t, err, metal.ErrClosed)
}

// TestFamilies: a GPU without simdgroup matrices is refused with the missing feature: Intel's, AMD's, and that of a
// virtual machine, which reports the family Apple5 on any hardware.
func TestFamilies(t *testing.T) {
	f := newFake(t, &goGPU{})
	for _, c := range []struct {
		name     string
		families []uintptr
		want     string
	}{
		{"AMD Radeon Pro 5500M", []uintptr{2002, 3003, 5001}, "AMD Radeon Pro 5500M does not multiply matrices " +
			"in simdgroups (simdgroup_matrix, GPU family Apple7): it is older than the M1, or not Apple's"},
		{"Apple Paravirtual device", []uintptr{1005, 2002, 3003}, "a virtual machine's GPU lacks"},
		{"Apple M1", []uintptr{1007, 2002, 3003, 5001}, ""},
		{"Apple M4", []uintptr{1007, 1008, 1009, 2002, 3003, 5001}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.name, f.families = c.name, c.families
			d, err := Open(Options{Libraries: []string{buildFake(t)}})
			if c.want == "" {
				require.NoError(t, err)
				assert.Equal(t, c.name, d.Name())
				require.NoError(t, d.Close())
				return
			}
			assert.ErrorIs(t, err, metal.ErrNoDevice)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestResidency: without residency sets, as before macOS 15 or if the system returns none, everything works the same.
func TestResidency(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake)
		sets   bool
	}{
		"macOS 15":  {func(f *fake) {}, true},
		"no class":  {func(f *fake) { delete(f.methods, "class MTLResidencySetDescriptor") }, false},
		"no method": {func(f *fake) { f.without["newResidencySetWithDescriptor:error:"] = true }, false},
		"no set":    {func(f *fake) { f.refuses["newResidencySetWithDescriptor:error:"] = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, &goGPU{})
			c.change(f)
			b := newBench(t, f)
			for range 3 {
				commands := begin(t, b)
				b.set(commands, 1)
				late := newBuffer(t, b, 256) // made while its command buffer is filled
				set(commands, 1, late, 0)
				commands.Dispatch(one(1), one(64))
				commands.Commit()
				late.Close()
				_, err := commands.Wait()
				require.NoError(t, err)
			}
			assert.Equal(t, c.sets, f.counts["requestResidency"] == 3, "once for each change")
			assert.Equal(t, c.sets, f.counts["removeAllocation:"] == 3)
		})
	}
}

func TestNoDevice(t *testing.T) {
	_, err := Open(Options{})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "Metal is a part of macOS, and this is linux/")
	_, err = Open(Options{Libraries: []string{"/nowhere/libobjc.dylib"}})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "/nowhere/libobjc.dylib")
	_, err = Open(Options{Libraries: []string{"libc.so.6"}})
	assert.ErrorIs(t, err, metal.ErrNoDevice)

	f := newFake(t, &goGPU{})
	f.none = true
	_, err = Open(Options{Libraries: []string{buildFake(t)}})
	assert.ErrorIs(t, err, metal.ErrNoDevice)
	assert.ErrorContains(t, err, "no GPU that runs Metal")
	f.none = false
	delete(f.methods, "class MTLCompileOptions")
	_, err = Open(Options{Libraries: []string{buildFake(t)}})
	assert.ErrorContains(t, err, "no Objective-C class MTLCompileOptions")
}

// TestPanics: bugs of the caller that would corrupt memory cause a panic.
func TestPanics(t *testing.T) {
	_, b := goBench(t)
	s := b.objc.openScope()
	defer s.closeScope()
	assert.PanicsWithValue(t, "metal/mtl: setBuffer:offset:atIndex: is sent with 2 words of arguments", func() {
		s.send(b.device, selSetBuffer, 0, 0)
	})
	assert.PanicsWithValue(t, "metal/mtl: name is sent with 6 words of arguments", func() {
		s.sendSizes(b.device, selDeviceName, size{}, size{})
	})
	assert.Panics(t, func() { s.sendForSeconds(b.device, selSetBuffer) })
	assert.Panics(t, func() { s.sendForSize(b.device, selSetBuffer) })

	c := begin(t, b)
	caught := make(chan any)
	go func() {
		defer func() { caught <- recover() }()
		c.(*commands).s.closeScope()
	}()
	assert.True(t, strings.Contains((<-caught).(string), "another goroutine"))
	c.Discard()
}
