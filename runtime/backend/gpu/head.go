package gpu

import (
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// maxBest is the maximum number of best tokens that the kernels find. If more are wanted, the CPU finds them among all
// logits.
const maxBest = 64

// headRows is the number of weight rows that a threadgroup of the head takes: each threadgroup stores its best tokens,
// which are merged. routerRows is the number of rows of a router's first layer: its threadgroups begin first, and fetch
// less than those of the head.
const (
	headRows   = maxRows
	routerRows = 32
)

// head is a call of Head with results that are still to be read.
type head struct {
	out    []backend.Output
	x      *tensor
	g      *norm
	w      *weight
	want   backend.Want
	k      int  // number of best tokens that the kernels find
	logits bool // all logits are stored
	onCPU  bool // the CPU computes best tokens and sums from the logits
	stride int  // words of a result
	router *router
	draw   *draw // nil: the best token is handed on
}

// handsOn reports whether the device finds the token for the next pass.
func (h *head) handsOn() bool { return len(h.want.Rows) == 1 && (!h.onCPU || h.draw != nil) }

// Head implements [backend.Pass]: the output matrix in one level, the merge of its threadgroups' results in the next.
func (p *pass) Head(out []backend.Output, x backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) {
	if p.err != nil || len(want.Rows) == 0 {
		return
	}
	h := &head{out: out, x: x.(*tensor), g: g.(*norm), w: w.(*weight), want: want}
	fit(nil, h.w, h.x)
	p.prepare(h.x, h.g)
	groups := ceil(h.w.rows, headRows)
	h.k, h.logits = min(want.K, h.w.rows), want.Logits
	if h.k > maxBest || groups > kernels.MergeLists {
		h.k, h.logits, h.onCPU = 1, true, true
	}
	if groups <= kernels.MergeLists {
		if h.draw = p.drawOf(want); h.draw != nil {
			h.k = min(max(h.k, h.draw.k), h.w.rows)
		}
	}
	if want.Router != nil {
		if h.router = want.Router.(*router); groups > kernels.MergeLists || h.router.dim != h.x.cols {
			p.fail(fmt.Errorf("router: width %d and %d tokens: impossible for this model", h.router.dim, h.w.rows))
		}
		h.k = max(h.k, 2) // for the margin
	}
	h.stride = 2*h.k + 5
	s, n := &p.d.scratch, len(want.Rows)
	p.fail(s.best.grow(p.d, 8*n*groups*h.k))
	p.fail(s.sums.grow(p.d, 12*n*groups))
	p.fail(p.frame.result.grow(p.d, 4*n*h.stride))
	if h.router != nil {
		p.fail(s.routed.grow(p.d, 4*n*h.router.widths[0]))
	}
	if h.draw != nil && h.draw.rest {
		p.fail(s.drawn.grow(p.d, 12*groups))
	}
	if h.logits {
		p.fail(p.frame.logits.grow(p.d, 4*n*h.w.rows))
	}
	if p.err != nil {
		return
	}
	for first := 0; first < n; first += maxNarrow {
		p.encodeHead(h, first, min(n-first, maxNarrow))
	}
	p.head = h
	if h.onCPU && h.router == nil && h.draw == nil {
		return
	}
	p.level()
	args := kernels.MergeArgs{Groups: uint32(groups), K: uint32(h.k), Stride: uint32(h.stride)}
	h.router.merge(&args)
	h.draw.merge(&args)
	p.run(dispatch{
		pipeline: p.plain("merge"), groups: line(n), threads: kernels.MergeThreads,
		buffers: []bound{
			of(s.best), of(s.sums), of(s.routed), h.router.bound(2), of(p.frame.result), h.draw.bound(s),
		},
		args: raw(&args),
	})
}

// encodeHead encodes the output matrix for n wanted rows.
func (p *pass) encodeHead(h *head, first, n int) {
	w, s := h.w, &p.d.scratch
	groups := ceil(w.rows, headRows)
	args := kernels.HeadArgs{
		Rows: uint32(n), Outs: uint32(w.rows), Cols: uint32(w.cols),
		RowBytes: uint32(w.rowBytes), Bias: w.hasBias(),
		GroupRows: headRows, SquareParts: uint32(p.parts), Eps: h.g.eps, K: uint32(h.k), Logits: flag(h.logits),
		Groups: uint32(groups),
	}
	routed := bound{}
	if r := h.router; r != nil { // threadgroups of its own take its first layer
		args.Router, args.RouterBytes = uint32(r.widths[0]), uint32(r.rowBytes)
		args.RouterRows, args.RouterGroups = routerRows, uint32(ceil(r.widths[0], routerRows))
		routed = bound{s.routed.Buffer, 4 * first * r.widths[0]}
	}
	for i, t := range h.want.Rows[first : first+n] {
		args.Row[i] = uint32(t)
	}
	h.draw.head(&args)
	plan := p.narrow("head", w, n, divideHead(w.cols), 0)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columns()
	logits := bound{}
	if h.logits {
		logits = bound{p.frame.logits.Buffer, 4 * first * w.rows}
	}
	p.run(dispatch{
		pipeline: plan.pipeline, groups: line(groups + int(args.RouterGroups)), threads: plan.threads,
		buffers: []bound{
			w.matrix(), w.biases(), of(h.x.normed), of(h.x.squares),
			{s.best.Buffer, 8 * first * groups * h.k}, {s.sums.Buffer, 12 * first * groups}, logits,
			h.router.bound(0), h.router.bound(1), routed, h.draw.bound(s),
		},
		args: raw(&args), memory: plan.memory, weights: []*weight{w},
	})
}

func (h *head) read(p *pass) {
	for i, t := range h.want.Rows {
		o := &h.out[i]
		var logits []float32
		if h.logits {
			logits = words[float32](p.frame.logits.Bytes())[i*h.w.rows : (i+1)*h.w.rows]
		}
		o.Logits, o.Hidden = o.Logits[:0], o.Hidden[:0] // also those that are not wanted
		if h.want.Logits {
			o.Logits = append(o.Logits, logits...)
		}
		if h.want.Hidden {
			row := words[float32](h.x.values.Bytes())[t*h.x.cols : (t+1)*h.x.cols]
			o.Hidden = h.g.apply(o.Hidden, row)
		}
		if h.router != nil {
			o.Confidence = confidence(words[float32](p.frame.result.Bytes())[i*h.stride+2*h.k+4])
		}
		if h.onCPU {
			fromLogits(o, logits, h.want.K)
			if o.Next = o.Top[0].ID; h.draw != nil {
				o.Next = int32(words[uint32](p.frame.result.Bytes())[0])
			}
			continue
		}
		result := words[uint32](p.frame.result.Bytes())[i*h.stride : (i+1)*h.stride]
		o.Next, result = int32(result[0]), result[1:]
		o.Top = o.Top[:0]
		for j := range min(h.k, h.want.K, h.w.rows) {
			o.Top = append(o.Top, backend.Candidate{ID: int32(result[2*j]), Logit: math.Float32frombits(result[2*j+1])})
		}
		sums := words[float32](p.frame.result.Bytes())[i*h.stride+2*h.k+1:]
		setSums(o, float64(sums[0]), float64(sums[1]), float64(sums[2]))
	}
}

// setSums sets log-sum-exp and entropy from the largest logit m, S = Σ e and T = Σ e·(l - m) for e = exp(l - m):
// LogSumExp = m + ln S and Entropy = ln S - T/S.
func setSums(o *backend.Output, m, sum, moment float64) {
	o.LogSumExp = float32(m + math.Log(sum))
	o.Entropy = float32(max(0, math.Log(sum)-moment/sum))
}

// fromLogits finds the k best and the sums among all logits.
func fromLogits(o *backend.Output, logits []float32, k int) {
	o.Top = o.Top[:0]
	m, sum, moment := math.Inf(-1), 0.0, 0.0
	for i, l := range logits {
		m = max(m, float64(l))
		if len(o.Top) == k && !(l > o.Top[k-1].Logit) {
			continue
		}
		if len(o.Top) < k {
			o.Top = append(o.Top, backend.Candidate{})
		}
		j := len(o.Top) - 1
		for ; j > 0 && l > o.Top[j-1].Logit; j-- {
			o.Top[j] = o.Top[j-1]
		}
		o.Top[j] = backend.Candidate{ID: int32(i), Logit: l}
	}
	for _, l := range logits {
		e := math.Exp(float64(l) - m)
		sum += e
		moment += e * (float64(l) - m)
	}
	setSums(o, m, sum, moment)
}

// apply sets to, which it grows, to x/rms(x) ⊙ g.
func (n *norm) apply(to, x []float32) []float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	r := 1 / math.Sqrt(sum/float64(len(x))+float64(n.eps))
	to = to[:0]
	for i, g := range words[float32](n.gains.Bytes())[:n.n] {
		to = append(to, float32(float64(x[i])*r*float64(g)))
	}
	return to
}
