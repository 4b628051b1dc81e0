package batch

// A model with recurrent layers keeps the states of some tokens only (DeltaKV in package backend). Where a question
// goes on from a token whose state was dropped, the tokens after the last one with a state are evaluated again: rows of
// the step like all others, which the device of the question pays for, so that it cannot make others wait.

// rewindToState returns the last token up to at, the end of what a has in memory, from which a can go on. It looks only
// when a begins: states that are dropped later are replayed by the model, so that a always makes progress.
func (s *Service) rewindToState(st *step, a *ask, at *node) *node {
	if s.states == nil || a.begun != 0 || a.done == 0 {
		return at
	}
	last := at
	if a.done == len(a.Context) {
		if !a.lacksLastHead(at) || at.step == st.number {
			return at
		}
		last = at.parent // the last token is computed again
	}
	see, n := last.visibleSpans(nil, nil), int(last.pos)+1
	written := map[int32]bool{}
	for _, r := range st.rows {
		written[r.slot] = true
	}
	n -= s.states.Resume(see, func(slot int32) bool { return written[slot] })
	if n == 0 {
		return at
	}
	a.stale = a.done
	a.done = int(last.pos) + 1 - n
	for at = last; n > 0; n-- {
		at = at.parent
	}
	return at
}

// lacksState reports whether a token in memory is evaluated again for a because its state was dropped.
func (st *step) lacksState(a *ask, c *cell) bool { return int(c.pos) < a.stale && c.step != st.number }

func (a *ask) lacksLastHead(n *node) bool {
	w := a.headNeeds()
	return w.Logits || w.Hidden || n.k < w.K
}
