package selfcheck

import (
	"context"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/gpu"
)

// wildSource is a kernel that reads far beyond its buffer, where no memory is mapped.
const wildSource = `#include <metal_stdlib>
using namespace metal;
kernel void wild(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = x[(1ul << 36) + i]; }
`

// checkFaults has the first model answer, then fails a command buffer, and has it answer again.
func (c *checker) checkFaults(ctx context.Context) (err error) {
	d, err := gpu.New(c.p, gpu.Options{Mapped: c.o.Models[0].File.Mappings()})
	if err != nil { // the kernels say why
		return nil
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	answer := func() ([]float32, error) {
		t, err := startText(c.o.Models[0].File, d, promptLength)
		if err != nil {
			return nil, err
		}
		out, err := t.feed(ctx, t.prompt())
		if err != nil {
			return nil, err
		}
		return out.Logits, nil
	}
	want, err := answer()
	if err != nil {
		_, err = errorText(ctx, err)
		return err
	}
	faults := []struct {
		kind    string
		provoke func() error
	}{
		{"a command buffer that is said to have failed", func() error {
			c.p.mu.Lock()
			defer c.p.mu.Unlock()
			c.p.plant = true
			return errPlanted
		}},
		{"a kernel that reads where no memory is", c.runWild},
	}
	if !c.o.Wild {
		faults = faults[:1]
	}
	for _, f := range faults {
		seen, err := errorText(ctx, f.provoke())
		if err != nil {
			return err
		}
		got, err := answer()
		why, err := errorText(ctx, err)
		if err != nil {
			return err
		}
		if why == "" && !slices.Equal(got, want) {
			why = "the results are others than before"
		}
		c.r.Faults = append(c.r.Faults, Fault{Kind: f.kind, Seen: seen, Recovered: why == "", Error: why})
	}
	return nil
}

// runWild runs the kernel that reads where no memory is, and returns the device's error.
func (c *checker) runWild() error {
	_, err := runSmall(c.p, wildSource, "wild", 1)
	return err
}

// runSmall runs a kernel of one simdgroup and one buffer several times, each after the one before.
func runSmall(d metal.Device, source, kernel string, times int) (took metal.Timing, err error) {
	l, err := d.NewLibrary(source)
	if err != nil {
		return took, err
	}
	defer l.Close()
	p, err := l.NewPipeline(kernel)
	if err != nil {
		return took, err
	}
	defer p.Close()
	b, err := d.NewBuffer(4 * 32)
	if err != nil {
		return took, err
	}
	defer b.Close()
	run, err := d.NewCommands()
	if err != nil {
		return took, err
	}
	run.SetPipeline(p)
	run.SetBuffers(0, []metal.Binding{{Buffer: b}})
	for range times {
		run.Dispatch(metal.Size{X: 1, Y: 1, Z: 1}, metal.Size{X: 32, Y: 1, Z: 1})
		run.Barrier()
	}
	run.Commit()
	return run.Wait()
}
