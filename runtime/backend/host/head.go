package host

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// chunk is the number of rows of the output matrix with a common sum. It is fixed and independent of the workers, so
// that sums over the vocabulary do not depend on the division of work.
const chunk = 1024

// Head implements [backend.Pass]. The wanted rows are multiplied with the output matrix together; each chunk of the
// vocabulary yields its best tokens and its sums, which are merged in order at the end.
func (p *pass) Head(out []backend.Output, x backend.Tensor, g backend.Norm, w backend.Weight, want backend.Want) {
	if p.err != nil || len(want.Rows) == 0 {
		return
	}
	d, m, in := p.d, w.(*weight), x.(*tensor)
	m.mustTake(in.cols)
	most := 0
	for i := range want.Rows {
		most = max(most, want.Of(i).K)
	}
	p.Then(func() {
		d.acts.Resize(len(want.Rows), in.cols)
		for i, t := range want.Rows {
			row := want.Of(i)
			p.setAct(i, in.row(t), g.(*norm), m.Quantised())
			out[i].Logits, out[i].Hidden = out[i].Logits[:0], out[i].Hidden[:0] // also those that are not wanted
			if row.Hidden {
				out[i].Hidden = append(out[i].Hidden, d.acts.Token(i)...)
			}
			if row.Logits {
				out[i].Logits = resizeSlice(out[i].Logits, m.Rows)
			}
		}
	})
	acts := p.actsThen(&d.acts)
	chunks := (m.Rows + chunk - 1) / chunk
	parts := newChunkSums(len(want.Rows)*chunks, min(most, chunk)) // [row][chunk]
	p.loop(pool.Loop{
		N: chunks,
		Do: func(worker, c, _ int) {
			lo, hi := c*chunk, min((c+1)*chunk, m.Rows)
			p.multiplyPart(d.workers[worker].resizeOwn(len(want.Rows), lo, hi), hi-lo, acts, m, lo, hi, worker)
		},
		Commit: func(worker, c, _ int) { p.headChunk(out, parts, m, c, chunks, want, worker) },
	})
	p.Then(func() {
		for i := range want.Rows {
			mergeChunks(&out[i], parts[i*chunks:(i+1)*chunks], want.Of(i).K)
		}
	})
}

// headChunk stores what a worker has computed for a chunk of the vocabulary.
func (p *pass) headChunk(
	out []backend.Output, parts []chunkSums, m *weight, c, chunks int, want backend.Want, worker int,
) {
	lo, hi := c*chunk, min((c+1)*chunk, m.Rows)
	for i := range want.Rows {
		logits := p.d.workers[worker].ownRow(i, lo, hi)
		row := want.Of(i)
		if row.Logits {
			copy(out[i].Logits[lo:], logits)
		}
		part := &parts[i*chunks+c]
		part.top = appendBest(part.top, logits, int32(lo), row.K)
		part.max = part.top[0].Logit
		part.sum, part.sumX = p.d.ops.sumExp(logits, part.max)
	}
}

// chunkSums is what one chunk of the vocabulary contributes to an [backend.Output].
type chunkSums struct {
	top  []backend.Candidate
	max  float32
	sum  float64 // Σ exp(l-max)
	sumX float64 // Σ exp(l-max)·l
}

func newChunkSums(n, k int) []chunkSums {
	parts, tops := make([]chunkSums, n), make([]backend.Candidate, n*k)
	for i := range parts {
		parts[i].top = tops[i*k : i*k : (i+1)*k]
	}
	return parts
}

// mergeChunks joins the chunks of one row in their order:
// LogSumExp = M + ln S and Entropy = LogSumExp - (Σ e^(l-M)·l)/S, with M the largest logit and S = Σ e^(l-M).
func mergeChunks(o *backend.Output, parts []chunkSums, k int) {
	o.Top = o.Top[:0]
	top := float32(math.Inf(-1))
	for _, p := range parts {
		for _, c := range p.top {
			o.Top = insertCandidate(o.Top, c, k)
		}
		top = max(top, p.max)
	}
	var s, t float64
	for _, p := range parts {
		scale := math.Exp(float64(p.max) - float64(top))
		s += p.sum * scale
		t += p.sumX * scale
	}
	lse := float64(top) + math.Log(s)
	o.LogSumExp, o.Entropy = float32(lse), float32(max(0, lse-t/s))
}

// appendBest appends the k largest logits to top, which is empty, largest first, as candidates. The first logit has the
// ID first.
func appendBest(top []backend.Candidate, logits []float32, first int32, k int) []backend.Candidate {
	for i := 0; i < len(logits); i++ {
		if len(top) == k {
			if i += vector.Above(logits[i:], top[k-1].Logit); i == len(logits) {
				break
			}
		}
		top = insertCandidate(top, backend.Candidate{ID: first + int32(i), Logit: logits[i]}, k)
	}
	return top
}

// insertCandidate inserts c into top, which is sorted by falling logit and holds at most k. Of equal logits the earlier
// one comes first.
func insertCandidate(top []backend.Candidate, c backend.Candidate, k int) []backend.Candidate {
	if len(top) < k {
		top = append(top, c)
	} else if c.Logit > top[k-1].Logit {
		top[k-1] = c
	} else {
		return top
	}
	for i := len(top) - 1; i > 0 && top[i].Logit > top[i-1].Logit; i-- {
		top[i], top[i-1] = top[i-1], top[i]
	}
	return top
}
