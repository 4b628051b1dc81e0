package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/lookup"
)

// compute runs a step and answers the asks that are complete.
func (s *Service) compute(st *step) {
	s.answerKnown(st)
	outputs, err := s.forward(st)
	if s.vacate(st); err != nil {
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
		case s.trees.past.take(r.hash):
			s.stats.Recomputed++
		}
		if out := outputs[i]; out != nil && r.k >= r.choice.k { // never keep fewer candidates than before
			r.top, r.lse, r.choice.k = slices.Clone(out.Top[:min(r.k, len(out.Top))]), out.LogSumExp, r.k
		}
	}
	for _, a := range st.asks {
		if a.Waits() { // it waits for another step
			if s.partly.Set(a, true); a.heads.Logits && a.done >= a.AuditFrom { // for want of room it got only a few
				s.letGo(a)
			}
			s.renew(a)
			continue
		}
		s.finish(st, a, outputs)
	}
}

// answerKnown answers the asks of a step that need no computation: they do not wait for the model.
func (s *Service) answerKnown(st *step) {
	st.asks = slices.DeleteFunc(st.asks, func(a *ask) bool {
		known := !a.Waits() && a.at.step != st.number && a.looks != st.number
		if known {
			s.finish(st, a, nil)
		}
		return known
	})
}

// failStep answers all asks of a failed step with err, and removes the tokens that the step was to compute.
func (s *Service) failStep(st *step, err error) {
	if s.ctx.Err() != nil {
		err = ErrClosed
	}
	for _, a := range st.asks {
		s.letGo(a)
	}
	s.undo(st)
	for _, a := range st.asks {
		s.drop(a, err)
	}
}

// errLeft is the cause of a pass that was aborted because all its callers had left.
var errLeft = errors.New("all callers have left")

// forward runs the model and returns the output of the head for each row of the step, nil for rows without the head.
func (s *Service) forward(st *step) ([]*backend.Output, error) {
	outputs := make([]*backend.Output, len(st.rows))
	if len(st.rows) == 0 {
		return outputs, nil
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	if !s.begin(st, cancel) {
		return nil, errLeft
	}
	defer s.end(st)
	first, second := s.split(st)
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
	if s.guesses() && len(first.rows) <= lookup.MostRows && len(second.rows) == 0 {
		s.cost.Learn(len(first.rows), took.Seconds())
	}
	s.paced(len(st.rows), took)
	return outputs, nil
}

// paced learns the time of a row from a step that is at least half full: a shorter time at once, a longer one slowly.
func (s *Service) paced(rows int, took time.Duration) {
	if rows < s.o.Rows/2 {
		return
	}
	now := took / time.Duration(rows)
	if s.pace == 0 || now < s.pace {
		s.pace = now
	}
	s.pace += (now - s.pace) / 16
}

// call is a call of the model.
type call struct {
	rows  []backend.Row
	want  backend.Want
	heads []int // rows of the step that the head runs for
}

// split makes the calls of a step: one call, or two if some rows need so much of the head that it would be costly for
// all rows. The second call computes these rows again.
func (s *Service) split(st *step) (first, second *call) {
	heads, deepest := 0, 0
	for _, r := range st.rows {
		if r.k > 0 {
			heads, deepest = heads+1, max(deepest, depth(r.k, r.logits))
		}
	}
	first, second = &call{want: backend.Want{K: 1}}, &call{want: backend.Want{K: 1}}
	var before *node
	var row backend.Row
	for i, r := range st.rows {
		row = backend.Row{Token: r.token, Pos: r.pos, Slot: r.slot, See: r.spans(before, row.See)}
		if before = r.node; r.aside() {
			row.See, before = backend.AppendSlot(r.parent.spans(nil, nil), r.slot), nil
		}
		if heads*deepest > s.deepest() && depth(r.k, r.logits) > plainDepth {
			if !r.again {
				first.rows = append(first.rows, row)
			}
			second.add(row, i, r)
		} else {
			first.add(row, i, r)
		}
	}
	return first, second
}

func (c *call) add(row backend.Row, i int, r stepRow) {
	if r.k > 0 {
		c.want.Rows, c.heads = append(c.want.Rows, len(c.rows)), append(c.heads, i)
		c.want.K, c.want.Logits = max(c.want.K, r.k), c.want.Logits || r.logits
		c.want.Hidden = c.want.Hidden || r.hidden
	}
	c.rows = append(c.rows, row)
}

// finish completes the answer to a, apart from what [Service.Ask] fills in, from the results that are kept and the
// outputs of the step.
func (s *Service) finish(st *step, a *ask, outputs []*backend.Output) {
	a.out = outputOf(st, outputs, a.at)
	a.answer.Queue, a.answer.Compute = a.begin.Sub(a.since), s.o.Now().Sub(a.begin)
	if a.Verify != terms.AsItComes {
		a.gather(st, outputs)
	} else if a.AuditFrom >= 1 {
		a.answer.Audited, a.answer.Audit = audit(a.at, a.AuditFrom)
	}
	s.hand(a)
	if !a.part {
		s.stats.Reused += uint64(a.reused + a.answer.Reused)
	}
	if a.Priority == terms.Ahead {
		s.stats.Ahead++
	}
	if s.guesses() && !a.background() && !a.part {
		a.tree.answers(a)
	}
	s.answer(a, nil)
}

// audit compares the tokens up to n, backwards to position from, with the most probable ones, as long as the head ran
// before each of them. It returns the number of tokens compared, and those that differ.
func audit(n *node, from int) (audited int, all []terms.Finding) {
	for ; int(n.pos) >= from && n.parent.top != nil; n = n.parent {
		audited++
		if best := n.parent.top[0]; best.ID != n.token {
			all = append(all, terms.Finding{Pos: int(n.pos), Token: best.ID, LogProb: best.Logit - n.parent.lse})
		}
	}
	slices.Reverse(all)
	return audited, all
}
