package speed

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Run loads the model, measures all combinations and reports each. The samples take turns, so that a machine which
// becomes slower affects all of them.
func (m *Matrix) Run(ctx context.Context) (all []Report, err error) {
	cells, o := m.listCells(), m.Engine
	for _, c := range cells {
		o.Context = max(o.Context, c.neededContext())
	}
	begin := time.Now()
	e, err := engine.Open(m.Model, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.Tokenizer(); err != nil {
		return nil, err
	}
	base := Report{
		LoadMS: result.Milliseconds(time.Since(begin)), TokenBytes: tokenBytes(e), Device: e.Device(),
		Threads: e.Threads(),
	}
	x := newMeasurement(e)
	if m.read != nil {
		x.read = m.read
	}
	if _, err := x.generateTokens(ctx, 0, x.prefixTokens(firstPrompt), 1); err != nil {
		return nil, err
	}
	base.FirstTokenMS = result.Milliseconds(time.Since(begin))
	if err := base.waitForWeights(ctx, e); err != nil {
		return nil, err
	}
	base.KV, base.KVBytes = x.kvType(), x.kvBytes()
	for _, c := range cells {
		r := base
		r.PromptTokens, r.DecodedTokens, r.Depth, r.Rows = c.Prompt, c.Decode, c.Depth, c.Rows
		depth := 0
		if c.Depth > 0 {
			depth = c.Depth + c.Decode/2
		}
		r.DepthBytes = x.kvConfig().ReadBytes(depth)
		all = append(all, r)
	}
	if err := x.warmUp(ctx, cells); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.free()) }()
	if err := m.takeSamples(ctx, x, cells, all); err != nil {
		return nil, err
	}
	finishReports(x, all)
	return all, nil
}

func (r *Report) waitForWeights(ctx context.Context, e *engine.Engine) error {
	w, err := e.Weights(ctx)
	if err != nil {
		return err
	}
	if r.HugeBytes = w.Huge; w.Stay != nil {
		r.WeightsStay = w.Stay.Error()
	}
	return nil
}

// takeSamples takes the samples: one of each combination, then the next one of each.
func (m *Matrix) takeSamples(ctx context.Context, x *measurement, cells []Cell, all []Report) error {
	watched := result.WatchMachine()
	for i := range m.Repeat {
		for k, c := range cells {
			s, err := x.measureCell(ctx, c)
			if err != nil {
				return err
			}
			if all[k].Samples = append(all[k].Samples, s); i > 0 {
				x.measureBandwidth(&all[k])
			}
			if m.OnSample != nil {
				m.OnSample(c, i*len(cells)+k+1, m.Repeat*len(cells))
			}
		}
		if i == 0 {
			m.recordPeakMemory(x, all)
		}
	}
	quiet := watched.End()
	for k := range all {
		all[k].Quiet = quiet
	}
	return nil
}

// recordPeakMemory records the peak of memory after the first sample of each combination, and only then allocates the
// memory for measuring the bandwidth.
func (m *Matrix) recordPeakMemory(x *measurement, all []Report) {
	peak := result.PeakRSS()
	if x.memory = m.memory; x.memory == nil {
		x.memory, x.free = bandwidthMemory(x.e, all[0].HugeBytes > 0)
	}
	for k := range all {
		all[k].PeakRSS = peak
		x.measureBandwidth(&all[k])
	}
}

func finishReports(x *measurement, all []Report) {
	_, onGPU := x.e.LastEncoded()
	bytes, floats := 0., 0.
	for k := range all {
		r := &all[k]
		if r.summarizeSamples(); !onGPU && r.PromptTokens > 0 {
			if bytes == 0 {
				bytes, floats = cpu.Peak(r.Threads)
			}
			r.setPromptBound(x.e, bytes, floats)
		}
	}
}

// RowsCost returns the time of a forward pass of several rows, divided by that of one row at the same depth, which all
// has: the median of the samples.
func (r *Report) RowsCost(all []Report) float64 {
	one := slices.IndexFunc(all, func(one Report) bool { return one.Rows == 1 && one.Depth == r.Depth })
	i := -1
	return sampleMedian(r.Samples, func(s Sample) float64 {
		i++
		return float64(r.Rows) * all[one].Samples[i].RowsTPS / s.RowsTPS
	})
}
