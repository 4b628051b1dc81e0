package speed

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// engineLoad is one load of the model with its measurements.
type engineLoad struct {
	m       *Matrix
	o       engine.Options
	cells   []Cell
	first   bool       // of the process: its peak of memory is that of this load
	alone   bool       // with only one combination
	sampled func(Cell) // called after each sample
}

func (l *engineLoad) run(ctx context.Context) (all []Report, err error) {
	for _, c := range l.cells {
		l.o.Context = max(l.o.Context, c.need())
	}
	begin := time.Now()
	e, err := engine.Open(l.m.Model, l.o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.Tokenizer(); err != nil {
		return nil, err
	}
	base := Report{
		LoadMS: result.Milliseconds(time.Since(begin)), FileBytes: e.File().Size(), TokenBytes: tokenBytes(e),
		Device: e.Device(), Threads: e.Threads(),
	}
	x := newMeasurement(e)
	if l.m.read != nil {
		x.read = l.m.read
	}
	if _, err := x.generate(ctx, 0, x.before(firstPrompt), 1); err != nil {
		return nil, err
	}
	base.FirstTokenMS = result.Milliseconds(time.Since(begin))
	if err := base.awaitWeights(ctx, e); err != nil {
		return nil, err
	}
	base.KV, base.KVBytes = x.kvType(), x.kvBytes()
	for _, c := range l.cells {
		all = append(all, l.begin(base, c))
	}
	if err := x.warm(ctx, l.cells); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	if err := l.measure(ctx, x, all); err != nil {
		return nil, err
	}
	l.finish(x, all)
	return all, nil
}

// begin returns the report of a combination before the measurement.
func (l *engineLoad) begin(base Report, c Cell) Report {
	base.PromptTokens, base.DecodedTokens, base.Depth, base.Rows = c.Prompt, c.Decode, c.Depth, c.Rows
	if c.Depth > 0 {
		base.DepthBytes = base.KVBytes / int64(l.o.Context) * int64(c.Depth+c.Decode/2)
	}
	if !l.alone {
		c.Backend, c.KV, c.Threads = string(cmp.Or(l.o.Backend, engine.CPU)), base.KV, base.Threads
		base.Cell = &c
	}
	return base
}

// awaitWeights waits until the weights have been moved.
func (r *Report) awaitWeights(ctx context.Context, e *engine.Engine) error {
	w, err := e.Weights(ctx)
	if err != nil {
		return err
	}
	if r.HugeBytes = w.Huge; w.Stay != nil {
		r.WeightsStay = w.Stay.Error()
	}
	return nil
}

// measure takes the samples: one of each combination, then the next one of each.
func (l *engineLoad) measure(ctx context.Context, x *measurement, all []Report) error {
	watched := result.WatchMachine()
	for i := range l.m.Repeat {
		for k, c := range l.cells {
			s, err := x.sample(ctx, c)
			if err != nil {
				return err
			}
			if all[k].Samples = append(all[k].Samples, s); i > 0 {
				x.readMemory(&all[k])
			}
			l.sampled(c)
		}
		if i == 0 {
			l.readFirst(x, all)
		}
	}
	quiet := watched.End()
	for k := range all {
		all[k].Quiet = quiet
	}
	return nil
}

// readFirst records the peak of memory after the first sample of each combination, and only then allocates the memory
// for measuring the bandwidth.
func (l *engineLoad) readFirst(x *measurement, all []Report) {
	peak := int64(0)
	if l.first {
		peak = result.PeakRSS()
	}
	if x.memory = l.m.memory; x.memory == nil {
		x.memory, x.free = sameMemory(x.e, all[0].HugeBytes > 0)
	}
	for k := range all {
		all[k].PeakRSS = peak
		x.readMemory(&all[k])
	}
}

// finish computes the results of the samples, and measures the limits of the machine.
func (l *engineLoad) finish(x *measurement, all []Report) {
	encoded, onGPU := x.e.LastEncoded()
	bytes, floats := 0., 0.
	for k := range all {
		r := &all[k]
		if r.summarise(); onGPU {
			r.Dispatches, r.Levels = encoded.Dispatches, encoded.Levels
		} else if r.PromptTokens > 0 {
			if bytes == 0 {
				bytes, floats = cpu.Peak(r.Threads)
			}
			r.boundPrompt(x.e, bytes, floats)
		}
	}
	rowCosts(all)
}

// rowCosts sets the cost of a forward pass of several rows, relative to that of one row at the same depth, sample by
// sample.
func rowCosts(all []Report) {
	for k := range all {
		r := &all[k]
		if r.Rows == 0 {
			continue
		}
		for _, one := range all {
			if one.Rows != 1 || one.Depth != r.Depth {
				continue
			}
			i := -1
			r.RowsCost = median(r.Samples, func(s Sample) float64 {
				i++
				return float64(s.RowsNS) / float64(one.Samples[i].RowsNS)
			})
		}
	}
}
