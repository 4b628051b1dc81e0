package host

import (
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

const chunkTokens = backend.DeltaChunk

var _ backend.DeltaKV = (*kv)(nil)

// delta is a layer with a recurrent state.
type delta struct {
	c                        backend.DeltaConfig
	mixed, gate, beta, alpha *weight
	taps                     [][]float32 // of each key head [Kernel, channels of the head], of the current token last
	a, step                  []float32   // [value heads]
	norm                     []float32   // [ValueSize]
	queryGains, keyGains     []float32   // [KeySize] with which an RMSNorm is the norm of queries and keys
	heads, valueHeads        []int       // where the heads of channels and of values begin, and the end of the last
}

func (d *delta) Config() backend.DeltaConfig { return d.c }

// MaxRows implements [backend.Delta]: a pass reuses the memory of what a long text would soon drop.
func (d *delta) MaxRows() int { return math.MaxInt }

// LoadDelta implements [backend.Device].
func (d *Device) LoadDelta(c backend.DeltaConfig, w backend.DeltaWeights) (backend.Delta, error) {
	if c.Kernel < 1 || c.Kernel > chunkTokens {
		return nil, fmt.Errorf("tensor %q: a convolution over %d tokens, 1 to %d are possible", w.Conv.Name, c.Kernel,
			chunkTokens)
	}
	l := &delta{
		c: c, mixed: w.Mixed.(*weight), gate: w.Gate.(*weight), beta: w.Beta.(*weight), alpha: w.Alpha.(*weight),
		queryGains: make([]float32, c.KeySize), keyGains: make([]float32, c.KeySize),
	}
	for i := range c.KeySize {
		l.queryGains[i], l.keyGains[i] = 1/float32(c.KeySize), float32(1/math.Sqrt(float64(c.KeySize)))
	}
	for _, v := range []struct {
		to   *[]float32
		from gguf.Tensor
	}{{&l.a, w.A}, {&l.step, w.Step}, {&l.norm, w.Norm}} {
		var err error
		if *v.to, err = loadVector(v.from); err != nil {
			return nil, err
		}
	}
	taps := make([]float32, c.Kernel*c.Channels())
	w.Conv.Type.Dequantize(taps, w.Conv.Data)
	for head := range c.KeyHeads {
		l.taps = append(l.taps, headTaps(taps, c, head))
	}
	for i := range 2*c.KeyHeads + 1 {
		l.heads = append(l.heads, i*c.KeySize)
	}
	for i := range c.ValueHeads + 1 {
		l.valueHeads = append(l.valueHeads, i*c.ValueSize)
	}
	for _, at := range l.valueHeads[1:] {
		l.heads = append(l.heads, 2*c.KeyHeads*c.KeySize+at)
	}
	return l, nil
}

// headTaps returns the taps of the channels of a key head, [Kernel, channels of the head], of all taps [channels,
// Kernel].
func headTaps(taps []float32, c backend.DeltaConfig, head int) []float32 {
	runs := appendRuns(nil, c, head)
	width := runs[len(runs)-1].first + c.ValueSize
	own := make([]float32, c.Kernel*width)
	for _, r := range runs {
		for i := range r.n {
			for tap := range c.Kernel {
				own[tap*width+r.first+i] = taps[(r.channel+i)*c.Kernel+tap]
			}
		}
	}
	return own
}

// deltaRows holds what the matrices of a layer give for the rows of a pass. Of many rows it has mixed and gate head
// after head, each [T, head], so that a worker reads the rows of its heads sequentially.
type deltaRows struct {
	mixed, gate, beta, alpha tensor
	byHead                   bool
}

// head returns the elements of mixed or gate of a head, n from first on, in a row.
func (r *deltaRows) head(t *tensor, row, first, n int) []float32 {
	if r.byHead {
		return t.f[first*t.rows+row*n:][:n]
	}
	return t.row(row)[first:][:n]
}

func (t *tensor) resize(rows, cols int) *tensor {
	t.rows, t.cols, t.f = rows, cols, resizeSlice(t.f, rows*cols)
	return t
}

// Delta implements [backend.Pass]. The key heads are divided among the workers: each computes all tokens of the
// pass, one after the other, for the value heads of a key head.
func (p *pass) Delta(a, x backend.Tensor, g backend.Norm, d backend.Delta, layer int) {
	if p.err != nil {
		return
	}
	l, out, in, n := d.(*delta), a.(*tensor), &p.d.delta, len(p.rows)
	out.rounded = false
	mixed := projection{out: in.mixed.resize(n, l.c.Channels()), w: l.mixed}
	gate := projection{out: in.gate.resize(n, l.c.ValueWidth()), w: l.gate}
	if in.byHead = n > longTokens; in.byHead {
		mixed.heads, gate.heads = l.heads, l.valueHeads
	}
	p.projectNormalised(x.(*tensor), g.(*norm), mixed, gate,
		projection{out: in.beta.resize(n, l.c.ValueHeads), w: l.beta},
		projection{out: in.alpha.resize(n, l.c.ValueHeads), w: l.alpha})
	p.loop(pool.Loop{N: l.c.KeyHeads, Do: func(worker, lo, hi int) {
		ws := &p.d.workers[worker].delta
		ws.resize(l.c)
		for head := lo; head < hi; head++ {
			w := newDeltaHead(ws, l, layer, head, p.d.ops.delta)
			w.in = in
			for i := range p.steps {
				w.compute(&p.steps[i], out)
			}
		}
	}})
}

// deltaSpace is the memory of a worker, for a key head and the rows of a step.
type deltaSpace struct {
	runs            []channelRun
	width           int       // channels of the head
	inputs          []float32 // [Kernel-1+chunk, width] of the convolution: tokens before the rows, then these
	mixed           []float32 // [chunk, width] its results
	ones            []float32 // [width]
	vectors         []float32 // [chunk, 2, KeySize] keys and queries
	scores          []float32 // [chunk, 2, chunk] their products with the keys of the chunk
	products        []float32 // [chunk, 2, ValueSize] and with the state of a value head
	weights, scaled []float32 // of the rule
	since           []float32 // [chunk+1] the decay since each token of the chunk; one more for its computation
	o               []float32 // [ValueSize]
}

// spareRows is how many rows after the last ones the products of two may write.
const spareRows = vector.Queries - 2

func (ws *deltaSpace) resize(c backend.DeltaConfig) {
	const rows = 2*chunkTokens + spareRows
	ws.width = 2*c.KeySize + c.ValueHeads/c.KeyHeads*c.ValueSize
	ws.inputs = resizeSlice(ws.inputs, (c.Kernel-1+chunkTokens)*ws.width)
	ws.mixed = resizeSlice(ws.mixed, chunkTokens*ws.width)
	ws.ones = resizeSlice(ws.ones, ws.width)
	for i := range ws.ones {
		ws.ones[i] = 1
	}
	ws.vectors, ws.scores = resizeSlice(ws.vectors, rows*c.KeySize), resizeSlice(ws.scores, rows*chunkTokens)
	ws.products = resizeSlice(ws.products, rows*c.ValueSize)
	ws.weights, ws.scaled = resizeSlice(ws.weights, chunkTokens+1), resizeSlice(ws.scaled, chunkTokens*c.ValueSize)
	ws.since, ws.o = resizeSlice(ws.since, chunkTokens+1), resizeSlice(ws.o, c.ValueSize)
}

// channelRun is a run of channels of a key head: n from the given one of the layer on, and from first on of the head.
type channelRun struct{ channel, first, n int }

// appendRuns appends the runs of channels of a key head: a query, a key, and the values of its value heads.
func appendRuns(runs []channelRun, c backend.DeltaConfig, head int) []channelRun {
	runs = append(runs, channelRun{head * c.KeySize, 0, c.KeySize},
		channelRun{(c.KeyHeads + head) * c.KeySize, c.KeySize, c.KeySize})
	for at := 2 * c.KeySize; head < c.ValueHeads; head += c.KeyHeads {
		runs = append(runs, channelRun{2*c.KeyHeads*c.KeySize + head*c.ValueSize, at, c.ValueSize})
		at += c.ValueSize
	}
	return runs
}

// deltaHead is the work for one key head, and its value heads, in a step.
type deltaHead struct {
	*deltaSpace
	l           *delta
	in          *deltaRows
	s           *deltaStep
	rule        deltaRule
	layer, head int
	elements    deltaElements
}

// deltaElements says where, in an update, the elements of a layer begin: the inputs of the convolution, the key of the
// head, and the errors of all value heads.
type deltaElements struct{ inputs, key, errors int }

func newDeltaHead(ws *deltaSpace, l *delta, layer, head int, rule deltaRule) *deltaHead {
	ws.runs = appendRuns(ws.runs[:0], l.c, head)
	at := layer * l.c.UpdateSize()
	keys := at + l.c.Channels()
	e := deltaElements{at, keys + head*l.c.KeySize, keys + l.c.KeyHeads*l.c.KeySize}
	return &deltaHead{deltaSpace: ws, l: l, rule: rule, layer: layer, head: head, elements: e}
}

// compute runs a step.
func (w *deltaHead) compute(s *deltaStep, out *tensor) {
	w.s = s
	w.loadWindow()
	if s.into != nil {
		w.addChunk()
		return
	}
	w.convolve()
	w.setVectors()
	w.rule.products(w.scores, w.vectors, w.keys(), len(s.updates), chunkTokens)
	for i, head := 0, w.head; head < w.l.c.ValueHeads; i, head = i+1, head+w.l.c.KeyHeads {
		w.computeHead(head, w.runs[2+i].first, out)
	}
}

func (w *deltaHead) window() *window { return &w.s.states.windows[w.layer] }

// keys returns the window's keys of the head, [KeySize, chunk].
func (w *deltaHead) keys() []float32 {
	n := w.l.c.KeySize * chunkTokens
	return w.window().keys[w.head*n:][:n]
}

// errors returns the window's errors of a value head, [chunk, ValueSize].
func (w *deltaHead) errors(head int) []float32 {
	n := w.l.c.ValueSize * chunkTokens
	return w.window().errors[head*n:][:n]
}

// decays returns the window's decays of a value head, [chunk], as logarithms.
func (w *deltaHead) decays(head int) []float32 {
	return w.window().decays[head*chunkTokens:][:chunkTokens]
}

// state returns the state of a value head in a checkpoint, nil if there is none: it is zero.
func (w *deltaHead) state(p *checkpoint, head int) []float32 {
	if p == nil {
		return nil
	}
	n := w.l.c.KeySize * w.l.c.ValueSize
	return p.states[w.layer*w.l.c.StateSize()+head*n:][:n]
}

// loadWindow puts the updates that the step needs, and the window has not, into it.
func (w *deltaHead) loadWindow() {
	for i, u := range w.s.load {
		at, k := w.s.kept+i, w.vectors[:w.l.c.KeySize]
		u.elements.load(k, w.elements.key)
		w.setKey(at, k)
		for head := w.head; head < w.l.c.ValueHeads; head += w.l.c.KeyHeads {
			size := w.l.c.ValueSize
			u.elements.load(w.errors(head)[at*size:][:size], w.elements.errors+head*size)
			w.decays(head)[at] = u.decays[w.layer*w.l.c.ValueHeads+head]
		}
	}
}

// setKey sets the key of a token of the window.
func (w *deltaHead) setKey(at int, k []float32) {
	keys := w.keys()
	for i, v := range k {
		keys[i*chunkTokens+at] = v
	}
}

// convolve sets w.mixed to silu of the convolution, and stores its inputs in the updates.
func (w *deltaHead) convolve() {
	n, before := w.width, w.l.c.Kernel-1
	for i, from := range w.s.inputs {
		w.loadInputs(w.inputs[i*n:][:n], from)
	}
	for t := range w.s.updates {
		for _, r := range w.runs {
			copy(w.inputs[(before+t)*n+r.first:][:r.n], w.in.head(&w.in.mixed, w.s.row+t, r.channel, r.n))
		}
	}
	for t, u := range w.s.updates {
		own, mixed := w.inputs[(before+t)*n:][:n], w.mixed[t*n:][:n]
		vector.ProductSum(mixed, w.l.taps[w.head], w.inputs[t*n:], n, n, w.l.c.Kernel)
		vector.SwiGLU(mixed, mixed, w.ones)
		for _, r := range w.runs {
			u.elements.store(w.elements.inputs+r.channel, own[r.first:][:r.n])
		}
	}
}

// loadInputs sets x [width] to a stored input of the convolution.
func (w *deltaHead) loadInputs(x []float32, from convInput) {
	if from.elements == nil {
		clear(x)
		return
	}
	for _, r := range w.runs {
		from.elements.load(x[r.first:][:r.n], w.layer*from.stride+from.first+r.channel)
	}
}

// setVectors sets the keys and queries of the rows, and stores the keys in updates and window.
func (w *deltaHead) setVectors() {
	size := w.l.c.KeySize
	eps := w.l.c.Epsilon / float32(size)
	for t, u := range w.s.updates {
		mixed, k, q := w.mixed[t*w.width:], w.vectors[2*t*size:][:size], w.vectors[(2*t+1)*size:][:size]
		vector.RMSNorm(q, mixed[:size], w.l.queryGains, eps)
		vector.RMSNorm(k, mixed[size:2*size], w.l.keyGains, eps)
		u.elements.store(w.elements.key, k)
		w.setKey(w.s.known()+t, k)
	}
}

// computeHead applies the rule to a value head, with the values from the given one of the head's channels on.
func (w *deltaHead) computeHead(head, values int, out *tensor) {
	c, state, errors, decays := w.l.c, w.state(w.s.base, head), w.errors(head), w.decays(head)
	w.rule.project(w.products, w.vectors, state, len(w.s.updates), c.ValueSize)
	for t, u := range w.s.updates {
		at, row := w.s.known()+t, w.s.row+t
		log := float64(w.l.a[head]) * softplus(float64(w.in.alpha.row(row)[head])+float64(w.l.step[head]))
		if at > 0 {
			log += float64(decays[at-1])
		}
		decays[at] = float32(log)
		u.decays[w.layer*c.ValueHeads+head] = decays[at]
		whole := w.rule.decay(w.since, decays[:at+1])
		sum := func(i, tokens int) deltaSum {
			return deltaSum{
				state: state, x: w.vectors[i*c.KeySize:][:c.KeySize],
				product: w.products[i*c.ValueSize:][:c.ValueSize], whole: whole,
				scores: w.scores[i*chunkTokens:][:tokens], since: w.since[:tokens], errors: errors,
				weights: w.weights,
			}
		}
		beta := 1 / (1 + math.Exp(-float64(w.in.beta.row(row)[head])))
		next := errors[at*c.ValueSize:][:c.ValueSize]
		w.rule.correct(next, w.mixed[t*w.width+values:][:c.ValueSize], beta, sum(2*t, at))
		u.elements.store(w.elements.errors+head*c.ValueSize, next)
		w.rule.read(w.o, sum(2*t+1, at+1))
		o := out.row(row)[head*c.ValueSize:][:c.ValueSize]
		vector.RMSNorm(o, w.o, w.l.norm, c.Epsilon)
		vector.SwiGLU(o, w.in.head(&w.in.gate, row, head*c.ValueSize, c.ValueSize), o)
	}
}

func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// addChunk adds the updates of a whole chunk to the states, and keeps the last inputs of the convolution.
func (w *deltaHead) addChunk() {
	c, into := w.l.c, w.s.into
	for head := w.head; head < c.ValueHeads; head += c.KeyHeads {
		whole := w.rule.decay(w.since, w.decays(head))
		w.rule.add(w.state(into, head), w.state(w.s.base, head), whole, w.keys(), w.errors(head), w.since, w.scaled)
	}
	for i, from := range w.s.inputs {
		x := w.inputs[:w.width]
		w.loadInputs(x, from)
		for _, r := range w.runs {
			into.inputs.store((w.layer*(c.Kernel-1)+i)*c.Channels()+r.channel, x[r.first:][:r.n])
		}
	}
}
