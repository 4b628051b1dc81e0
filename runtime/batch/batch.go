package batch

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// pending is an ask of a batch with the nodes of its context.
type pending struct {
	*ask
	path []*node
}

// last is the node of the last token of the context.
func (p pending) last() *node { return p.path[len(p.path)-1] }

// batch answers the first asks of waiting in one call of the model, and returns how many of them are dealt with.
func (s *Service) batch(waiting []*ask) int {
	s.trees.clock++
	var asks []pending
	var fresh []*node // to be computed, parents before children
	for n, a := range waiting {
		full := len(asks) > 0 && (a.forget || len(fresh)+len(a.Context) > s.o.Rows) // what is gathered may be of that session
		switch {
		case full:
		case a.forget:
			s.trees.forget(a.Session)
			close(a.ready)
			continue
		case a.ctx.Err() != nil:
			s.fail(waiting[n:n+1], context.Cause(a.ctx))
			continue
		}
		if !full {
			path, reused, err := s.trees.grow(a.Session, a.Context)
			if err == nil {
				a.answer.Reused = reused
				fresh = append(fresh, path[reused:]...)
				asks = append(asks, pending{ask: a, path: path})
				continue
			}
			if len(asks) == 0 {
				s.fail(waiting[n:n+1], err)
				continue
			}
		}
		s.compute(asks, fresh) // the next batch begins with a
		return n
	}
	s.compute(asks, fresh)
	return len(waiting)
}

// compute runs the fresh nodes, and again those whose head has not kept what is asked for, and answers.
func (s *Service) compute(asks []pending, fresh []*node) {
	if len(asks) == 0 {
		return
	}
	begin := s.o.Now()
	nodes, outputs, err := s.forward(asks, fresh)
	if err != nil {
		for _, n := range slices.Backward(fresh) {
			s.trees.remove(n) // children come after parents
		}
		for _, a := range asks {
			s.fail([]*ask{a.ask}, err)
		}
		return
	}
	for i, n := range nodes {
		n.top, n.lse = slices.Clone(outputs[i].Top), outputs[i].LogSumExp
	}
	spent := s.o.Now().Sub(begin)
	for _, a := range asks {
		out := &backend.Output{Top: a.last().top, LogSumExp: a.last().lse}
		if i := slices.Index(nodes, a.last()); i >= 0 {
			out = &outputs[i]
		}
		s.finish(a, out, begin, spent)
	}
}

// forward runs the model and returns the nodes that the head was wanted for, with its outputs.
func (s *Service) forward(asks []pending, fresh []*node) ([]*node, []backend.Output, error) {
	want, wanted := s.wanted(asks, fresh)
	run := slices.Clone(fresh)
	for n := range wanted {
		if !slices.Contains(fresh, n) {
			run = append(run, n) // computed before: the same keys and values once more
		}
	}
	if len(run) == 0 {
		return nil, nil, nil
	}
	rows, nodes := make([]backend.Row, len(run)), []*node(nil)
	for i, n := range run {
		rows[i] = n.row()
		if wanted[n] {
			want.Rows, nodes = append(want.Rows, i), append(nodes, n)
		}
	}
	outputs := make([]backend.Output, len(nodes))
	return nodes, outputs, s.m.Forward(s.ctx, s.trees.kv, rows, outputs, want)
}

// wanted says for which nodes the head runs: the last of each context, unless it has kept enough, and fresh nodes whose next
// token is to be audited.
func (s *Service) wanted(asks []pending, fresh []*node) (backend.Want, map[*node]bool) {
	want, wanted := backend.Want{K: 1}, map[*node]bool{}
	for _, a := range asks {
		need := a.sampler.Want(backend.Want{K: a.K})
		want.K, want.Logits = max(want.K, need.K), want.Logits || need.Logits
		if need.Logits || len(a.last().top) < need.K {
			wanted[a.last()] = true
		}
		if a.AuditFrom < 1 {
			continue
		}
		for _, n := range a.path[min(a.AuditFrom-1, len(a.path)):] {
			if n.top == nil && slices.Contains(fresh, n) {
				wanted[n] = true
			}
		}
	}
	return want, wanted
}

// finish fills in the answer of a from the output of the last token of its context.
func (s *Service) finish(a pending, out *backend.Output, begin time.Time, spent time.Duration) {
	a.answer.Token = a.sampler.Pick(len(a.Context), out)
	for _, c := range out.Top[:min(a.K, len(out.Top))] {
		a.answer.Top = append(a.answer.Top, Candidate{ID: c.ID, LogProb: c.Logit - out.LogSumExp})
	}
	if a.AuditFrom >= 1 {
		a.answer.Audited, a.answer.Audit = audit(a.path, a.AuditFrom)
	}
	a.answer.Queue, a.answer.Compute = begin.Sub(a.since), spent
	close(a.ready)
}

// audit compares the tokens of path, from its end back to position from, with the most probable ones, as far as the head ran
// before each of them. It returns how many it compared, and those that differ.
func audit(path []*node, from int) (audited int, all []Difference) {
	for pos := len(path) - 1; pos >= from && path[pos-1].top != nil; pos-- {
		audited++
		if before := path[pos-1]; before.top[0].ID != path[pos].token {
			best := before.top[0]
			all = append(all, Difference{Pos: pos, Choice: Candidate{ID: best.ID, LogProb: best.Logit - before.lse}})
		}
	}
	slices.Reverse(all)
	return audited, all
}
