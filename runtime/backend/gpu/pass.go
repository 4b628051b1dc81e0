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
	n     int // rows
	c     metal.Commands
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
	tokens   bound         // where Embed finds the tokens
	head     *head         // what End reads
	rows     []backend.Row // as given to Begin

	ran             metal.Timing // once it has landed
	frame           *frame       // until the pass is over
	landed, dropped bool
}

// projection is a NormProject that Attend encodes.
type projection struct {
	q, k, v, x *tensor
	g          *norm
	w          [3]*weight
	heads      [2]*norm // of the heads of q and k; nil in a model without them
}

// normsHeads reports whether q or k has a norm of its heads.
func (j *projection) normsHeads() bool { return j.heads[0] != nil || j.heads[1] != nil }

// headNorm returns a norm of heads of size elements, or nil.
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

func (p *pass) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// level begins a dependency level: dispatches after it see the results of those before it.
func (p *pass) level() {
	if p.err == nil && p.open {
		p.c.Barrier()
		p.open = false
	}
}

// dispatch is one run of a kernel.
type dispatch struct {
	pipeline metal.Pipeline
	groups   metal.Size
	threads  int
	buffers  []bound // by index
	args     []byte  // at the index after those
	memory   []int   // bytes of threadgroup memory, by index
	weights  []*weight
}

// run encodes a dispatch into the current level.
func (p *pass) run(d dispatch) {
	if p.err == nil && d.threads > d.pipeline.Threads() {
		p.fail(fmt.Errorf("%s: %s allows %d threads of a threadgroup, %d are needed",
			d.pipeline.Name(), p.d.Name(), d.pipeline.Threads(), d.threads))
	}
	var args bound
	if p.err == nil {
		args, p.err = p.frame.put(p.d, d.args)
	}
	if p.err != nil {
		return
	}
	p.c.SetPipeline(d.pipeline)
	p.d.bindings = p.d.bindings[:0]
	for _, b := range d.buffers {
		if b.b == nil {
			b = bound{p.d.none, 0}
		}
		p.d.bindings = append(p.d.bindings, metal.Binding{Buffer: b.b, Offset: b.offset})
	}
	p.d.bindings = append(p.d.bindings, metal.Binding{Buffer: args.b, Offset: args.offset})
	p.c.SetBuffers(0, p.d.bindings)
	for i, n := range d.memory {
		p.c.SetThreadgroupMemory(i, max(16, ceil(n, 16)*16))
	}
	p.c.Dispatch(d.groups, metal.Size{X: d.threads, Y: 1, Z: 1})
	if !p.open {
		p.open = true
		p.stats.Levels++
	}
	p.stats.Dispatches++
	for _, w := range d.weights {
		p.stats.WeightBytes += int64(w.rows) * int64(w.rowBytes)
	}
}

func raw[T any](args *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(args)), unsafe.Sizeof(*args))
}

func at(b metal.Buffer) bound     { return bound{b, 0} }
func of(g grown) bound            { return bound{g.Buffer, 0} }
func (w *weight) matrix() bound   { return bound{w.buffer, w.offset} }
func (w *weight) biases() bound   { return bound{w.bias, 0} }
func (w *weight) hasBias() uint32 { return flag(w.bias != nil) }
func wide(n int) bool             { return n > maxNarrow }
func line(groups int) metal.Size  { return metal.Size{X: groups, Y: 1, Z: 1} }
func (p *pass) panel(outs, perGroup int) metal.Size {
	return metal.Size{X: ceil(outs, perGroup), Y: ceil(p.n, kernels.WideRows), Z: 1}
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// plain returns a kernel that reads no weights. On an error it fails the pass.
func (p *pass) plain(name string) metal.Pipeline { return p.must(pipelineKey{"", name, p.kvF32()}) }

// typed returns the kernel of an operation for the type of w. On an error it fails the pass.
func (p *pass) typed(op string, w *weight) metal.Pipeline {
	return p.must(pipelineKey{w.kind.String(), kernel(op, w.kind), p.kvF32()})
}

func (p *pass) must(key pipelineKey) metal.Pipeline {
	if p.err != nil {
		return nil
	}
	pl, err := p.d.pipeline(key)
	p.fail(err)
	return pl
}

func (p *pass) kvF32() bool { return p.kv.rowLen == 4*p.kv.room }

// narrow plans a mat-vec. On an error it fails the pass.
func (p *pass) narrow(op string, w *weight, n int, c division, extra int) narrow {
	if p.err != nil {
		return narrow{}
	}
	plan, err := p.d.narrow(op, w.kind, p.kvF32(), n, w.cols, c, extra)
	p.fail(err)
	return plan
}

// flush encodes the postponed write of x. g is the norm that follows, or nil.
func (p *pass) flush(g *norm) {
	if p.deferred == nil || p.err != nil {
		return
	}
	f := p.deferred
	p.deferred = nil
	p.level()
	f(g)
	p.ready, p.gain = nil, nil
	if g != nil {
		p.ready, p.gain = p.written, g
	}
}

// prepare ensures that g·x and Σ x² are computed, and begins a level that may read them.
func (p *pass) prepare(x *tensor, g *norm) {
	if p.deferred != nil && p.written == x {
		p.flush(g)
	}
	p.flush(nil)
	if p.err != nil {
		return
	}
	p.level()
	if p.ready == x && p.gain == g {
		return
	}
	p.reserve(x)
	args := kernels.NormArgs{Cols: uint32(x.cols)}
	p.run(dispatch{
		pipeline: p.plain("norm"), groups: line(p.n), threads: gatherThreads,
		buffers: []bound{of(x.values), at(g.gains), of(x.normed), of(x.squares)}, args: raw(&args),
	})
	p.ready, p.gain, p.parts = x, g, 1
	p.level()
}

// gatherThreads is the number of threads of embed and norm.
const gatherThreads = 256

// fit panics unless w maps rows of x to rows of y. y may be nil.
func fit(y *tensor, w *weight, x *tensor) {
	if w.cols != x.cols || y != nil && w.rows != y.cols {
		panic(fmt.Sprintf("gpu: a weight of %d × %d does not fit its tensors", w.rows, w.cols))
	}
}

func (p *pass) reserve(t *tensor) {
	if p.n > t.rows {
		panic(fmt.Sprintf("gpu: a pass of %d rows over a tensor of %d", p.n, t.rows))
	}
	if p.err == nil {
		p.fail(t.room(p.d, p.n))
	}
}

func (p *pass) Embed(to backend.Tensor, table backend.Weight) {
	if p.err != nil {
		return
	}
	x, w := to.(*tensor), table.(*weight)
	fit(nil, w, x)
	for _, r := range p.rows {
		if p.err == nil && (r.Token < 0 || int(r.Token) >= w.rows) {
			p.fail(fmt.Errorf("token %d: the embedding has %d rows", r.Token, w.rows))
		}
	}
	p.flush(nil)
	p.reserve(x)
	p.written = x
	p.deferred = func(g *norm) {
		args := kernels.EmbedArgs{
			Cols: uint32(w.cols), RowBytes: uint32(w.rowBytes), Vocab: uint32(w.rows), HasGain: flag(g != nil),
		}
		p.parts = 1
		p.run(dispatch{
			pipeline: p.typed("embed", w), groups: line(p.n), threads: gatherThreads,
			buffers: []bound{w.matrix(), p.tokens, g.bound(), of(x.values), of(x.normed), of(x.squares)},
			args:    raw(&args),
		})
	}
}

// bound returns the gains; empty without a norm.
func (n *norm) bound() bound {
	if n == nil {
		return bound{}
	}
	return at(n.gains)
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
		fit(to, j.w[i], j.x)
	}
	p.prepare(j.x, j.g)
	c, s := p.kv.c, &p.d.scratch
	width := c.Heads * c.HeadSize
	held := c.Heads
	if j.normsHeads() && wide(p.n) {
		held += c.KVHeads // qkv_wide needs room for keys, too
	}
	p.fail(s.q.grow(p.d, 4*p.n*held*p.kv.room))
	p.fail(s.parts.grow(p.d, 4*p.n*p.frame.splits*width))
	p.fail(s.ml.grow(p.d, 8*p.n*p.frame.splits*c.Heads))
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
	p.level()
	p.encodeAttend(layer)
	p.attended = a.(*tensor)
}

// bounds returns the places of the keys and values of a layer.
func (s *kv) bounds(layer int) (keys, values bound) {
	b := s.layers[layer]
	return bound{b, 0}, bound{b, s.c.KVHeads * s.c.Slots * s.rowLen}
}

// encodeQKV encodes the projections that take selects. Their weights have the type of w.
func (p *pass) encodeQKV(j *projection, w *weight, take [3]bool, layer int) {
	c, total := p.kv.c, 0
	args := kernels.QKVArgs{
		Rows: uint32(p.n), Cols: uint32(w.cols), SquareParts: uint32(p.parts), Eps: j.g.eps, Head: uint32(c.HeadSize),
		HeadRoom: uint32(p.kv.room), Heads: uint32(c.Heads), Slots: uint32(c.Slots),
	}
	outs := 0
	for m, w := range j.w {
		if take[m] {
			outs += w.rows
		}
	}
	part, step := divide(outs, w.cols), kernels.WideOuts/2
	switch {
	case j.normsHeads(): // a threadgroup takes a head
		step = c.HeadSize / 2
		part = divideColumns(2*ceil(step, kernels.TileRows)*kernels.TileRows, w.cols)
	case !wide(p.n):
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
	var buffers []bound
	for m, w := range j.w {
		args.RowBytes[m], args.Pairs[m] = uint32(w.rowBytes), uint32(w.rows/2)
		if take[m] {
			args.Groups[m] = uint32(ceil(w.rows/2, step))
			args.Bias |= w.hasBias() << m
			total += int(args.Groups[m])
			weights = append(weights, w)
		}
		buffers = append(buffers, w.matrix())
	}
	for _, w := range j.w {
		buffers = append(buffers, w.biases())
	}
	keys, values := p.kv.bounds(layer)
	buffers = append(buffers, of(j.x.normed), of(j.x.squares), p.frame.angles, p.frame.slots, of(p.d.scratch.q), keys,
		values, j.heads[0].bound(), j.heads[1].bound())
	if wide(p.n) {
		p.run(dispatch{
			pipeline: p.typed("qkv_wide", w), groups: metal.Size{X: total, Y: ceil(p.n, kernels.WideRows), Z: 1},
			threads: kernels.WideThreads, buffers: buffers, args: raw(&args), weights: weights,
		})
		return
	}
	plan := p.narrow("qkv", w, p.n, part, 0)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columns()
	p.run(dispatch{
		pipeline: plan.pipeline, groups: line(total), threads: plan.threads, buffers: buffers, args: raw(&args),
		memory: plan.memory, weights: weights,
	})
}

// ProjectAdd implements [backend.Pass]. It is encoded when the next norm is known.
func (p *pass) ProjectAdd(x backend.Tensor, w backend.Weight, h backend.Tensor) {
	if p.err != nil {
		return
	}
	p.flush(nil)
	to, m, from := x.(*tensor), w.(*weight), h.(*tensor)
	fit(to, m, from)
	attended := from == p.attended
	p.attended = nil
	p.reserve(to)
	if !attended {
		p.reserve(from)
	}
	p.written = to
	p.deferred = func(g *norm) { p.encodeAdd(to, m, from, attended, g) }
}

func (p *pass) encodeAdd(x *tensor, w *weight, h *tensor, attended bool, g *norm) {
	args := kernels.AddArgs{
		Rows: uint32(p.n), Outs: uint32(w.rows), Cols: uint32(w.cols),
		RowBytes: uint32(w.rowBytes), Bias: w.hasBias(),
		Gain: flag(g != nil), Splits: 1, Heads: uint32(p.kv.c.Heads), Head: uint32(p.kv.c.HeadSize),
	}
	in, ml := of(h.values), bound{}
	if attended {
		in, ml = of(p.d.scratch.parts), of(p.d.scratch.ml)
		args.Splits = uint32(p.frame.splits)
	}
	buffers := []bound{
		w.matrix(), w.biases(), in, ml, p.frame.rows, g.bound(), of(x.values), of(x.normed), of(x.squares),
	}
	if wide(p.n) {
		args.GroupRows = kernels.WideOuts
		p.parts = ceil(w.rows, kernels.WideOuts)
		p.run(dispatch{
			pipeline: p.typed("add_wide", w), groups: p.panel(w.rows, kernels.WideOuts), threads: kernels.WideThreads,
			buffers: buffers, args: raw(&args), weights: []*weight{w},
		})
		return
	}
	part := divide(w.rows, w.cols)
	share := 16
	if args.Splits > 1 {
		share = 4 * int(args.Splits*args.Heads)
	}
	plan := p.narrow("add", w, p.n, part, share)
	args.GroupRows = uint32(part.rows)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columns()
	p.parts = ceil(w.rows, part.rows)
	p.run(dispatch{
		pipeline: plan.pipeline, groups: line(p.parts), threads: plan.threads, buffers: buffers, args: raw(&args),
		memory: plan.memory, weights: []*weight{w},
	})
}

func (p *pass) NormGateUp(m, x backend.Tensor, g backend.Norm, wGate, wUp backend.Weight) {
	if p.err != nil {
		return
	}
	to, from, n, gate, up := m.(*tensor), x.(*tensor), g.(*norm), wGate.(*weight), wUp.(*weight)
	fit(to, gate, from)
	fit(to, up, from)
	p.prepare(from, n)
	p.reserve(to)
	if gate.kind == up.kind {
		p.encodeGateUp(to, from, n, gate, up, 0)
		return
	}
	p.encodeGateUp(to, from, n, up, up, 1)
	p.level()
	p.encodeGateUp(to, from, n, gate, gate, 2)
}

// encodeGateUp encodes both weights together (mode 0), or one of them if they have different types: up, and then gate
// (modes 1 and 2).
func (p *pass) encodeGateUp(m, x *tensor, g *norm, gate, up *weight, mode uint32) {
	args := kernels.GateUpArgs{
		Rows: uint32(p.n), Outs: uint32(gate.rows), Cols: uint32(gate.cols),
		GateBytes: uint32(gate.rowBytes), UpBytes: uint32(up.rowBytes),
		Bias: gate.hasBias() | up.hasBias()<<1, SquareParts: uint32(p.parts), Eps: g.eps, Mode: mode,
	}
	buffers := []bound{
		gate.matrix(), up.matrix(), gate.biases(), up.biases(), of(x.normed), of(x.squares), of(m.values),
	}
	if wide(p.n) {
		args.GroupPairs = kernels.WideOuts / 2
		p.run(dispatch{
			pipeline: p.typed("gateup_wide", gate), groups: p.panel(gate.rows, kernels.WideOuts/2),
			threads: kernels.WideThreads, buffers: buffers, args: raw(&args), weights: []*weight{gate, up},
		})
		return
	}
	part := divide(2*gate.rows, gate.cols)
	plan := p.narrow("gateup", gate, p.n, part, 0)
	args.GroupPairs = uint32(part.rows / 2)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columns()
	p.run(dispatch{
		pipeline: plan.pipeline, groups: line(ceil(gate.rows, part.rows/2)), threads: plan.threads, buffers: buffers,
		args: raw(&args), memory: plan.memory, weights: []*weight{gate, up},
	})
}
