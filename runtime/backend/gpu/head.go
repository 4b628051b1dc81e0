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

func (h *head) givesNextToken() bool { return len(h.want.Rows) == 1 && (!h.onCPU || h.draw != nil) }

// Head implements [backend.Pass]: the output matrix in one level, the merge of its threadgroups' results in the next.
func (p *pass) Head(out []backend.Output, x backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) {
	if p.err != nil || len(want.Rows) == 0 {
		return
	}
	h := &head{out: out, x: x.(*tensor), g: g.(*norm), w: w.(*weight), want: want}
	checkWeightShape(nil, h.w, h.x)
	p.prepareNorm(h.x, h.g)
	groups := ceilDiv(h.w.rows, headRows)
	h.k, h.logits = min(want.K, h.w.rows), want.Logits
	if h.k > maxBest || groups > kernels.MergeLists {
		h.k, h.logits, h.onCPU = 1, true, true
	}
	if groups <= kernels.MergeLists {
		if h.draw = p.planDraw(want); h.draw != nil {
			h.k = min(max(h.k, h.draw.k), h.w.rows)
		}
	}
	if want.Router != nil {
		if h.router = want.Router.(*router); groups > kernels.MergeLists || h.router.dim != h.x.cols {
			p.recordError(fmt.Errorf("router: width %d and %d tokens: impossible for this model",
				h.router.dim, h.w.rows))
		}
		h.k = max(h.k, 2) // for the margin
	}
	h.stride = 2*h.k + 5
	s, n := &p.d.scratch, len(want.Rows)
	p.recordError(s.best.growTo(p.d, 8*n*groups*h.k))
	p.recordError(s.sums.growTo(p.d, 12*n*groups))
	p.recordError(p.frame.result.growTo(p.d, 4*n*h.stride))
	if h.router != nil {
		p.recordError(s.routed.growTo(p.d, 4*n*h.router.widths[0]))
	}
	if h.draw != nil && h.draw.rest {
		p.recordError(s.drawn.growTo(p.d, 12*groups))
	}
	if h.logits {
		p.recordError(p.frame.logits.growTo(p.d, 4*n*h.w.rows))
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
	p.beginLevel()
	args := kernels.MergeArgs{Groups: uint32(groups), K: uint32(h.k), Stride: uint32(h.stride)}
	h.router.setMergeArgs(&args)
	h.draw.setMergeArgs(&args)
	p.encodeDispatch(dispatch{
		pipeline: p.plainPipeline("merge"), groups: linearGrid(n), threads: kernels.MergeThreads,
		buffers: []binding{
			startOf(s.best), startOf(s.sums), startOf(s.routed), h.router.partBinding(2), startOf(p.frame.result),
			h.draw.drawnBinding(s),
		},
		args: argBytes(&args),
	})
}

func (p *pass) encodeHead(h *head, first, n int) {
	w, s := h.w, &p.d.scratch
	groups := ceilDiv(w.rows, headRows)
	args := kernels.HeadArgs{
		Rows: uint32(n), Outs: uint32(w.rows), Cols: uint32(w.cols),
		RowBytes: uint32(w.rowBytes), Bias: w.biasFlag(),
		GroupRows: headRows, SquareParts: uint32(p.parts), Eps: h.g.eps, K: uint32(h.k), Logits: boolToUint32(h.logits),
		Groups: uint32(groups),
	}
	routed := binding{}
	if r := h.router; r != nil { // threadgroups of its own take its first layer
		args.Router, args.RouterBytes = uint32(r.widths[0]), uint32(r.rowBytes)
		args.RouterRows, args.RouterGroups = routerRows, uint32(ceilDiv(r.widths[0], routerRows))
		routed = binding{s.routed.Buffer, 4 * first * r.widths[0]}
	}
	for i, t := range h.want.Rows[first : first+n] {
		args.Row[i] = uint32(t)
	}
	h.draw.setHeadArgs(&args)
	plan := p.planNarrow("head", w, n, divideHead(w.cols), 0)
	args.Parts, args.Share, args.Abreast, args.Chunk = plan.columnArgs()
	logits := binding{}
	if h.logits {
		logits = binding{p.frame.logits.Buffer, 4 * first * w.rows}
	}
	p.encodeDispatch(dispatch{
		pipeline: plan.pipeline, groups: linearGrid(groups + int(args.RouterGroups)), threads: plan.threads,
		buffers: []binding{
			w.matrixBinding(), w.biasBinding(), startOf(h.x.normed), startOf(h.x.squares),
			{s.best.Buffer, 8 * first * groups * h.k}, {s.sums.Buffer, 12 * first * groups}, logits,
			h.router.partBinding(0), h.router.partBinding(1), routed, h.draw.drawnBinding(s),
		},
		args: argBytes(&args), memory: plan.memory, weights: []*weight{w},
	})
}

func (h *head) readResults(p *pass) {
	for i, t := range h.want.Rows {
		o := &h.out[i]
		var logits []float32
		if h.logits {
			logits = sliceAs[float32](p.frame.logits.Bytes())[i*h.w.rows : (i+1)*h.w.rows]
		}
		o.Logits, o.Hidden = o.Logits[:0], o.Hidden[:0] // also those that are not wanted
		if h.want.Logits {
			o.Logits = append(o.Logits, logits...)
		}
		if h.want.Hidden {
			row := sliceAs[float32](h.x.values.Bytes())[t*h.x.cols : (t+1)*h.x.cols]
			o.Hidden = h.g.normalizeRow(o.Hidden, row)
		}
		if h.router != nil {
			o.Confidence = clampConfidence(sliceAs[float32](p.frame.result.Bytes())[i*h.stride+2*h.k+4])
		}
		if h.onCPU {
			summarizeLogits(o, logits, h.want.K)
			if o.Next = o.Top[0].ID; h.draw != nil {
				o.Next = int32(sliceAs[uint32](p.frame.result.Bytes())[0])
			}
			continue
		}
		result := sliceAs[uint32](p.frame.result.Bytes())[i*h.stride : (i+1)*h.stride]
		o.Next, result = int32(result[0]), result[1:]
		o.Top = o.Top[:0]
		for j := range min(h.k, h.want.K, h.w.rows) {
			o.Top = append(o.Top, backend.Candidate{ID: int32(result[2*j]), Logit: math.Float32frombits(result[2*j+1])})
		}
		sums := sliceAs[float32](p.frame.result.Bytes())[i*h.stride+2*h.k+1:]
		setSums(o, float64(sums[0]), float64(sums[1]), float64(sums[2]))
	}
}

// setSums sets log-sum-exp and entropy from the largest logit m, S = Σ e and T = Σ e·(l - m) for e = exp(l - m):
// LogSumExp = m + ln S and Entropy = ln S - T/S.
func setSums(o *backend.Output, m, sum, moment float64) {
	o.LogSumExp = float32(m + math.Log(sum))
	o.Entropy = float32(max(0, math.Log(sum)-moment/sum))
}

func summarizeLogits(o *backend.Output, logits []float32, k int) {
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

// normalizeRow sets to, which it grows, to x/rms(x) ⊙ g.
func (n *norm) normalizeRow(to, x []float32) []float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	r := 1 / math.Sqrt(sum/float64(len(x))+float64(n.eps))
	to = to[:0]
	for i, g := range sliceAs[float32](n.gains.Bytes())[:n.n] {
		to = append(to, float32(float64(x[i])*r*float64(g)))
	}
	return to
}
