package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// Verification compares each position of a context, from a first one on, with the token that Sampling chooses there.
// The head has to run on every token before such a position. Results of the head that are in memory are used, whichever
// question they were computed for. A token in memory with too few results is computed again.
//
// The goroutine of the caller chooses and scores the tokens as soon as the step has ended: drawing from 150,000 logits
// takes longer than a millisecond. Logits are not kept. So a question that needs logits, or many candidates, for many
// positions is split into parts. Each part has as many positions as the head of one step has room for. A part is
// computed in one step, and the next part begins after the caller has read its results.

// errHeads is the error of an answer that would be incomplete. It indicates a bug.
var errHeads = errors.New("batch: a position was not verified")

func (s *Service) verifyContext(ctx context.Context, q terms.Job, sampler *sample.Sampler) (Answer, error) {
	if q.Priority != terms.Foreground {
		return Answer{}, errors.New("batch: a background question cannot verify its context")
	}
	if q.AuditFrom < 1 || q.AuditFrom > len(q.Context) {
		return Answer{}, fmt.Errorf("batch: positions from %d on cannot be verified: those from 1 to %d can",
			q.AuditFrom, len(q.Context))
	}
	heads := sampler.Want(backend.Want{K: 1})
	switch q.Verify {
	case terms.EachScore:
		heads = sampler.WantScores(heads)
	case terms.EachJudged:
		if s.o.Judge == nil {
			return Answer{}, errors.New("batch: there is no judge")
		}
		heads.Logits, heads.Hidden = true, true
	}
	most := s.maxHeads(heads, sampler.Want(backend.Want{K: q.K}))
	var all findings
	var since time.Time
	for known, from := 0, q.AuditFrom; ; {
		a := &ask{Job: q, sampler: sampler, heads: heads, before: known, reused: all.Reused, whole: len(q.Context),
			judge: s.o.Judge}
		if a.AuditFrom = from; most <= len(q.Context)-from {
			a.part, a.Context = true, q.Context[:from-1+most]
		}
		if err := s.submitAsk(ctx, a); err != nil {
			return Answer{}, err
		}
		if known == 0 {
			since, all.Queue = a.since, a.answer.Queue
		}
		a.comparePositions(q.Context, &all)
		all.Reused, all.Computed = all.Reused+a.answer.Reused, all.Computed+a.answer.Computed
		if !a.part {
			last := s.collectAnswer(a)
			all.Token, all.Top = last.Token, last.Top
			all.Compute = a.since.Sub(since) + last.Queue + last.Compute - all.Queue
			if all.Audited != len(q.Context)-q.AuditFrom {
				return Answer{}, errHeads
			}
			return all.Answer, nil
		}
		s.returnLogits(a)
		known, from = len(a.Context), len(a.Context)+1
	}
}

// maxHeads returns the maximum number of positions in a part, including the one after its context. If the head is cheap
// there is only one part.
func (s *Service) maxHeads(heads, last backend.Want) int {
	d := headDepth(heads.K, heads.Logits)
	if d <= plainDepth {
		return math.MaxInt
	}
	return max(1, min(s.maxHeadCost()/max(d, headDepth(last.K, last.Logits)), shortRows(s.o.Rows)))
}

// findings are those of the parts of a question so far.
type findings struct {
	Answer
	open *mismatch // at the last token of the last part: what follows it is in the next one
}

// mismatch is a finding that a judge has not seen.
type mismatch struct {
	of    int             // index in Audit
	token int32           // that stands in the text
	out   *backend.Output // of the head before it
}

// comparePositions runs in the goroutine of the caller.
func (a *ask) comparePositions(text []int32, all *findings) {
	if all.open != nil {
		all.judgeMismatch(a.judge, a.outputAfter(-1))
	}
	for i := range a.found {
		if len(a.found[i].Top) == 0 || a.heads.Logits && len(a.found[i].Logits) == 0 {
			continue // verify then reports an incomplete answer
		}
		all.Audited++
		pos, out := a.AuditFrom+i, &a.found[i]
		d := terms.Finding{Pos: pos}
		if a.Verify.Scored() {
			d.Token, d.Score, d.Stands = a.sampler.Choose(pos, out, text[pos])
		} else {
			d.Token = a.sampler.Pick(pos, out)
		}
		if d.Token != text[pos] {
			d.LogProb = logitOf(out, d.Token) - out.LogSumExp
			all.Audit = append(all.Audit, d)
			if a.Verify == terms.EachJudged {
				all.open = &mismatch{len(all.Audit) - 1, text[pos], out}
				all.judgeMismatch(a.judge, a.outputAfter(i))
			}
		}
	}
}

// outputAfter returns the output of the head after position i of those that are verified; nil if another part has it.
func (a *ask) outputAfter(i int) *backend.Output {
	switch {
	case i+1 < len(a.found):
		return &a.found[i+1]
	case a.part:
		return nil
	}
	return a.out
}

func (f *findings) judgeMismatch(j Judge, after *backend.Output) {
	if after == nil {
		return
	}
	m, d := f.open, &f.Audit[f.open.of]
	ratio := math.Exp(min(float64(logitOf(m.out, m.token)-logitOf(m.out, d.Token)), 0))
	p := j(m.out.Hidden, after.Hidden, float32(ratio), m.out.Entropy)
	d.Stands, f.open = d.Score+float32(min(math.Log(float64(p)), 0)), nil
}

func logitOf(out *backend.Output, id int32) float32 {
	if len(out.Logits) > 0 {
		return out.Logits[id]
	}
	return out.Top[slices.IndexFunc(out.Top, func(c backend.Candidate) bool { return c.ID == id })].Logit
}

// lacksOutput reports whether too few results of the head are kept for a token that a verifies. For the last token of
// the context, requestLastHead decides.
func (a *ask) lacksOutput(c *cell) bool {
	return a.Verify != terms.AsItComes && a.auditsToken(c) && int(c.pos) < len(a.Context)-1 &&
		(a.heads.Logits || c.k < a.heads.K)
}

func (a *ask) contextSize() int { return max(a.whole, len(a.Context)) }

func (a *ask) needsOneStep() bool { return headDepth(a.heads.K, a.heads.Logits) > plainDepth }

func (a *ask) limitPartial(n int) int {
	if a.needsOneStep() {
		return min(n, max(0, a.AuditFrom-1-a.done))
	}
	return n
}

// addVerifiedTokens is addContextTokens for a question with Verify. A token in memory costs no row if its head is kept
// or computed in this step. The results for the last positions fit into the step only if the step completes a.
func (s *Service) addVerifiedTokens(st *step, a *ask, n int, ends bool) (cost uint64) {
	to := len(a.Context)
	if !ends {
		to--
	}
	for n > 0 && a.done < to {
		next, added := s.advanceToken(st, a, ends)
		if next == nil {
			break
		}
		lacks := a.lacksOutput(next.cell)
		if !added && (lacks || st.lacksState(a, next.cell)) && next.step != st.number {
			if !next.isUnshared() {
				s.makeRoom(a, 1, ends)
			}
			s.recomputeNode(st, next)
			added = true
		}
		if added {
			n, st.used, cost = n-1, st.used+1, cost+rowPrice
			a.answer.Computed++
		}
		if lacks {
			cost += s.requestHead(st, a, next)
		}
	}
	return cost
}

// advanceToken moves a to the next token of its context, and reports whether a row was added for it. The token is nil
// if there is no slot for it.
func (s *Service) advanceToken(st *step, a *ask, ends bool) (next *node, added bool) {
	token := a.Context[a.done]
	next = a.at.below.lookupChild(token)
	c := a.at.cell.below.lookupChild(token)
	switch {
	case next != nil:
	case c != nil:
		if next = s.trees.useCell(a.at, c); !a.lacksOutput(c) || c.step == st.number { // otherwise it is computed again
			s.stats.Shared++
		}
	case s.makeRoom(a, 1, ends) == 0:
		return nil, false
	default:
		next, added = s.trees.addToken(a.at, token), true
		st.addRow(stepRow{node: next, slot: next.slot})
	}
	next.used = s.trees.clock
	if a.paid = next.guess; a.paid {
		s.acceptGuess(next)
	}
	s.moveTo(a, next)
	a.done++
	return next, added
}

// requestHead requests the head that a needs for n, which has a row in the step. It returns the price.
func (s *Service) requestHead(st *step, a *ask, n *node) uint64 {
	a.looks = st.number
	r, w := &st.rows[n.row], a.heads
	if r.k >= w.K && (r.logits || !w.Logits) && (r.hidden || !w.Hidden) {
		return 0
	}
	before := headDepth(r.k, r.logits)
	r.requestOutput(w)
	if d := headDepth(r.k, r.logits); d > plainDepth {
		st.most = max(st.most, d)
		if before <= plainDepth {
			st.deep++
		}
	}
	return headPrice(w.K, w.Logits)
}

// collectOutputs collects for a the results of the head for the tokens that it verifies: those that are kept, and
// logits of the step.
func (a *ask) collectOutputs(st *step, outputs []*backend.Output) {
	n := a.at
	if !a.part {
		n = n.parent
	}
	for ; int(n.pos) >= a.AuditFrom-1; n = n.parent {
		a.found = append(a.found, *nodeOutput(st, outputs, n))
	}
	slices.Reverse(a.found)
}

// nodeOutput returns what the head has computed for n: the results that are kept, and logits if n is in this step.
func nodeOutput(st *step, outputs []*backend.Output, n *node) *backend.Output {
	out := &backend.Output{Top: n.top, LogSumExp: n.lse}
	if n.step == st.number && n.row < len(outputs) && outputs[n.row] != nil {
		out.Logits, out.Hidden, out.Entropy = outputs[n.row].Logits, outputs[n.row].Hidden, outputs[n.row].Entropy
	}
	return out
}
