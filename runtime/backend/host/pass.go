package host

import (
	"context"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// pass collects the loops of operations, which run when it ends: so no worker waits for the caller between them. With
// one worker they run as they are called. What an operation computes outside loops is done by [pass.Then], in order.
type pass struct {
	d         *Device
	kv        *kv
	rows      []backend.Row
	cos, sin  []float32 // [T, R/2] of the angle of each row
	planned   map[*states][]plannedStep
	steps     []deltaStep // of planned, in order
	immediate bool        // operations run as they are called
	before    []func()    // of the next loop
	loops     []pool.Loop
	err       error
}

// Then implements [backend.Deferred].
func (p *pass) Then(f func()) {
	if p.immediate {
		f()
	} else {
		p.before = append(p.before, f)
	}
}

// loop runs a loop after the operations so far.
func (p *pass) loop(l pool.Loop) {
	if do, commit := l.Do, l.Commit; commit != nil && !p.mayRedo() {
		l.Commit = nil
		l.Do = func(worker, lo, hi int) {
			do(worker, lo, hi)
			commit(worker, lo, hi)
		}
	}
	switch {
	case !p.immediate:
		l.Before, p.before = p.before, nil
		p.loops = append(p.loops, l)
	case l.Long:
		p.d.pool.RunLong(l.N, l.Grain, l.Do)
	default:
		p.d.pool.Run(l.N, l.Grain, l.Do)
	}
}

// mayRedo reports whether workers compute the pieces of products that others have taken, if they wait for these. Exact
// sums are added before they are rounded.
func (p *pass) mayRedo() bool { return !p.immediate && !p.d.exact }

// actsThen returns the activations of a after the operations so far. They stay as they are for a worker that computes
// a product once more, even if a has changed meanwhile; only the numbers may not.
func (p *pass) actsThen(a *cpu.Acts) *cpu.Acts {
	then := new(cpu.Acts)
	p.Then(func() { *then = *a })
	return then
}

// Begin implements [backend.Device]. It wakes the workers; after End they sleep again.
func (d *Device) Begin(store backend.KV, rows []backend.Row) backend.Pass {
	p := &pass{d: d, kv: store.(*kv), rows: rows, immediate: d.pool.Threads() == 1}
	p.allocateRowSlots()
	p.setAngles()
	p.planSteps()
	d.pool.Begin()
	return p
}

// Mixes implements [backend.Mixer].
func (d *Device) Mixes() {}

// allocateRowSlots allocates memory for the slots of all rows. A store of another shape is a bug of the caller.
func (p *pass) allocateRowSlots() {
	for _, r := range p.rows {
		store := p.kv
		if r.KV != nil {
			store = r.KV.(*kv)
			if shape := store.c; shape != p.kv.c {
				if shape.Slots = p.kv.c.Slots; shape != p.kv.c {
					panic("host: the KV stores of a pass have different shapes")
				}
			}
		}
		for _, s := range r.See {
			store.allocateSlots(s.From, s.To)
		}
		store.allocateSlots(r.Slot, r.Slot+1)
	}
}

// setAngles sets cos and sin of pos·base^(-2i/R) for each row, the angles in float64.
func (p *pass) setAngles() {
	half := p.kv.c.RotatedSize() / 2
	freq := p.kv.c.Frequencies()
	p.cos = make([]float32, len(p.rows)*half)
	p.sin = make([]float32, len(p.rows)*half)
	for t, r := range p.rows {
		for i, f := range freq {
			sin, cos := math.Sincos(float64(r.Pos) * f)
			p.cos[t*half+i], p.sin[t*half+i] = float32(cos), float32(sin)
		}
	}
}

func (p *pass) End(ctx context.Context) error {
	if p.err == nil && ctx.Err() == nil && !p.immediate {
		if len(p.before) > 0 {
			p.loop(pool.Loop{})
		}
		p.d.pool.RunLoops(p.loops, func() bool { return ctx.Err() != nil })
	}
	p.d.pool.End()
	p.keepFirstError(context.Cause(ctx))
	if p.err != nil {
		p.undoSteps()
	}
	return p.err
}

func (p *pass) Embed(x backend.Tensor, table backend.Weight) {
	if p.err != nil {
		return
	}
	to, w := x.(*tensor), table.(*weight)
	to.rounded = false
	for _, r := range p.rows {
		if r.Token < 0 || int(r.Token) >= w.Rows {
			p.keepFirstError(fmt.Errorf("token %d: the embedding has %d rows", r.Token, w.Rows))
			return
		}
	}
	p.Then(func() {
		for t, r := range p.rows {
			w.dequantize(to.row(t), int(r.Token))
		}
	})
}

func (p *pass) keepFirstError(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *pass) NormProject(q, k, v, x backend.Tensor, g backend.Norm, wq, wk, wv backend.Weight) {
	if p.err != nil {
		return
	}
	p.projectNormalised(x.(*tensor), g.(*norm), projection{out: q.(*tensor), w: wq.(*weight)},
		projection{out: k.(*tensor), w: wk.(*weight)}, projection{out: v.(*tensor), w: wv.(*weight)})
}

// projectNormalised sets h = x/rms(x) ⊙ g and the outputs of some weights for h.
func (p *pass) projectNormalised(x *tensor, g *norm, outs ...projection) {
	for _, o := range outs {
		o.w.mustTake(x.cols)
	}
	quantised, total, widest := false, 0, outs[0].w
	for _, o := range outs {
		o.out.rounded = false
		quantised = quantised || o.w.Quantised()
		total += o.w.Rows
		if o.w.RowBytes() > widest.RowBytes() {
			widest = o.w
		}
	}
	p.setActs(x, g, quantised)
	acts := p.actsThen(&p.d.acts)
	l := p.piecesOf(total, p.outputsPerPiece(total, widest))
	l.Do = func(worker, lo, hi int) {
		eachPart(outs, lo, hi, func(o projection, _, from, to int) { p.multiplyHeads(o, acts, from, to, worker) })
	}
	if p.mayRedo() && outs[0].heads == nil {
		p.projectOwn(&l, acts, outs)
	}
	p.loop(l)
}

// projectOwn makes workers compute projections in their own memory.
func (p *pass) projectOwn(l *pool.Loop, acts *cpu.Acts, outs []projection) {
	l.Do = func(worker, lo, hi int) {
		own := p.d.workers[worker].resizeOwn(len(p.rows), lo, hi)
		eachPart(outs, lo, hi, func(o projection, first, from, to int) {
			p.multiplyPart(own[first+from-lo:], hi-lo, acts, o.w, from, to, worker)
		})
	}
	l.Commit = func(worker, lo, hi int) {
		ws := &p.d.workers[worker]
		eachPart(outs, lo, hi, func(o projection, first, from, to int) {
			for t := range p.rows {
				copy(o.out.row(t)[from:to], ws.ownRow(t, first+from, first+to))
			}
		})
	}
}

// eachPart calls f for the parts of the outputs lo to hi of projections: the outputs of one are numbered from first on.
func eachPart(outs []projection, lo, hi int, f func(o projection, first, from, to int)) {
	first := 0
	for _, o := range outs {
		if from, to := max(lo-first, 0), min(hi-first, o.w.Rows); from < to {
			f(o, first, from, to)
		}
		first += o.w.Rows
	}
}

// projection is an output and its weight.
type projection struct {
	out   *tensor
	w     *weight
	heads []int // where the heads of the outputs begin, and the end of the last one, if out is head after head
}

// multiplyHeads computes the outputs lo to hi of a projection.
func (p *pass) multiplyHeads(o projection, acts *cpu.Acts, lo, hi, worker int) {
	if o.heads == nil {
		p.matmul(o.out.f, o.out.cols, acts, o.w, lo, hi, false, worker)
		return
	}
	for i, end := range o.heads[1:] {
		first := o.heads[i]
		if from, to := max(lo, first), min(hi, end); from < to {
			dst := o.out.f[first*(len(p.rows)-1):] // the head has the elements from first·rows on
			p.matmul(dst, end-first, acts, o.w, from, to, false, worker)
		}
	}
}

// Sizes of the piece of a weight that a worker takes at a time: pieceBytes bytes of outputs, counted once for each
// token, in a multiple of the outputs that the kernels compute together and of those that are rounded together. Long
// pieces use the processor's prefetching; but all workers wait for the last piece. A small weight is one piece, and the
// caller computes it alone. With many tokens a piece has up to pieceMost outputs, so that activations are read less
// often, but a worker has several pieces to take.
const (
	pieceBytes   = 128 << 10
	pieceOutputs = 32
	pieceMost    = 64
	pieceEach    = 4 // pieces for each worker
)

// outputsPerPiece returns how many outputs make a piece, so that all workers get the same number of pieces. All weights
// have the same number of columns.
func (p *pass) outputsPerPiece(outputs int, weights ...*weight) int {
	bytes := 0
	for _, w := range weights {
		bytes = max(bytes, w.RowBytes())
	}
	threads := p.d.Threads()
	piece := pieceBytes / (bytes * len(p.rows))
	if len(p.rows) > fewTokens {
		piece = max(piece, min(pieceMost, outputs/(pieceEach*threads)))
	}
	units, most := (outputs+pieceOutputs-1)/pieceOutputs, max(1, piece/pieceOutputs)
	for n := most; n > most/2 && units > most; n-- {
		if pieces := (units + n - 1) / n; pieces%threads == 0 {
			return n * pieceOutputs
		}
	}
	return most * pieceOutputs
}

// longTokens is the maximum number of tokens for which a worker takes half of its remaining outputs at a time. With few
// tokens, fewer calls and sequential reads save more than cached activations do. With more tokens, a long piece would
// exceed the cache.
const longTokens = 16

// piecesOf returns a loop over n outputs.
func (p *pass) piecesOf(n, grain int) pool.Loop {
	return pool.Loop{N: n, Grain: grain, Long: len(p.rows) <= longTokens}
}

func (p *pass) ProjectAdd(x backend.Tensor, w backend.Weight, h backend.Tensor) {
	if p.err != nil {
		return
	}
	to, m, from := x.(*tensor), w.(*weight), h.(*tensor)
	to.rounded = false
	m.mustTake(from.cols)
	acts := p.actsOf(from, m.Quantised())
	l := p.piecesOf(m.Rows, p.outputsPerPiece(m.Rows, m))
	l.Do = func(worker, lo, hi int) { p.matmul(to.f, to.cols, acts, m, lo, hi, true, worker) }
	if p.mayRedo() && m.bias == nil { // a bias is added last
		l.Do = func(worker, lo, hi int) {
			p.multiplyPart(p.d.workers[worker].resizeOwn(len(p.rows), lo, hi), hi-lo, acts, m, lo, hi, worker)
		}
		once := []float32{1}
		l.Commit = func(worker, lo, hi int) {
			for t := range p.rows {
				vector.AddWeightedSum(to.row(t)[lo:hi], once, p.d.workers[worker].ownRow(t, lo, hi), hi-lo)
			}
		}
	}
	p.loop(l)
}

func (p *pass) actsOf(h *tensor, round bool) *cpu.Acts {
	if !h.rounded {
		p.Then(func() { h.acts.Use(h.f, len(p.rows), h.cols) })
		if round && !p.d.exact {
			p.eachRow(func(t int) { h.acts.Round(t) })
		}
	}
	return p.actsThen(&h.acts)
}

// NormGateUp implements [backend.Pass]. If the next product needs a rounded input, which the types of the weights show,
// each worker also rounds the part of the result that it computes, while it is in the cache.
func (p *pass) NormGateUp(m, x backend.Tensor, g backend.Norm, wGate, wUp backend.Weight) {
	if p.err != nil {
		return
	}
	to, gate, up := m.(*tensor), wGate.(*weight), wUp.(*weight)
	gate.mustTake(x.(*tensor).cols)
	up.mustTake(x.(*tensor).cols)
	quantised := gate.Quantised() || up.Quantised()
	p.setActs(x.(*tensor), g.(*norm), quantised)
	p.Then(func() { to.acts.Use(to.f, len(p.rows), to.cols) })
	to.rounded = quantised && !p.d.exact && to.cols%pieceOutputs == 0
	acts, round := p.actsThen(&p.d.acts), to.rounded
	l := p.piecesOf(gate.Rows, p.outputsPerPiece(gate.Rows, gate, up))
	l.Do = func(worker, lo, hi int) {
		ws := &p.d.workers[worker]
		p.multiplyPart(ws.resizeOwn(len(p.rows), lo, hi), hi-lo, acts, gate, lo, hi, worker)
		ws.up = resizeSlice(ws.up, len(p.rows)*(hi-lo))
		p.multiplyPart(ws.up, hi-lo, acts, up, lo, hi, worker)
	}
	l.Commit = func(worker, lo, hi int) { p.storeGated(to, &p.d.workers[worker], lo, hi, round) }
	p.loop(l)
}

// storeGated stores the outputs lo to hi of what a worker has computed from gate and up.
func (p *pass) storeGated(to *tensor, ws *workerSpace, lo, hi int, round bool) {
	for t := 0; t < len(p.rows); t += gateUpRows {
		last := min(t+gateUpRows, len(p.rows))
		for t := t; t < last; t++ {
			p.d.ops.swiGLU(to.row(t)[lo:hi], ws.ownRow(t, lo, hi), ws.up[t*ws.outputs+lo-ws.first:][:hi-lo])
		}
		if round {
			to.acts.RoundTokens(t, last, lo, hi)
		}
	}
}

// gateUpRows is the number of rows that storeGated computes, and then rounds, at a time.
const gateUpRows = 16

// setActs sets the activations of the following products to the normalised tokens of x.
func (p *pass) setActs(x *tensor, g *norm, round bool) {
	p.Then(func() { p.d.acts.Resize(len(p.rows), x.cols) })
	p.eachRow(func(t int) { p.setAct(t, x.row(t), g, round) })
}

func (p *pass) setAct(t int, x []float32, g *norm, round bool) {
	vector.RMSNorm(p.d.acts.Token(t), x, g.gains, g.eps)
	if round && !p.d.exact {
		p.d.acts.Round(t)
	}
}

// fewTokens is the minimum number of tokens for which a loop over them is worth waking the workers.
const fewTokens = 4

// eachRow calls f for every row of the pass, on all workers if there are enough rows.
func (p *pass) eachRow(f func(t int)) {
	if len(p.rows) < fewTokens {
		p.Then(func() {
			for t := range p.rows {
				f(t)
			}
		})
		return
	}
	p.loop(pool.Loop{N: len(p.rows), Do: func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			f(t)
		}
	}})
}

// matmul sets dst[t·stride+o] = w·x + bias for lo ≤ o < hi and every row t of x, or adds that to dst.
func (p *pass) matmul(dst []float32, stride int, x *cpu.Acts, w *weight, lo, hi int, add bool, worker int) {
	p.d.ops.matmul(dst, stride, w.Matrix, lo, hi, x, add, &p.d.workers[worker].matmul)
	if w.bias == nil {
		return
	}
	for t := range x.T {
		for o := lo; o < hi; o++ {
			dst[t*stride+o] += w.bias[o]
		}
	}
}

// multiplyPart sets dst[t·stride+o-lo] = w·x + bias for lo ≤ o < hi and every row t of x.
func (p *pass) multiplyPart(dst []float32, stride int, x *cpu.Acts, w *weight, lo, hi, worker int) {
	some := weight{Matrix: w.Part(lo, hi)}
	if w.bias != nil {
		some.bias = w.bias[lo:hi]
	}
	p.matmul(dst, stride, x, &some, 0, hi-lo, false, worker)
}

// normHeads applies the norm of heads to one row of queries or keys, if the model has one.
func (p *pass) normHeads(x []float32, g backend.Norm) {
	if g == nil {
		return
	}
	n := g.(*norm)
	for size := p.kv.c.HeadSize; len(x) > 0; x = x[size:] {
		vector.RMSNorm(x[:size], x[:size], n.gains, n.eps)
	}
}

// rotateHeads rotates the heads of one row by its position: pairs (i, i+R/2), angle pos·base^(-2i/R).
func (p *pass) rotateHeads(t int, x []float32) {
	size, half := p.kv.c.HeadSize, p.kv.c.RotatedSize()/2
	cos, sin := p.cos[t*half:(t+1)*half], p.sin[t*half:(t+1)*half]
	if size == 2*half {
		vector.Rope(x, cos, sin)
		return
	}
	for ; len(x) > 0; x = x[size:] {
		vector.Rope(x[:2*half], cos, sin)
	}
}

// resizeSlice returns s with length n, in new memory where its own is too small. What it holds is undefined.
func resizeSlice[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
