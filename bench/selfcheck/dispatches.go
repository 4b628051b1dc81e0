package selfcheck

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
)

// Dispatch is a kind of dispatch of a token, alone on the GPU: its time beside the predicted one.
type Dispatch struct {
	Kernel       string  `json:"kernel"`
	Count        int     `json:"count"` // in a token
	Threadgroups int     `json:"threadgroups"`
	Threads      int     `json:"threads"` // of a threadgroup
	Micros       float64 `json:"us"`
	Predicted    float64 `json:"predicted_us,omitempty"` // where the chip is known
}

// timedDevice runs each kind of dispatch of a pass by itself, with barriers between, and keeps its time. Results of the
// passes mean nothing.
type timedDevice struct {
	metal.Device
	often bool       // several times, unless that takes seconds
	kinds []Dispatch // of the last pass
}

// NewCommands implements [metal.Device].
func (d *timedDevice) NewCommands() (metal.Commands, error) {
	return &timedCommands{d: d, kinds: map[Dispatch][]encodedDispatch{}}, nil
}

// timedCommands collects the dispatches of a pass by their kind. It implements [metal.Commands].
type timedCommands struct {
	d     *timedDevice
	now   encodedDispatch
	order []Dispatch
	kinds map[Dispatch][]encodedDispatch
}

type encodedDispatch struct {
	pipeline        metal.Pipeline
	buffers         []metal.Binding
	memory          map[int]int
	groups, threads metal.Size
}

func (c *timedCommands) SetPipeline(p metal.Pipeline) {
	c.now = encodedDispatch{pipeline: p, memory: map[int]int{}}
}

func (c *timedCommands) SetBuffers(_ int, b []metal.Binding) { c.now.buffers = slices.Clone(b) } // a pass sets all
func (c *timedCommands) SetThreadgroupMemory(index, n int)   { c.now.memory[index] = n }
func (c *timedCommands) Barrier()                            {}
func (c *timedCommands) Commit()                             {}
func (c *timedCommands) Discard()                            {}

func (c *timedCommands) Dispatch(groups, threads metal.Size) {
	c.now.groups, c.now.threads = groups, threads
	kind := Dispatch{Kernel: c.now.pipeline.Name(), Threadgroups: groups.X * groups.Y * groups.Z, Threads: threads.X}
	if c.kinds[kind] == nil {
		c.order = append(c.order, kind)
	}
	c.kinds[kind] = append(c.kinds[kind], c.now)
}

func (c *timedCommands) Wait() (whole metal.Timing, err error) {
	c.d.kinds = nil
	for _, kind := range c.order {
		all := c.kinds[kind]
		took, err := c.d.timeDispatches(all)
		if err != nil {
			return whole, err
		}
		kind.Count = len(all)
		kind.Micros = float64(took) / float64(time.Microsecond) / float64(len(all))
		c.d.kinds = append(c.d.kinds, kind)
	}
	return whole, nil
}

func (d *timedDevice) timeDispatches(all []encodedDispatch) (time.Duration, error) {
	const rounds, patience = 20, 2 * time.Second
	took, err := d.repeatDispatches(all, 1)
	if err != nil || !d.often || took > patience/rounds {
		return took, err
	}
	took, err = d.repeatDispatches(all, rounds)
	return took / rounds, err
}

func (d *timedDevice) repeatDispatches(all []encodedDispatch, rounds int) (time.Duration, error) {
	run, err := d.Device.NewCommands()
	if err != nil {
		return 0, err
	}
	for range rounds {
		for _, e := range all {
			run.SetPipeline(e.pipeline)
			run.SetBuffers(0, e.buffers)
			for i, n := range e.memory {
				run.SetThreadgroupMemory(i, n)
			}
			run.Dispatch(e.groups, e.threads)
			run.Barrier()
		}
	}
	run.Commit()
	took, err := run.Wait()
	return took.End - took.Start, err
}

// stepSource is a kernel that does next to nothing.
const stepSource = `#include <metal_stdlib>
using namespace metal;
kernel void step_on(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += 1; }
`

// measureStep measures what a dispatch takes because it waits for the one before.
func (c *checker) measureStep() error {
	const times = 512
	took, err := runSmall(c.o.Device, stepSource, "step_on", times)
	c.r.Step = float64(took.End-took.Start) / float64(time.Microsecond) / times
	return err
}

// measureDispatches measures the dispatches of a token of the last model after a text.
func (c *checker) measureDispatches(ctx context.Context) (err error) {
	const before = 100
	m := c.o.Models[len(c.o.Models)-1]
	timed := &timedDevice{Device: c.o.Device}
	d, err := gpu.New(timed, gpu.Options{Mapped: m.File.Mappings()})
	if err != nil {
		return nil // the kernels say why
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	t, err := startText(m.File, d, before+1)
	err = errors.Join(err, c.measureStep())
	for _, n := range []int{before, 1} {
		if timed.often = n == 1; err == nil {
			_, err = t.feed(ctx, t.tokens(n))
		}
	}
	if c.r.TimingError, err = errorText(ctx, err); err != nil || c.r.TimingError != "" {
		return err
	}
	c.r.Dispatches = timed.kinds
	return c.predictDispatches(ctx, m.File, before)
}

func (c *checker) predictDispatches(ctx context.Context, f *gguf.File, before int) error {
	g, ok := findGPU(c.r.GPU)
	if !ok {
		return nil
	}
	plan, err := metalplan.PredictFile(ctx, g, f, before+1)
	for _, w := range plan.Dispatches {
		for i := range c.r.Dispatches {
			if d := &c.r.Dispatches[i]; d.Kernel == w.Kernel && d.Threadgroups == w.Groups && d.Threads == w.Threads {
				d.Predicted = w.Micros
			}
		}
	}
	return err
}
