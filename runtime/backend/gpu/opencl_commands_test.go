package gpu

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// clDispatch is one encoded dispatch. Without a pipeline it is a barrier.
type clDispatch struct {
	pipeline        *clPipeline
	bindings        [translate.MaxBuffers]metal.Binding
	memory          [translate.MaxBuffers]int
	groups, threads metal.Size
}

// clCommands is a command buffer.
type clCommands struct {
	device     *clDevice
	now        clDispatch // as it is set so far
	dispatches []clDispatch
	event      uintptr // of its end, from Commit to Wait
	start      time.Duration
	err        error
}

// NewCommands implements [metal.Device].
func (d *clDevice) NewCommands() (metal.Commands, error) { return &clCommands{device: d}, nil }

// SetPipeline implements [metal.Commands]. It resets the sizes of threadgroup memory.
func (c *clCommands) SetPipeline(p metal.Pipeline) {
	own, ok := p.(*clPipeline)
	if !ok {
		c.fail(fmt.Errorf("set pipeline: %T is not of this device", p))
		return
	}
	c.now.pipeline, c.now.memory = own, [translate.MaxBuffers]int{}
}

// SetBuffers implements [metal.Commands].
func (c *clCommands) SetBuffers(first int, bindings []metal.Binding) {
	for i, b := range bindings {
		if own, ok := b.Buffer.(*clBuffer); !ok || b.Offset < 0 || b.Offset%4 != 0 || b.Offset >= len(own.bytes) {
			c.fail(fmt.Errorf("set buffer %d: %T from %d on: "+
				"want a buffer of this device, and a multiple of 4 inside it", first+i, b.Buffer, b.Offset))
			return
		}
		c.now.bindings[first+i] = b
	}
}

// SetThreadgroupMemory implements [metal.Commands].
func (c *clCommands) SetThreadgroupMemory(index, length int) { c.now.memory[index] = length }

// Dispatch implements [metal.Commands].
func (c *clCommands) Dispatch(groups, threads metal.Size) {
	if p := c.now.pipeline; p == nil {
		c.fail(errors.New("dispatch without a pipeline"))
		return
	} else if n := threads.X * threads.Y * threads.Z; n > p.Threads() {
		c.fail(fmt.Errorf("%s: threadgroups of %d threads: at most %d are possible", p.Name(), n, p.Threads()))
		return
	}
	c.now.groups, c.now.threads = groups, threads
	c.dispatches = append(c.dispatches, c.now)
}

// Barrier implements [metal.Commands].
func (c *clCommands) Barrier() { c.dispatches = append(c.dispatches, clDispatch{}) }

// fail sets the error, unless there is one.
func (c *clCommands) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Commit implements [metal.Commands]. The queue runs dispatches in any order but for barriers, one of which begins the
// command buffer.
func (c *clCommands) Commit() {
	d := c.device
	d.mu.Lock()
	defer d.mu.Unlock()
	c.start = time.Since(d.begin)
	c.dispatches = append([]clDispatch{{}}, c.dispatches...)
	for i := range c.dispatches {
		if q := &c.dispatches[i]; c.err == nil && q.pipeline == nil {
			c.fail(clFailed("clEnqueueBarrierWithWaitList", d.cl.EnqueueBarrierWithWaitList(d.queue, 0, nil, nil)))
		} else if c.err == nil {
			c.fail(c.enqueue(q))
		}
	}
	c.fail(clFailed("clEnqueueMarkerWithWaitList", d.cl.EnqueueMarkerWithWaitList(d.queue, 0, nil, &c.event)))
	c.fail(clFailed("clFlush", d.cl.Flush(d.queue)))
}

// enqueue sets the arguments of a dispatch and enqueues it. The device's mutex is held.
func (c *clCommands) enqueue(q *clDispatch) error {
	if err := q.pipeline.built(); err != nil {
		return err
	}
	cl, kernel, index := c.device.cl, q.pipeline.kernel, uint32(0)
	for _, p := range q.pipeline.Params {
		switch b := q.bindings[p.Index]; {
		case p.Kind == "threadgroup":
			n := q.memory[p.Index]
			if e := cl.SetKernelArg(kernel, index, uint64(n), nil); n == 0 || e != 0 {
				return fmt.Errorf("%s: %d bytes of threadgroup memory %d: error %d", q.pipeline.Name(), n, p.Index, e)
			}
		case p.Kind != "buffer":
			continue
		case b.Buffer == nil:
			return fmt.Errorf("%s: buffer %d (%s) is not set", q.pipeline.Name(), p.Index, p.Name)
		default:
			at := unsafe.Pointer(&b.Buffer.Bytes()[b.Offset])
			if e := cl.SetKernelArgSVMPointer(kernel, index, at); e != 0 {
				return fmt.Errorf("%s: buffer %d (%s): error %d", q.pipeline.Name(), p.Index, p.Name, e)
			}
		}
		index++
	}
	g, t := q.groups, q.threads
	global := [3]uint64{uint64(g.X * t.X), uint64(g.Y * t.Y), uint64(g.Z * t.Z)}
	local := [3]uint64{uint64(t.X), uint64(t.Y), uint64(t.Z)}
	if e := cl.EnqueueNDRangeKernel(c.device.queue, kernel, 3, nil, &global[0], &local[0], 0, nil, nil); e != 0 {
		return fmt.Errorf("%s: %v threadgroups of %v threads: error %d", q.pipeline.Name(), g, t, e)
	}
	return nil
}

// Discard implements [metal.Commands].
func (c *clCommands) Discard() { c.fail(errCLDiscarded) }

var errCLDiscarded = errors.New("the command buffer was discarded")

// Wait implements [metal.Commands].
func (c *clCommands) Wait() (metal.Timing, error) {
	if c.event == 0 {
		c.fail(errors.New("the command buffer was not committed"))
		return metal.Timing{}, c.err
	}
	c.fail(clFailed("clWaitForEvents", c.device.cl.WaitForEvents(1, &c.event)))
	c.device.cl.ReleaseEvent(c.event)
	return metal.Timing{Start: c.start, End: time.Since(c.device.begin)}, c.err
}
