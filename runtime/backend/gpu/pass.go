package gpu

import (
	"fmt"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// pass encodes operations as they are called.
type pass struct {
	d     *Device
	kv    *kv
	n     int            // rows
	c     metal.Commands // being encoded
	stats Stats
	open  bool // the current level has a dispatch
	err   error

	deferred func(g *norm) // encodes the postponed write of x, with the norm that follows; nil if none is postponed
	written  *tensor       // the x that it writes
	ready    *tensor       // the x with g·x and Σ x² computed
	gain     *norm         // with this g
	parts    int           // the number of parts of Σ x²
	project  *projection   // waits for Attend
	attended *tensor       // stands for the results of attention, which may be in splits
	tokens   binding       // where Embed finds the tokens
	head     *head         // what End reads
	rows     []backend.Row // as given to Begin
	planned  []plannedStep // of recurrent layers

	committed       []metal.Commands // in order
	work            int              // multiplications in c
	ran             metal.Timing     // once it has landed
	frame           *frame           // until the pass is over
	landed, dropped bool
}

// projection is a NormProject that Attend encodes.
type projection struct {
	q, k, v, x *tensor
	g          *norm
	w          [3]*weight
	heads      [2]*norm // of the heads of q and k; nil in a model without them
}

func (j *projection) hasHeadNorms() bool { return j.heads[0] != nil || j.heads[1] != nil }

func headNorm(g backend.Norm, size int) *norm {
	if g == nil {
		return nil
	}
	n := g.(*norm)
	if n.n != size {
		panic(fmt.Sprintf("gpu: a norm of %d for heads of %d", n.n, size))
	}
	return n
}

func (p *pass) recordError(err error) {
	if p.err == nil {
		p.err = err
	}
}

// beginLevel begins a dependency level: dispatches after it see the results of those before it.
func (p *pass) beginLevel() {
	if p.err != nil || !p.open {
		return
	}
	if p.open = false; p.work >= p.d.maxWork {
		p.cutPass()
	} else {
		p.c.Barrier()
	}
}

// maxWork is about how many multiplications a command buffer may have. An M1 does 10¹² to 1.3·10¹² of them in a second
// (2.6 TFLOPS; FMA counts as two), and half of that is assumed: half a second. A prompt of 512 tokens is 0.25·10¹² in
// Qwen2.5-0.5B, which is one command buffer, and 3.6·10¹² in a model of 7B, which are 12.
const maxWork = 300e9

// dispatch is one run of a kernel.
type dispatch struct {
	pipeline metal.Pipeline
	groups   metal.Size
	threads  int
	buffers  []binding // by index
	args     []byte    // at the index after those
	memory   []int     // bytes of threadgroup memory, by index
	weights  []*weight
}

func (p *pass) encodeDispatch(d dispatch) {
	if p.err == nil && d.threads > d.pipeline.Threads() {
		p.recordError(fmt.Errorf("%s: %s allows %d threads of a threadgroup, %d are needed",
			d.pipeline.Name(), p.d.Name(), d.pipeline.Threads(), d.threads))
	}
	var args binding
	if p.err == nil {
		args, p.err = p.frame.storeArgs(p.d, d.args)
	}
	if p.err != nil {
		return
	}
	p.c.SetPipeline(d.pipeline)
	p.d.bindings = p.d.bindings[:0]
	for _, b := range d.buffers {
		if b.b == nil {
			b = binding{p.d.none, 0}
		}
		p.d.bindings = append(p.d.bindings, metal.Binding{Buffer: b.b, Offset: b.offset})
	}
	p.d.bindings = append(p.d.bindings, metal.Binding{Buffer: args.b, Offset: args.offset})
	p.c.SetBuffers(0, p.d.bindings)
	for i, n := range d.memory {
		p.c.SetThreadgroupMemory(i, max(16, ceilDiv(n, 16)*16))
	}
	p.c.Dispatch(d.groups, metal.Size{X: d.threads, Y: 1, Z: 1})
	if !p.open {
		p.open = true
		p.stats.Levels++
	}
	p.stats.Dispatches++
	for _, w := range d.weights {
		p.stats.WeightBytes += int64(w.rows) * int64(w.rowBytes)
		p.work += p.n * w.rows * w.cols
	}
}

func argBytes[T any](args *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(args)), unsafe.Sizeof(*args))
}

func bufferStart(b metal.Buffer) binding { return binding{b, 0} }
func startOf(g growableBuffer) binding   { return binding{g.Buffer, 0} }
func (w *weight) matrixBinding() binding { return binding{w.buffer, w.offset} }
func (w *weight) biasBinding() binding   { return binding{w.bias, 0} }
func (w *weight) biasFlag() uint32       { return boolToUint32(w.bias != nil) }
func isWide(n int) bool                  { return n > maxNarrow }
func linearGrid(groups int) metal.Size   { return metal.Size{X: groups, Y: 1, Z: 1} }
func (p *pass) wideGrid(outs, perGroup int) metal.Size {
	return metal.Size{X: ceilDiv(outs, perGroup), Y: ceilDiv(p.n, kernels.WideRows), Z: 1}
}

func boolToUint32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// plainPipeline returns a kernel that reads no weights. On an error it fails the pass.
func (p *pass) plainPipeline(name string) metal.Pipeline {
	return p.pipelineOrFail(pipelineKey{"", name, p.kvF32()})
}

// typedPipeline returns the kernel of an operation for the type of w. On an error it fails the pass.
func (p *pass) typedPipeline(op string, w *weight) metal.Pipeline {
	return p.pipelineOrFail(pipelineKey{w.kind.String(), kernelName(op, w.kind), p.kvF32()})
}

func (p *pass) pipelineOrFail(key pipelineKey) metal.Pipeline {
	if p.err != nil {
		return nil
	}
	pl, err := p.d.findPipeline(key)
	p.recordError(err)
	return pl
}

func (p *pass) kvF32() bool { return p.kv.rowLen == 4*p.kv.room }

// planNarrow plans a mat-vec. On an error it fails the pass.
func (p *pass) planNarrow(op string, w *weight, n int, c division, extra int) narrowPlan {
	if p.err != nil {
		return narrowPlan{}
	}
	plan, err := p.d.planNarrow(op, w.kind, p.kvF32(), n, w.cols, c, extra)
	p.recordError(err)
	return plan
}

// flushDeferred encodes the postponed write of x. g is the norm that follows, or nil.
func (p *pass) flushDeferred(g *norm) {
	if p.deferred == nil || p.err != nil {
		return
	}
	f := p.deferred
	p.deferred = nil
	p.beginLevel()
	f(g)
	p.ready, p.gain = nil, nil
	if g != nil {
		p.ready, p.gain = p.written, g
	}
}

// prepareNorm ensures that g·x and Σ x² are computed, and begins a level that may read them.
func (p *pass) prepareNorm(x *tensor, g *norm) {
	if p.deferred != nil && p.written == x {
		p.flushDeferred(g)
	}
	p.flushDeferred(nil)
	if p.err != nil {
		return
	}
	p.beginLevel()
	if p.ready == x && p.gain == g {
		return
	}
	p.reserveTensor(x)
	args := kernels.NormArgs{Cols: uint32(x.cols)}
	p.encodeDispatch(dispatch{
		pipeline: p.plainPipeline("norm"), groups: linearGrid(p.n), threads: gatherThreads,
		buffers: []binding{startOf(x.values), bufferStart(g.gains), startOf(x.normed), startOf(x.squares)},
		args:    argBytes(&args),
	})
	p.ready, p.gain, p.parts = x, g, 1
	p.beginLevel()
}

// gatherThreads is the number of threads of embed and norm.
const gatherThreads = 256

// checkWeightShape panics unless w maps rows of x to rows of y. y may be nil.
func checkWeightShape(y *tensor, w *weight, x *tensor) {
	if w.cols != x.cols || y != nil && w.rows != y.cols {
		panic(fmt.Sprintf("gpu: a weight of %d × %d does not fit its tensors", w.rows, w.cols))
	}
}

func (p *pass) reserveTensor(t *tensor) {
	if p.n > t.rows {
		panic(fmt.Sprintf("gpu: a pass of %d rows over a tensor of %d", p.n, t.rows))
	}
	if p.err == nil {
		p.recordError(t.allocateRows(p.d, p.n))
	}
}

func (p *pass) Embed(to backend.Tensor, table backend.Weight) {
	if p.err != nil {
		return
	}
	x, w := to.(*tensor), table.(*weight)
	checkWeightShape(nil, w, x)
	for _, r := range p.rows {
		if p.err == nil && (r.Token < 0 || int(r.Token) >= w.rows) {
			p.recordError(fmt.Errorf("token %d: the embedding has %d rows", r.Token, w.rows))
		}
	}
	p.flushDeferred(nil)
	p.reserveTensor(x)
	p.written = x
	p.deferred = func(g *norm) {
		args := kernels.EmbedArgs{
			Cols: uint32(w.cols), RowBytes: uint32(w.rowBytes), Vocab: uint32(w.rows), HasGain: boolToUint32(g != nil),
		}
		p.parts = 1
		p.encodeDispatch(dispatch{
			pipeline: p.typedPipeline("embed", w), groups: linearGrid(p.n), threads: gatherThreads,
			buffers: []binding{
				w.matrixBinding(), p.tokens, g.gainsBinding(), startOf(x.values), startOf(x.normed), startOf(x.squares),
			},
			args: argBytes(&args),
		})
	}
}

func (n *norm) gainsBinding() binding {
	if n == nil {
		return binding{}
	}
	return bufferStart(n.gains)
}

// NormProject implements [backend.Pass]. The Attend that must follow encodes it, together with the rotation and the
// store of its results.
func (p *pass) NormProject(q, k, v, x backend.Tensor, g backend.Norm, wq, wk, wv backend.Weight) {
	if p.err != nil {
		return
	}
	p.project = &projection{
		q: q.(*tensor), k: k.(*tensor), v: v.(*tensor), x: x.(*tensor), g: g.(*norm),
		w: [3]*weight{wq.(*weight), wk.(*weight), wv.(*weight)},
	}
}

// Attend implements [backend.Pass]: the projection with rotation and store in one level, and attention in another. Its
// result is for the ProjectAdd that takes a.
func (p *pass) Attend(a, q, k, v backend.Tensor, gq, gk backend.Norm, layer int) {
	if p.err != nil {
		return
	}
	j := p.project
	j.heads = [2]*norm{headNorm(gq, p.kv.c.HeadSize), headNorm(gk, p.kv.c.HeadSize)}
	for i, to := range []*tensor{j.q, j.k, j.v} {
		checkWeightShape(to, j.w[i], j.x)
	}
	p.prepareNorm(j.x, j.g)
	c, s := p.kv.c, &p.d.scratch
	width := c.Heads * c.HeadSize
	held := p.kv.queryHeads()
	if j.hasHeadNorms() && isWide(p.n) {
		held += c.KVHeads // qkv_wide needs room for keys, too
	}
	p.recordError(s.q.growTo(p.d, 4*p.n*held*p.kv.room))
	p.recordError(s.parts.growTo(p.d, 4*p.n*p.frame.splits*width))
	p.recordError(s.ml.growTo(p.d, 8*p.n*p.frame.splits*c.Heads))
	done := [3]bool{}
	for i, w := range j.w { // weights of one type go together
		if done[i] {
			continue
		}
		var take [3]bool
		for m := range j.w {
			take[m] = j.w[m].kind == w.kind
			done[m] = done[m] || take[m]
		}
		p.encodeQKV(j, w, take, layer)
	}
	p.beginLevel()
	p.encodeAttend(layer)
	p.attended = a.(*tensor)
}

func (s *kv) layerBindings(layer int) (keys, values binding) {
	b := s.layers[layer]
	return binding{b, 0}, binding{b, s.c.KVHeads * s.c.Slots * s.rowLen}
}

// encodeQKV encodes the projections that take selects. Their weights have the type of w.
func (p *pass) encodeQKV(j *projection, w *weight, take [3]bool, layer int) {
	c, total := p.kv.c, 0
	args := kernels.QKVArgs{
		Rows: uint32(p.n), Cols: uint32(w.cols), SquareParts: uint32(p.parts), Eps: j.g.eps, Head: uint32(c.HeadSize),
		Rotated: uint32(c.RotatedSize()), HeadRoom: uint32(p.kv.room), Heads: uint32(p.kv.queryHeads()),
		Gated: boolToUint32(c.Gated), Slots: uint32(c.Slots),
	}
	outs := 0
	for m, w := range j.w {
		if take[m] {
			outs += w.rows
		}
	}
	part, step := divideMatrix(outs, w.cols), kernels.WideOuts/2
	switch {
	case j.hasHeadNorms(): // a threadgroup takes a head
		step = c.HeadSize / 2
		part = divideColumns(2*ceilDiv(step, kernels.TileRows)*kernels.TileRows, w.cols)
	case !isWide(p.n):
		step = part.rows / 2
	}
	args.GroupPairs, args.Step = uint32(part.rows/2), uint32(step)
	for m, g := range j.heads {
		if g != nil {
			args.Norms |= 1 << m
			args.HeadEps[m] = g.eps
		}
	}
	var weights []*weight
	var buffers []binding
	for m, w := range j.w {
		args.RowBytes[m], args.Pairs[m] = uint32(w.rowBytes), uint32(w.rows/2)
		if take[m] {
			args.Groups[m] = uint32(ceilDiv(w.rows/2, step))
			args.Bias |= w.biasFlag() << m
			total += int(args.Groups[m])
			weights = append(weights, w)
		}
		buffers = append(buffers, w.matrixBinding())
	}
	for _, w := range j.w {
		buffers = append(buffers, w.biasBinding())
	}
	keys, values := p.kv.layerBindings(layer)
	buffers = append(buffers, startOf(j.x.normed), startOf(j.x.squares), p.frame.angles, p.frame.slots,
		startOf(p.d.scratch.q), keys, values, j.heads[0].gainsBinding(), j.heads[1].gainsBinding())
	if isWide(p.n) {
		p.encodeDispatch(dispatch{
			pipeline: p.typedPipeline("qkv_wide", w),
			groups:   metal.Size{X: total, Y: ceilDiv(p.n, kernels.WideRows), Z: 1},
			threads:  kernels.WideThreads, buffers: buffers, args: argBytes(&args), weights: weights,
		})
		return
	}
	plan := p.planNarrow("qkv", w, p.n, part, 0)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columnArgs()
	p.encodeDispatch(dispatch{
		pipeline: plan.pipeline, groups: linearGrid(total), threads: plan.threads, buffers: buffers,
		args: argBytes(&args), memory: plan.memory, weights: weights,
	})
}

// ProjectAdd implements [backend.Pass]. It is encoded when the next norm is known.
func (p *pass) ProjectAdd(x backend.Tensor, w backend.Weight, h backend.Tensor) {
	if p.err != nil {
		return
	}
	p.flushDeferred(nil)
	to, m, from := x.(*tensor), w.(*weight), h.(*tensor)
	checkWeightShape(to, m, from)
	attended := from == p.attended
	p.attended = nil
	p.reserveTensor(to)
	if !attended {
		p.reserveTensor(from)
	}
	p.written = to
	p.deferred = func(g *norm) { p.encodeAdd(to, m, from, attended, g) }
}

func (p *pass) encodeAdd(x *tensor, w *weight, h *tensor, attended bool, g *norm) {
	args := kernels.AddArgs{
		Rows: uint32(p.n), Outs: uint32(w.rows), Cols: uint32(w.cols),
		RowBytes: uint32(w.rowBytes), Bias: w.biasFlag(),
		Gain: boolToUint32(g != nil), Splits: 1, Heads: uint32(p.kv.c.Heads), Head: uint32(p.kv.c.HeadSize),
	}
	in, ml := startOf(h.values), binding{}
	if attended {
		in, ml = startOf(p.d.scratch.parts), startOf(p.d.scratch.ml)
		args.Splits = uint32(p.frame.splits)
	}
	buffers := []binding{
		w.matrixBinding(), w.biasBinding(), in, ml, p.frame.rows, g.gainsBinding(), startOf(x.values),
		startOf(x.normed), startOf(x.squares),
	}
	if isWide(p.n) {
		args.GroupRows = kernels.WideOuts
		p.parts = ceilDiv(w.rows, kernels.WideOuts)
		p.encodeDispatch(dispatch{
			pipeline: p.typedPipeline("add_wide", w), groups: p.wideGrid(w.rows, kernels.WideOuts),
			threads: kernels.WideThreads, buffers: buffers, args: argBytes(&args), weights: []*weight{w},
		})
		return
	}
	part := divideMatrix(w.rows, w.cols)
	share := 16
	if args.Splits > 1 {
		share = 4 * int(args.Splits*args.Heads)
	}
	plan := p.planNarrow("add", w, p.n, part, share)
	args.GroupRows = uint32(part.rows)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columnArgs()
	p.parts = ceilDiv(w.rows, part.rows)
	p.encodeDispatch(dispatch{
		pipeline: plan.pipeline, groups: linearGrid(p.parts), threads: plan.threads, buffers: buffers,
		args: argBytes(&args), memory: plan.memory, weights: []*weight{w},
	})
}

func (p *pass) NormGateUp(m, x backend.Tensor, g backend.Norm, wGate, wUp backend.Weight) {
	if p.err != nil {
		return
	}
	to, from, n, gate, up := m.(*tensor), x.(*tensor), g.(*norm), wGate.(*weight), wUp.(*weight)
	checkWeightShape(to, gate, from)
	checkWeightShape(to, up, from)
	p.prepareNorm(from, n)
	p.reserveTensor(to)
	if gate.kind == up.kind {
		p.encodeGateUp(to, from, n, gate, up, 0)
		return
	}
	p.encodeGateUp(to, from, n, up, up, 1)
	p.beginLevel()
	p.encodeGateUp(to, from, n, gate, gate, 2)
}

// encodeGateUp encodes both weights together (mode 0), or one of them if they have different types: up, and then gate
// (modes 1 and 2).
func (p *pass) encodeGateUp(m, x *tensor, g *norm, gate, up *weight, mode uint32) {
	args := kernels.GateUpArgs{
		Rows: uint32(p.n), Outs: uint32(gate.rows), Cols: uint32(gate.cols),
		GateBytes: uint32(gate.rowBytes), UpBytes: uint32(up.rowBytes),
		Bias: gate.biasFlag() | up.biasFlag()<<1, SquareParts: uint32(p.parts), Eps: g.eps, Mode: mode,
	}
	buffers := []binding{
		gate.matrixBinding(), up.matrixBinding(), gate.biasBinding(), up.biasBinding(), startOf(x.normed),
		startOf(x.squares), startOf(m.values),
	}
	if isWide(p.n) {
		args.GroupPairs = kernels.WideOuts / 2
		p.encodeDispatch(dispatch{
			pipeline: p.typedPipeline("gateup_wide", gate), groups: p.wideGrid(gate.rows, kernels.WideOuts/2),
			threads: kernels.WideThreads, buffers: buffers, args: argBytes(&args), weights: []*weight{gate, up},
		})
		return
	}
	part := divideMatrix(2*gate.rows, gate.cols)
	plan := p.planNarrow("gateup", gate, p.n, part, 0)
	args.GroupPairs = uint32(part.rows / 2)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columnArgs()
	p.encodeDispatch(dispatch{
		pipeline: plan.pipeline, groups: linearGrid(ceilDiv(gate.rows, part.rows/2)), threads: plan.threads,
		buffers: buffers, args: argBytes(&args), memory: plan.memory, weights: []*weight{gate, up},
	})
}
