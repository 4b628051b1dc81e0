package host

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// splitSlots is the number of slots in one KV split of what a token sees. Each split has its own softmax, and the
// splits are joined in order at the end (online softmax; Milakov and Gimelshein 2018, Dao et al. 2022). The number is
// fixed, and a split counts visible slots and not all slots, so that a result depends neither on the place of the slots
// nor on the number of workers.
const splitSlots = 256

// scoreStride is the length of a query's scores: keys are computed in whole blocks, which may begin before the visible
// slots and end after them.
const scoreStride = splitSlots + 2*vector.KeyBlock

func (p *pass) Attend(a, q, k, v backend.Tensor, gq, gk backend.Norm, layer int) {
	if p.err != nil {
		return
	}
	out, qs, ks, vs := a.(*tensor), q.(*tensor), k.(*tensor), v.(*tensor)
	out.rounded = false
	p.eachRow(func(t int) {
		q := qs.row(t)
		if p.kv.c.Gated {
			q = splitGates(q, out.row(t), p.kv.c.HeadSize)
		}
		p.normHeads(q, gq)
		p.normHeads(ks.row(t), gk)
		p.rotateHeads(t, q)
		p.rotateHeads(t, ks.row(t))
		p.kvLayer(t, layer).storeRow(p.rows[t].Slot, ks.row(t), vs.row(t))
	})
	switch {
	case p.d.exact:
		p.attendExact(out, qs, layer)
	case len(p.rows) < fewTokens:
		p.attendFew(out, qs, layer)
	default:
		p.attendMany(out, qs, layer)
	}
	if p.kv.c.Gated {
		p.eachRow(func(t int) { p.d.ops.gate(out.row(t), out.row(t), qs.row(t)[out.cols:]) })
	}
}

// splitGates moves the gates of a row [H, 2, Dh] to its end, [2, H, Dh], and returns the queries. It uses buffer
// [H, Dh].
func splitGates(q, buffer []float32, size int) []float32 {
	heads := len(buffer) / size
	for h := range heads {
		copy(buffer[h*size:(h+1)*size], q[2*h*size:])
	}
	for h := heads - 1; h >= 0; h-- {
		copy(q[(heads+h)*size:(heads+h+1)*size], q[(2*h+1)*size:])
	}
	return q[:copy(q, buffer)]
}

func (p *pass) kvLayer(t, layer int) layer {
	if store := p.rows[t].KV; store != nil {
		return store.(*kv).layers[layer]
	}
	return p.kv.layers[layer]
}

// attendMany divides the groups of all tokens among the workers.
func (p *pass) attendMany(out, qs *tensor, layer int) {
	groups, size := p.kv.groups, p.kv.c.HeadSize
	runs := p.groupRows(vector.Queries / groups[0].n)
	p.loop(pool.Loop{N: len(runs) * len(groups), Grain: 4, Do: func(worker, lo, hi int) {
		ws := &p.d.workers[worker].attention
		for u := lo; u < hi; u++ {
			r, m := runs[u/len(groups)], groups[u%len(groups)]
			see := p.rows[r.first+r.n-1].See
			n := splitCount(backend.CountVisible(see))
			ws.sums.resizeSplits(n, size)
			for i := range r.n {
				ws.setQueries(qs.row(r.first+i), m, i, size)
			}
			for i := range n {
				ws.attendSplit(ws.sums.splitRange(i, 1), p.kvLayer(r.first, layer), m, r.n, see, i)
			}
			for i := range r.n {
				seen := splitCount(backend.CountVisible(p.rows[r.first+i].See))
				ws.joinSplits(out.row(r.first+i), ws.sums.splitRange(0, seen), m, i)
			}
		}
	}})
}

// rowRun holds rows of a pass that attention computes together.
type rowRun struct{ first, n int }

// groupRows divides the rows of the pass, in order, into runs of up to most rows that [seesOneMore] allows.
func (p *pass) groupRows(most int) []rowRun {
	all := p.d.runs[:0]
	for t, r := range p.rows {
		if last := len(all) - 1; t > 0 && all[last].n < most && seesOneMore(r, p.rows[t-1]) {
			all[last].n++
		} else {
			all = append(all, rowRun{t, 1})
		}
	}
	p.d.runs = all
	return all
}

// seesOneMore reports whether r sees, in the same store, what the row before it sees, and one slot after that.
func seesOneMore(r, before backend.Row) bool {
	last := len(r.See) - 1
	return last >= 0 && last == len(before.See)-1 && r.KV == before.KV &&
		slices.Equal(r.See[:last], before.See[:last]) && r.See[last].From == before.See[last].From &&
		r.See[last].To == before.See[last].To+1
}

// attendFew divides the KV splits of a few tokens among the workers.
func (p *pass) attendFew(out, qs *tensor, layer int) {
	groups, most := p.kv.groups, 0
	for _, r := range p.rows {
		most = max(most, splitCount(backend.CountVisible(r.See)))
	}
	all := &p.d.sums
	p.Then(func() { all.resizeSplits(len(p.rows)*len(groups)*most, p.kv.c.HeadSize) })
	p.loop(pool.Loop{N: len(p.rows) * len(groups) * most, Do: func(worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			u := i / most
			if t, number := u/len(groups), i%most; number < splitCount(backend.CountVisible(p.rows[t].See)) {
				ws, m := &p.d.workers[worker].attention, groups[u%len(groups)]
				ws.setQueries(qs.row(t), m, 0, p.kv.c.HeadSize)
				ws.attendSplit(all.splitRange(i, 1), p.kvLayer(t, layer), m, 1, p.rows[t].See, number)
			}
		}
	}})
	p.Then(func() {
		for u := range len(p.rows) * len(groups) {
			t := u / len(groups)
			sums := all.splitRange(u*most, splitCount(backend.CountVisible(p.rows[t].See)))
			p.d.workers[0].attention.joinSplits(out.row(t), sums, groups[u%len(groups)], 0)
		}
	})
}

// headGroup is a GQA group, or a part of one: up to [vector.Queries] query heads, n from first, that share a head of
// keys and values.
type headGroup struct{ first, n, head int }

func headGroups(c backend.KVConfig) []headGroup {
	var all []headGroup
	size := c.Heads / c.KVHeads
	for h := 0; h < c.Heads; h += size {
		for i := 0; i < size; i += vector.Queries {
			all = append(all, headGroup{first: h + i, n: min(vector.Queries, size-i), head: h / size})
		}
	}
	return all
}

// attention is the memory of one worker.
type attention struct {
	q      []float32 // [Dh, 8] queries, of a group of one token after another; undefined where these have fewer
	scores []float32 // [8, scoreStride]
	block  []float32 // [8, scoreStride] scores of a span that begins within a block of keys
	see    []backend.Span
	sums   splitSums
	weight []float32 // of each split
}

// splitSums holds the results of KV splits for a group: with top the largest score, the sum of e = exp(score-top) and
// the sum of e·V.
type splitSums struct {
	size     int       // Dh
	mix      []float32 // [splits, 8, Dh]
	top, sum []float32 // [splits, 8]
}

func (s *splitSums) resizeSplits(n, size int) {
	s.size = size
	s.mix = resizeSlice(s.mix, n*vector.Queries*size)
	s.top, s.sum = resizeSlice(s.top, n*vector.Queries), resizeSlice(s.sum, n*vector.Queries)
}

func (s *splitSums) splitRange(i, n int) splitSums {
	a, b := i*vector.Queries, (i+n)*vector.Queries
	return splitSums{size: s.size, mix: s.mix[a*s.size : b*s.size], top: s.top[a:b], sum: s.sum[a:b]}
}

func splitCount(slots int) int { return (slots + splitSlots - 1) / splitSlots }

// attendSplit computes into, the sums of one KV split, for the current queries: those of a group, of consecutive
// tokens. The split is the one with the given number among the slots that the last token sees. Each token before it
// sees one slot less than the next.
func (ws *attention) attendSplit(into splitSums, l layer, m headGroup, tokens int, see []backend.Span, number int) {
	ws.see = backend.AppendVisible(ws.see[:0], see, number*splitSlots, splitSlots)
	ws.scores = resizeSlice(ws.scores, vector.Queries*scoreStride)
	ws.block = resizeSlice(ws.block, vector.Queries*scoreStride)
	l.computeScores(ws.scores, ws.block, ws.q, tokens*m.n, m.head, ws.see)
	n := backend.CountVisible(ws.see)
	first := backend.CountVisible(see) - tokens + 1 - number*splitSlots // the first token sees these of the split
	for i := range tokens * m.n {
		own := min(n, max(0, first+i/m.n))
		e := ws.scores[i*scoreStride:][:max(n, paddedCount(own))]
		for j := own; j < paddedCount(own); j++ {
			e[j] = float32(math.Inf(-1))
		}
		into.top[i], into.sum[i] = vector.Softmax(e[:paddedCount(own)])
		clear(e[own:])
	}
	clear(into.mix)
	l.mixValues(into.mix, ws.scores, tokens*m.n, m.head, ws.see)
}

// paddedCount returns the number of scores that [vector.Softmax] takes for n of them.
func paddedCount(n int) int {
	return (n + vector.SoftmaxPad - 1) / vector.SoftmaxPad * vector.SoftmaxPad
}

// setQueries sets the queries of one of the tokens in ws.q to the heads of a group, over √Dh.
func (ws *attention) setQueries(q []float32, m headGroup, token, size int) {
	ws.q = resizeSlice(ws.q, vector.Queries*size)
	scale := float32(1 / math.Sqrt(float64(size)))
	for g := range m.n {
		for i, v := range q[(m.first+g)*size:][:size] {
			ws.q[i*vector.Queries+token*m.n+g] = v * scale
		}
	}
}

// joinSplits sets the heads of a group of one of the tokens in out to softmax(q·K/√Dh)·V, from the results of the
// splits that it sees. Each split has the weight exp(top - largest top).
func (ws *attention) joinSplits(out []float32, sums splitSums, m headGroup, token int) {
	n := len(sums.top) / vector.Queries
	ws.weight = resizeSlice(ws.weight, n)
	for g := range m.n {
		query := token*m.n + g
		for i := range ws.weight {
			ws.weight[i] = sums.top[i*vector.Queries+query]
		}
		top := vector.Max(ws.weight)
		total := 0.0
		for i, v := range ws.weight {
			ws.weight[i] = float32(math.Exp(float64(v) - float64(top)))
			total += float64(ws.weight[i]) * float64(sums.sum[i*vector.Queries+query])
		}
		for i := range ws.weight {
			ws.weight[i] = float32(float64(ws.weight[i]) / total)
		}
		to := out[(m.first+g)*sums.size:][:sums.size]
		vector.WeightedSum(to, ws.weight, sums.mix[query*sums.size:], vector.Queries*sums.size)
	}
}

func (p *pass) attendExact(out, qs *tensor, layer int) {
	c := p.kv.c
	p.loop(pool.Loop{N: len(p.rows) * c.Heads, Do: func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			t, h := i/c.Heads, i%c.Heads
			at := h * c.HeadSize
			kv := p.kvLayer(t, layer)
			to, q := out.row(t)[at:at+c.HeadSize], qs.row(t)[at:at+c.HeadSize]
			attendHead(to, q, kv, h/(c.Heads/c.KVHeads), p.rows[t].See)
		}
	}})
}

func attendHead(out, q []float32, l layer, head int, see []backend.Span) {
	var scores []float64
	top := math.Inf(-1)
	eachSlot(see, func(slot int32) {
		sum := 0.0
		for i, v := range q {
			sum += float64(v) * float64(l.keyElement(slot, head, i))
		}
		scores = append(scores, sum/math.Sqrt(float64(len(q))))
		top = max(top, scores[len(scores)-1])
	})
	total, mix, j := 0.0, make([]float64, len(q)), 0
	eachSlot(see, func(slot int32) {
		e := math.Exp(scores[j] - top)
		total += e
		j++
		for i := range mix {
			mix[i] += e * float64(l.valueElement(slot, head, i))
		}
	})
	for i, v := range mix {
		out[i] = float32(v / total)
	}
}

func eachSlot(see []backend.Span, f func(slot int32)) {
	for _, s := range see {
		for slot := s.From; slot < s.To; slot++ {
			f(slot)
		}
	}
}
