package host

import (
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

const chunkTokens = backend.DeltaChunk

var _ backend.DeltaKV = (*kv)(nil)

// delta is a layer with a recurrent state.
type delta struct {
	c                        backend.DeltaConfig
	mixed, gate, beta, alpha *weight
	taps                     [][]float32 // [Kernel][channels], that of the current token last
	a, step                  []float32   // [value heads]
	norm                     []float32   // [ValueSize]
	queryGains, keyGains     []float32   // [KeySize] with which an RMSNorm is the norm of queries and keys
}

func (d *delta) Config() backend.DeltaConfig { return d.c }

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
	l.taps = make([][]float32, c.Kernel)
	for tap := range l.taps {
		l.taps[tap] = make([]float32, c.Channels())
		for i := range l.taps[tap] {
			l.taps[tap][i] = taps[i*c.Kernel+tap]
		}
	}
	return l, nil
}

// deltaRows holds what the matrices of a layer give for the rows of a pass.
type deltaRows struct{ mixed, gate, beta, alpha tensor }

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
	p.projectNormalised(x.(*tensor), g.(*norm),
		projection{in.mixed.resize(n, l.c.Channels()), l.mixed},
		projection{in.gate.resize(n, l.c.ValueWidth()), l.gate},
		projection{in.beta.resize(n, l.c.ValueHeads), l.beta},
		projection{in.alpha.resize(n, l.c.ValueHeads), l.alpha})
	p.d.pool.Run(l.c.KeyHeads, 1, func(worker, lo, hi int) {
		ws := &p.d.workers[worker].delta
		ws.resize(l.c)
		for head := lo; head < hi; head++ {
			for i := range p.steps {
				s := &p.steps[i]
				w := deltaHead{deltaSpace: ws, l: l, in: in, s: s, layer: layer, head: head, rule: p.d.ops.delta}
				w.loadWindow()
				if s.into != nil {
					w.addChunk()
				} else {
					w.computeRow(out.row(s.row), g.(*norm).eps)
				}
			}
		}
	})
}

// deltaSpace is the memory of a worker.
type deltaSpace struct {
	mixed            []float32 // the channels of a head before they are summed, of one token
	ones             []float32
	q, k, v          []float32
	qScores, kScores []float32 // [chunk] products with the keys of the chunk
	sums             deltaSums
}

// deltaSums are results for a value head, [ValueSize] each.
type deltaSums struct{ fromState, fromChunk, o []float32 }

func (ws *deltaSpace) resize(c backend.DeltaConfig) {
	most := max(c.KeySize, c.ValueSize)
	if len(ws.mixed) == most && len(ws.v) == c.ValueSize && len(ws.k) == c.KeySize {
		return
	}
	ws.mixed, ws.ones = make([]float32, most), make([]float32, most)
	for i := range ws.ones {
		ws.ones[i] = 1
	}
	ws.q, ws.k, ws.v = make([]float32, c.KeySize), make([]float32, c.KeySize), make([]float32, c.ValueSize)
	ws.qScores, ws.kScores = make([]float32, chunkTokens), make([]float32, chunkTokens)
	ws.sums = deltaSums{make([]float32, c.ValueSize), make([]float32, c.ValueSize), make([]float32, c.ValueSize)}
}

// deltaHead is the work for one key head, and its value heads, in a step.
type deltaHead struct {
	*deltaSpace
	l           *delta
	in          *deltaRows
	s           *deltaStep
	rule        deltaRule
	layer, head int
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

// firstElement returns where, in an update, the elements of the layer begin.
func (w *deltaHead) firstElement() int { return w.layer * w.l.c.UpdateSize() }

func (w *deltaHead) keyElement() int {
	return w.firstElement() + w.l.c.Channels() + w.head*w.l.c.KeySize
}

func (w *deltaHead) errorElement(head int) int {
	return w.firstElement() + w.l.c.Channels() + w.l.c.KeyHeads*w.l.c.KeySize + head*w.l.c.ValueSize
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
		at := w.s.kept + i
		u.elements.load(w.k, w.keyElement())
		w.setKey(at)
		for head := w.head; head < w.l.c.ValueHeads; head += w.l.c.KeyHeads {
			u.elements.load(w.errors(head)[at*w.l.c.ValueSize:][:w.l.c.ValueSize], w.errorElement(head))
			w.decays(head)[at] = u.decays[w.layer*w.l.c.ValueHeads+head]
		}
	}
}

// setKey sets the key of a token of the window to k.
func (w *deltaHead) setKey(at int) {
	keys := w.keys()
	for i, v := range w.k {
		keys[i*chunkTokens+at] = v
	}
}

// computeRow computes the update of a token, and its output.
func (w *deltaHead) computeRow(out []float32, eps float32) {
	c, u, at := w.l.c, w.s.update, w.s.kept+len(w.s.load)
	w.convolve(w.q, w.head*c.KeySize)
	w.convolve(w.k, (c.KeyHeads+w.head)*c.KeySize)
	vector.RMSNorm(w.q, w.q, w.l.queryGains, eps/float32(c.KeySize))
	vector.RMSNorm(w.k, w.k, w.l.keyGains, eps/float32(c.KeySize))
	u.elements.store(w.keyElement(), w.k)
	u.elements.load(w.k, w.keyElement())
	w.setKey(at)
	w.rule.scores(w.qScores, w.q, w.keys())
	w.rule.scores(w.kScores, w.k, w.keys())
	for head := w.head; head < c.ValueHeads; head += c.KeyHeads {
		w.convolve(w.v, 2*c.KeyHeads*c.KeySize+head*c.ValueSize)
		w.computeHead(head, at)
		o := out[head*c.ValueSize:][:c.ValueSize]
		vector.RMSNorm(o, w.sums.o, w.l.norm, eps)
		vector.SwiGLU(o, w.in.gate.row(w.s.row)[head*c.ValueSize:][:c.ValueSize], o)
	}
}

// convolve sets dst to silu of the convolution of some channels, and stores their input in the update.
func (w *deltaHead) convolve(dst []float32, channel int) {
	c, n := w.l.c, len(dst)
	own, sum := w.in.mixed.row(w.s.row)[channel:][:n], w.mixed[:n]
	clear(sum)
	for tap, from := range w.s.inputs {
		if from.elements == nil { // before the beginning of the text
			continue
		}
		from.elements.load(dst, w.layer*from.stride+from.first+channel)
		addProducts(sum, w.l.taps[tap][channel:][:n], dst)
	}
	addProducts(sum, w.l.taps[c.Kernel-1][channel:][:n], own)
	w.s.update.elements.store(w.firstElement()+channel, own)
	vector.SwiGLU(dst, sum, w.ones[:n])
}

func addProducts(sum, a, b []float32) {
	a, b = a[:len(sum)], b[:len(sum)]
	for i := range sum {
		sum[i] += float32(a[i] * b[i])
	}
}

// computeHead applies the rule to a value head: w.sums.o is its output.
func (w *deltaHead) computeHead(head, at int) {
	c, u, decays := w.l.c, w.s.update, w.decays(head)
	beta := 1 / (1 + math.Exp(-float64(w.in.beta.row(w.s.row)[head])))
	log := float64(w.l.a[head]) * softplus(float64(w.in.alpha.row(w.s.row)[head])+float64(w.l.step[head]))
	if at > 0 {
		log += float64(decays[at-1])
	}
	decays[at] = float32(log)
	u.decays[w.layer*c.ValueHeads+head] = decays[at]
	var since [chunkTokens]float32 // the decay since each token of the chunk
	for i := range at + 1 {
		since[i] = float32(math.Exp(float64(decays[at]) - float64(decays[i])))
	}
	state, errors := w.state(w.s.base, head), w.errors(head)
	whole := float32(math.Exp(float64(decays[at])))
	w.rule.mix(w.sums, state, w.k, whole, errors, w.kScores[:at], since[:at])
	next := errors[at*c.ValueSize:][:c.ValueSize]
	for i, v := range w.v {
		next[i] = float32(beta * (float64(v) - float64(w.sums.o[i])))
	}
	u.elements.store(w.errorElement(head), next)
	u.elements.load(next, w.errorElement(head))
	w.rule.mix(w.sums, state, w.q, whole, errors, w.qScores[:at+1], since[:at+1])
}

func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// addChunk adds the updates of a whole chunk to the states, and keeps the last inputs of the convolution.
func (w *deltaHead) addChunk() {
	c, from := w.l.c, w.s.inputs
	for head := w.head; head < c.ValueHeads; head += c.KeyHeads {
		decays := w.decays(head)
		var since [chunkTokens]float32
		for i := range since {
			since[i] = float32(math.Exp(float64(decays[chunkTokens-1]) - float64(decays[i])))
		}
		whole := float32(math.Exp(float64(decays[chunkTokens-1])))
		w.rule.add(w.state(w.s.into, head), w.state(w.s.base, head), whole, w.keys(), w.errors(head), since[:])
	}
	for i, in := range from {
		at := (w.layer*(c.Kernel-1) + i) * c.Channels()
		w.eachChannels(func(part []float32, channel int) {
			in.elements.load(part, w.layer*in.stride+in.first+channel)
			w.s.into.inputs.store(at+channel, part)
		})
	}
}

// eachChannels calls f with memory for each run of channels of the head.
func (w *deltaHead) eachChannels(f func(part []float32, channel int)) {
	c := w.l.c
	f(w.mixed[:c.KeySize], w.head*c.KeySize)
	f(w.mixed[:c.KeySize], (c.KeyHeads+w.head)*c.KeySize)
	for head := w.head; head < c.ValueHeads; head += c.KeyHeads {
		f(w.mixed[:c.ValueSize], 2*c.KeyHeads*c.KeySize+head*c.ValueSize)
	}
}
