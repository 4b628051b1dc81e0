//go:build linux && (amd64 || arm64)

package mtl

import (
	"slices"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// fakeCommands is the state of an MTLCommandBuffer. Its commands run when it is committed.
type fakeCommands struct {
	encoder *fakeEncoder
	status  uintptr // 0, 2 committed, 4 completed, 5 failed
	run     metal.Commands
	timing  metal.Timing
	failure string
	queue   *object
	uses    []*object // must exist until its completion: it does not retain them
}

// fakeEncoder is the state of an MTLComputeCommandEncoder.
type fakeEncoder struct {
	buffer   *fakeCommands
	commands []func(metal.Commands)
	pipeline *fakePipeline
	uses     [31]*object // buffers
	memory   [31]int     // by index, as last set for any pipeline
	touched  []*object   // buffers that a dispatch may write
	waits    *object     // fences
	updates  *object
	began    bool // a dispatch is encoded
	ended    bool
}

func fakeCommandMethods() map[string]map[string]method {
	encoder := map[string]method{}
	for name, m := range map[string]func(*fake, *fakeEncoder, *fakeCall){
		"setComputePipelineState:":                    (*fake).encodePipeline,
		"setBuffer:offset:atIndex:":                   (*fake).encodeBuffer,
		"setBuffers:offsets:withRange:":               (*fake).encodeBuffers,
		"setBufferOffset:atIndex:":                    (*fake).encodeOffset,
		"setThreadgroupMemoryLength:atIndex:":         (*fake).encodeMemory,
		"dispatchThreadgroups:threadsPerThreadgroup:": (*fake).encodeDispatch,
		"memoryBarrierWithScope:":                     (*fake).encodeBarrier,
		"waitForFence:":                               (*fake).encodeWait,
		"updateFence:":                                (*fake).encodeUpdate,
		"endEncoding":                                 func(f *fake, e *fakeEncoder, c *fakeCall) { e.ended = true },
	} {
		encoder[name] = func(f *fake, self *object, c *fakeCall) {
			e := self.value.(*fakeEncoder)
			if e.ended {
				f.fault("%s after endEncoding", name)
				return
			}
			m(f, e, c)
		}
	}
	return map[string]map[string]method{
		"MTLFence":                 {},
		"MTLComputeCommandEncoder": encoder,
		"MTLCommandQueue": {
			"commandBufferWithUnretainedReferences": func(f *fake, self *object, c *fakeCall) {
				c.value = f.autorelease(f.newObject("MTLCommandBuffer", &fakeCommands{queue: self})).address
			},
			"addResidencySet:": addResidencySet,
		},
		"MTLCommandBuffer": {
			"computeCommandEncoderWithDispatchType:": newEncoder,
			"commit":                                 commit,
			"waitUntilCompleted":                     waitUntilCompleted,
			"status": func(f *fake, self *object, c *fakeCall) {
				c.value = self.value.(*fakeCommands).status
			},
			"GPUStartTime": func(f *fake, self *object, c *fakeCall) {
				c.seconds = self.value.(*fakeCommands).timing.Start.Seconds()
			},
			"GPUEndTime": func(f *fake, self *object, c *fakeCall) {
				c.seconds = self.value.(*fakeCommands).timing.End.Seconds()
			},
			"error": func(f *fake, self *object, c *fakeCall) {
				if why := self.value.(*fakeCommands).failure; why != "" {
					c.value = f.autorelease(f.newObject("NSError", why)).address
				}
			},
		},
	}
}

func newEncoder(f *fake, self *object, c *fakeCall) {
	b := self.value.(*fakeCommands)
	switch {
	case c.arg(0) != 1:
		f.fault("an encoder of dispatch type %d instead of a concurrent one", c.arg(0))
	case b.status != 0:
		f.fault("an encoder for a command buffer that is committed")
	case b.encoder != nil:
		f.fault("a second encoder for a command buffer")
	}
	e := &fakeEncoder{buffer: b}
	b.encoder = e
	o := f.newObject("MTLComputeCommandEncoder", e)
	self.refs++
	o.dealloc = func() {
		if !e.ended {
			f.fault("an encoder is released without endEncoding")
		}
		f.release(self)
	}
	c.value = f.autorelease(o).address
}

func commit(f *fake, self *object, c *fakeCall) {
	b := self.value.(*fakeCommands)
	switch {
	case b.status != 0:
		f.fault("commit of a command buffer that is committed")
		return
	case b.encoder == nil || !b.encoder.ended:
		f.fault("commit before endEncoding")
		return
	}
	for _, o := range b.uses {
		if o.refs <= 0 {
			f.fault("commit of a command buffer that uses a released %s", o.class)
			return
		}
	}
	f.checkFences(b)
	f.checkResidency(b)
	run, err := f.gpu.NewCommands()
	if err != nil {
		f.fault("commit: %v", err)
		return
	}
	for _, command := range b.encoder.commands {
		command(run)
	}
	run.Commit()
	b.run, b.status = run, 2
	b.failure, f.failure = f.failure, ""
	if f.dead[b.queue] {
		b.failure = "Ignored (for causing prior/excessive GPU errors)"
	}
	self.refs++ // held by the queue until completion
	f.inFlight = append(f.inFlight, self)
}

// checkFences finds a buffer that a command buffer uses and that an earlier one, which may still be running, wrote.
func (f *fake) checkFences(b *fakeCommands) {
	mine := b.encoder
	for _, o := range f.inFlight {
		theirs := o.value.(*fakeCommands).encoder
		if mine.waits != nil && mine.waits == theirs.updates {
			continue
		}
		for _, touched := range mine.touched {
			if slices.Contains(theirs.touched, touched) {
				f.fault("a command buffer uses an untracked buffer of one before it that may be running, " +
					"with no fence between")
				return
			}
		}
	}
}

func waitUntilCompleted(f *fake, self *object, c *fakeCall) {
	b := self.value.(*fakeCommands)
	switch b.status {
	case 0:
		f.fault("waitUntilCompleted before commit: it never returns")
		return
	case 4, 5:
		return
	}
	f.mu.Unlock()
	timing, err := b.run.Wait()
	f.mu.Lock()
	b.timing, b.status = timing, 4
	if err != nil {
		b.failure = err.Error()
	}
	if b.failure != "" {
		b.status, f.dead[b.queue] = 5, true
	}
	f.inFlight = slices.DeleteFunc(f.inFlight, func(o *object) bool { return o == self })
	f.release(self)
}

// use records an object that must live until the command buffer of the encoder completes.
func (e *fakeEncoder) use(o *object) {
	if !slices.Contains(e.buffer.uses, o) {
		e.buffer.uses = append(e.buffer.uses, o)
	}
}

func (f *fake) encodePipeline(e *fakeEncoder, c *fakeCall) {
	if p := f.object(c.arg(0), "MTLComputePipelineState", "the pipeline"); p != nil {
		e.use(p)
		e.pipeline = p.value.(*fakePipeline)
		gpu := e.pipeline.gpu
		e.commands = append(e.commands, func(run metal.Commands) { run.SetPipeline(gpu) })
	}
}

func (f *fake) encodeBuffer(e *fakeEncoder, c *fakeCall) {
	if o := f.object(c.arg(0), "MTLBuffer", "the buffer"); o != nil {
		e.use(o)
		e.bind(int(c.arg(2)), o, int(c.arg(1)))
	}
}

func (f *fake) encodeBuffers(e *fakeEncoder, c *fakeCall) {
	first, n := c.arg(2), c.arg(3)
	offsets := unsafe.Slice((*uintptr)(cPointer(c.arg(1))), n)
	for i, address := range unsafe.Slice((*uintptr)(cPointer(c.arg(0))), n) {
		if o := f.object(address, "MTLBuffer", "the buffer"); o != nil {
			e.use(o)
			e.bind(int(first)+i, o, int(offsets[i]))
		}
	}
}

func (f *fake) encodeOffset(e *fakeEncoder, c *fakeCall) {
	i := c.arg(1)
	if e.uses[i] == nil {
		f.fault("setBufferOffset: no buffer is bound to index %d", i)
		return
	}
	e.bind(int(i), e.uses[i], int(c.arg(0)))
}

func (e *fakeEncoder) bind(i int, o *object, offset int) {
	b := o.value.(*fakeBuffer)
	e.uses[i] = o
	e.commands = append(e.commands, func(run metal.Commands) { set(run, i, b.gpu, offset) })
}

func (f *fake) encodeMemory(e *fakeEncoder, c *fakeCall) {
	n, i := int(c.arg(0)), int(c.arg(1))
	e.memory[i] = n
	e.commands = append(e.commands, func(run metal.Commands) { run.SetThreadgroupMemory(i, n) })
}

func (f *fake) encodeDispatch(e *fakeEncoder, c *fakeCall) {
	groups, threads := c.sizes()
	f.last = [2]metal.Size{metalSize(groups), metalSize(threads)}
	if e.updates != nil {
		f.fault("a dispatch after updateFence")
	}
	l := e.pipeline.limits
	memory := (l.uses + 15) / 16 * 16
	for _, n := range e.memory {
		memory += n
	}
	if memory > l.memory {
		// "The sum of all threadgroup memory allocations (whether made using this method or directly in the shader)
		// can't exceed the device limits": MTLComputeCommandEncoder, setThreadgroupMemoryLength(_:index:)
		f.fault("a dispatch with %d bytes of threadgroup memory: %d are possible", memory, l.memory)
		return
	}
	e.began = true
	for _, o := range e.uses {
		if o == nil || o.value.(*fakeBuffer).wrapped || o.value.(*fakeBuffer).tracked {
			continue
		}
		if !slices.Contains(e.touched, o) {
			e.touched = append(e.touched, o)
		}
	}
	e.commands = append(e.commands, func(run metal.Commands) { run.Dispatch(metalSize(groups), metalSize(threads)) })
}

func metalSize(s size) metal.Size {
	return metal.Size{X: int(s.width), Y: int(s.height), Z: int(s.depth)}
}

func (f *fake) encodeBarrier(e *fakeEncoder, c *fakeCall) {
	if c.arg(0) != 1 {
		f.fault("a barrier of scope %d orders no buffers", c.arg(0))
		return
	}
	e.commands = append(e.commands, metal.Commands.Barrier)
}

func (f *fake) encodeWait(e *fakeEncoder, c *fakeCall) {
	fence := f.object(c.arg(0), "MTLFence", "the fence")
	switch {
	case e.updates != nil && e.updates == fence:
		f.fault("waitForFence after updateFence of the same fence")
	case e.began:
		f.fault("waitForFence after a dispatch")
	default:
		e.waits = fence
	}
}

func (f *fake) encodeUpdate(e *fakeEncoder, c *fakeCall) {
	e.updates = f.object(c.arg(0), "MTLFence", "the fence")
}
