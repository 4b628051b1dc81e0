package batch

import (
	"context"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

func (s *Service) runStep(st *step) {
	s.answerFromMemory(st)
	outputs, err := s.forwardStep(st)
	if s.freeStepSlots(st); err != nil {
		s.failStep(st, err)
		return
	}
	for i := range st.rows {
		r := &st.rows[i]
		switch {
		case r.again:
			s.stats.Repeated++
		case r.guess: // its eviction counts only when a question includes it
			s.stats.Guessed++
		case s.trees.past.removeEvicted(r.hash):
			s.stats.Recomputed++
		}
		if out := outputs[i]; out != nil && r.k >= r.choice.k { // never keep fewer candidates than before
			r.top, r.lse, r.choice.k = slices.Clone(out.Top[:min(r.k, len(out.Top))]), out.LogSumExp, r.k
		}
	}
	for _, a := range st.asks {
		if a.Waits() { // it waits for another step
			if s.partly.Set(a, true); a.heads.Logits && a.done >= a.AuditFrom { // for want of room it got only a few
				s.releaseContext(a)
			}
			s.background.resetPatience(a)
			continue
		}
		s.fillAnswer(st, a, outputs)
	}
}

func (s *Service) answerFromMemory(st *step) {
	st.asks = slices.DeleteFunc(st.asks, func(a *ask) bool {
		known := !a.Waits() && a.at.step != st.number && a.looks != st.number
		if known {
			s.fillAnswer(st, a, nil)
		}
		return known
	})
}

func (s *Service) failStep(st *step, err error) {
	if s.ctx.Err() != nil {
		err = ErrClosed
	}
	for _, a := range st.asks {
		s.releaseContext(a)
	}
	s.undoStep(st)
	for _, a := range st.asks {
		s.dropAsk(a, err)
	}
}

// errLeft is the cause of a pass that was aborted because all its callers had left.
var errLeft = errors.New("all callers have left")

// forwardStep runs the model and returns the output of the head for each row of the step, nil for rows without the
// head.
func (s *Service) forwardStep(st *step) ([]*backend.Output, error) {
	outputs := make([]*backend.Output, len(st.rows))
	if len(st.rows) == 0 {
		return outputs, nil
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	if !s.beginStep(st, cancel) {
		return nil, errLeft
	}
	defer s.endStep(st)
	first, second := s.splitCalls(st)
	begin := s.o.Now()
	for _, c := range []*call{first, second} {
		if len(c.rows) == 0 {
			continue
		}
		s.awaitCallers(c)
		found := make([]backend.Output, len(c.want.Rows))
		if err := s.m.Forward(ctx, s.kv, c.rows, found, c.want); err != nil {
			return nil, err
		}
		for i, n := range c.heads {
			outputs[n] = &found[i]
		}
		s.stats.Steps++
		s.stats.Computed += uint64(len(c.rows))
	}
	took := s.o.Now().Sub(begin)
	if s.guessesEnabled() && len(first.rows) <= lookup.MostRows && len(second.rows) == 0 {
		s.cost.Learn(len(first.rows), took.Seconds())
	}
	s.pace.learnStep(len(st.rows), took)
	return outputs, nil
}

// call is a call of the model.
type call struct {
	rows  []backend.Row
	want  backend.Want
	heads []int // rows of the step that the head runs for
}

// splitCalls makes the calls of a step: one call, or two if some rows need so much of the head that it would be costly
// for all rows. The second call computes these rows again.
func (s *Service) splitCalls(st *step) (first, second *call) {
	heads, deepest := 0, 0
	for _, r := range st.rows {
		if r.k > 0 {
			heads, deepest = heads+1, max(deepest, headDepth(r.k, r.logits))
		}
	}
	first, second = &call{want: backend.Want{K: 1}}, &call{want: backend.Want{K: 1}}
	var before *node
	var row backend.Row
	for i, r := range st.rows {
		row = backend.Row{Token: r.token, Pos: r.pos, Slot: r.slot, See: r.visibleSpans(before, row.See)}
		if before = r.node; r.usesOtherSlot() {
			row.See, before = backend.AppendSlot(r.parent.visibleSpans(nil, nil), r.slot), nil
		}
		if heads*deepest > s.maxHeadCost() && headDepth(r.k, r.logits) > plainDepth {
			if !r.again {
				first.rows = append(first.rows, row)
			}
			second.addRow(row, i, r)
		} else {
			first.addRow(row, i, r)
		}
	}
	return first, second
}

func (c *call) addRow(row backend.Row, i int, r stepRow) {
	if r.k > 0 {
		c.want.Rows, c.heads = append(c.want.Rows, len(c.rows)), append(c.heads, i)
		c.want.K, c.want.Logits = max(c.want.K, r.k), c.want.Logits || r.logits
		c.want.Hidden = c.want.Hidden || r.hidden
	}
	c.rows = append(c.rows, row)
}

// fillAnswer completes the answer to a, apart from what [Service.Ask] fills in, from the results that are kept and the
// outputs of the step.
func (s *Service) fillAnswer(st *step, a *ask, outputs []*backend.Output) {
	a.out = nodeOutput(st, outputs, a.at)
	a.answer.Queue, a.answer.Compute = a.begin.Sub(a.since), s.o.Now().Sub(a.begin)
	if a.Verify != terms.AsItComes {
		a.collectOutputs(st, outputs)
	} else if a.AuditFrom >= 1 {
		a.answer.Audited, a.answer.Audit = auditContext(a.at, a.AuditFrom)
	}
	s.lendLogits(a)
	if !a.part {
		s.stats.Reused += uint64(a.reused + a.answer.Reused)
	}
	if a.Priority == terms.Ahead {
		s.stats.Ahead++
	}
	if s.guessesEnabled() && !a.isBackground() && !a.part {
		a.tree.recordReply(a)
	}
	s.releaseAsk(a, nil)
}

// auditContext compares the tokens up to n, backwards to position from, with the most probable ones, as long as the
// head ran before each of them. It returns the number of tokens compared, and those that differ.
func auditContext(n *node, from int) (audited int, all []terms.Finding) {
	for ; int(n.pos) >= from && n.parent.top != nil; n = n.parent {
		audited++
		if best := n.parent.top[0]; best.ID != n.token {
			all = append(all, terms.Finding{Pos: int(n.pos), Token: best.ID, LogProb: best.Logit - n.parent.lse})
		}
	}
	slices.Reverse(all)
	return audited, all
}
