package gpu

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// delta is a layer with a recurrent state.
type delta struct {
	c             backend.DeltaConfig
	weights       [4]*weight   // of the convolution, gates, β, α: the order of a row of projections
	taps          metal.Buffer // [Kernel, channels], those of the current token last
	a, step, norm metal.Buffer
}

func (d *delta) Config() backend.DeltaConfig { return d.c }

// MaxRows implements [backend.Delta]. All updates of a pass exist before its states are computed: of 512 rows of a
// Qwen3.5-0.8B, 0.6 GB.
func (d *delta) MaxRows() int { return 128 }

// projectedColumns returns the columns of a row of projections.
func projectedColumns(c backend.DeltaConfig) int {
	return c.Channels() + c.ValueWidth() + 2*c.ValueHeads
}

// LoadDelta implements [backend.Device].
func (d *Device) LoadDelta(c backend.DeltaConfig, w backend.DeltaWeights) (backend.Delta, error) {
	switch {
	case c.Kernel < 1 || c.Kernel > backend.DeltaChunk:
		return nil, fmt.Errorf("tensor %q: a convolution over %d tokens, 1 to %d are possible", w.Conv.Name, c.Kernel,
			backend.DeltaChunk)
	case max(c.KeySize, c.ValueSize) > kernels.DeltaSize:
		return nil, fmt.Errorf("tensor %q: keys of %d and values of %d elements; the kernels take at most %d",
			w.Norm.Name, c.KeySize, c.ValueSize, kernels.DeltaSize)
	}
	l := &delta{c: c, weights: [4]*weight{w.Mixed.(*weight), w.Gate.(*weight), w.Beta.(*weight), w.Alpha.(*weight)}}
	for _, m := range l.weights {
		if m.bias != nil {
			return nil, fmt.Errorf("tensor %q: the kernels of this layer take no biases", w.Conv.Name)
		}
	}
	for _, v := range []struct {
		to   *metal.Buffer
		from gguf.Tensor
	}{{&l.a, w.A}, {&l.step, w.Step}, {&l.norm, w.Norm}} {
		var err error
		if *v.to, err = d.loadVector(v.from); err != nil {
			return nil, err
		}
	}
	taps := make([]float32, c.Kernel*c.Channels())
	w.Conv.Type.Dequantize(taps, w.Conv.Data)
	var err error
	if l.taps, err = d.newBuffer(4 * len(taps)); err != nil {
		return nil, err
	}
	to := sliceAs[float32](l.taps.Bytes())
	for i, v := range taps {
		to[i%c.Kernel*c.Channels()+i/c.Kernel] = v
	}
	d.recurrent = true
	d.preparePipelines()
	return l, nil
}

// Delta implements [backend.Pass]: the projections in one level, the convolution in another, and the rule.
func (p *pass) Delta(a, x backend.Tensor, g backend.Norm, layer backend.Delta, number int) {
	if p.err != nil {
		return
	}
	to, from, n, l := a.(*tensor), x.(*tensor), g.(*norm), layer.(*delta)
	for _, w := range l.weights {
		checkWeightShape(nil, w, from)
	}
	if to.cols != l.c.ValueWidth() || p.kv.states == nil || l.c != p.kv.states.c {
		panic("gpu: a layer with a recurrent state does not fit the tensor of its results, or the store")
	}
	if p.attended == to {
		p.attended = nil
	}
	p.prepareNorm(from, n)
	p.reserveTensor(to)
	s := &p.d.scratch
	p.recordError(s.projected.growTo(p.d, 4*p.n*projectedColumns(l.c)))
	p.recordError(s.mixed.growTo(p.d, 4*p.n*mixedColumns(l.c)))
	done := [4]bool{}
	for i, w := range l.weights { // weights of one type go together
		if done[i] {
			continue
		}
		var take [4]bool
		for m := range l.weights {
			take[m] = l.weights[m].kind == w.kind
			done[m] = done[m] || take[m]
		}
		p.encodeProject(l, from, n, w, take)
	}
	p.beginLevel()
	p.encodeRule(l, startOf(to.values), number)
}

// mixedColumns returns the columns of a row after the convolution: queries, values, β.
func mixedColumns(c backend.DeltaConfig) int {
	return c.KeyHeads*c.KeySize + c.ValueWidth() + c.ValueHeads
}

// encodeProject encodes the projections that take selects. Their weights have the type of w.
func (p *pass) encodeProject(l *delta, x *tensor, g *norm, w *weight, take [4]bool) {
	args := kernels.ProjectArgs{
		Rows: uint32(p.n), Cols: uint32(w.cols), Stride: uint32(projectedColumns(l.c)),
		SquareParts: uint32(p.parts), Eps: g.eps,
	}
	outs, column, total := 0, 0, 0
	for m, w := range l.weights {
		if take[m] {
			outs += w.rows
		}
	}
	part, perGroup := divideMatrix(outs, w.cols), kernels.WideOuts
	if !isWide(p.n) {
		perGroup = part.rows
	}
	var weights []*weight
	var buffers []binding
	for m, w := range l.weights {
		args.RowBytes[m], args.Outs[m], args.Column[m] = uint32(w.rowBytes), uint32(w.rows), uint32(column)
		column += w.rows
		if take[m] {
			args.Groups[m] = uint32(ceilDiv(w.rows, perGroup))
			total += int(args.Groups[m])
			weights = append(weights, w)
		}
		buffers = append(buffers, w.matrixBinding())
	}
	buffers = append(buffers, startOf(x.normed), startOf(x.squares), startOf(p.d.scratch.projected))
	if isWide(p.n) {
		args.GroupRows = kernels.WideOuts
		p.encodeDispatch(dispatch{
			pipeline: p.typedPipeline("project_wide", w),
			groups:   metal.Size{X: total, Y: ceilDiv(p.n, kernels.WideRows), Z: 1},
			threads:  kernels.WideThreads, buffers: buffers, args: argBytes(&args), weights: weights,
		})
		return
	}
	plan := p.planNarrow("project", w, p.n, part, 0)
	args.GroupRows = uint32(part.rows)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columnArgs()
	p.encodeDispatch(dispatch{
		pipeline: plan.pipeline, groups: linearGrid(total), threads: plan.threads, buffers: buffers,
		args: argBytes(&args), memory: plan.memory, weights: weights,
	})
}

// encodeRule encodes the convolution and the rule of a layer, with the results of the projections. In l only the
// configuration is needed if the pass has no rows.
func (p *pass) encodeRule(l *delta, out binding, layer int) {
	c, s, t := l.c, &p.d.scratch, &p.frame.rule
	of := &p.kv.states.memory.layers[layer]
	conv := kernels.ConvArgs{
		Rows: uint32(p.n), Taps: uint32(c.Kernel), KeyHeads: uint32(c.KeyHeads), ValueHeads: uint32(c.ValueHeads),
		KeySize: uint32(c.KeySize), ValueSize: uint32(c.ValueSize), Stride: uint32(projectedColumns(c)),
		UpdateSize: uint32(c.UpdateSize()), Eps: c.Epsilon,
	}
	p.encodeDispatch(dispatch{
		pipeline: p.plainPipeline("conv"),
		groups:   metal.Size{X: c.KeyHeads + c.ValueHeads, Y: len(t.rows), Z: 1}, threads: 32,
		buffers: []binding{
			startOf(s.projected), bufferStart(l.taps), bufferStart(l.a), bufferStart(l.step), t.places.rows,
			t.places.sources, t.places.decaying, startOf(of.elements), startOf(of.decays), startOf(of.inputs),
			startOf(s.mixed),
		},
		args: argBytes(&conv),
	})
	p.beginLevel()
	rule := kernels.DeltaArgs{
		Steps: uint32(len(t.steps)), KeyHeads: conv.KeyHeads, ValueHeads: conv.ValueHeads, KeySize: conv.KeySize,
		ValueSize: conv.ValueSize, Stride: conv.Stride, UpdateSize: conv.UpdateSize, Eps: c.Epsilon,
	}
	p.encodeDispatch(dispatch{
		pipeline: p.plainPipeline("delta"), groups: linearGrid(c.ValueHeads), threads: kernels.DeltaThreads,
		buffers: []binding{
			startOf(s.mixed), startOf(s.projected), bufferStart(l.norm), t.places.steps, t.places.path,
			startOf(of.elements), startOf(of.decays), startOf(of.states), out,
		},
		args: argBytes(&rule),
	})
	p.work += len(t.steps) * c.StateSize() * 2
}
