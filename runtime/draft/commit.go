package draft

// commitTokens shows the tokens before which no escalation is open and that need no further verification, settles them
// in the model, and reports whether the text is over.
func (r *decodeRun) commitTokens() (over bool) {
	for !over && !r.out.stopped && r.tree.isNextCertain() {
		next, reason := r.tree.tip.children[0], r.tree.tip.reason
		if e := r.tree.tip.esc; e != nil {
			if e.isAnswered() {
				r.warm.markSent(e.Pos)
			}
			r.audits.auditEscalation(e, r.tree.origins)
			r.out.emitEscalation(e)
			if r.out.stopped {
				r.tree.tip.esc = nil // it has been emitted
				break
			}
		}
		if t := next.turn; t != nil {
			if r.out.emitEvent(Event{Turn: t}); r.out.stopped {
				break
			}
		}
		r.showToken(next, reason)
		over = next.final
	}
	r.tree.settleShown()
	if r.Preview && !over && !r.out.stopped {
		r.out.emitPreview(r.tree.text, r.tree.unshownTokens(r.tree.lastCertain()))
	}
	return over || r.out.stopped
}

func (r *decodeRun) showToken(next *node, reason *Reason) {
	r.audits.recordComparison(r.tree.tip, next)
	r.tree.appendShown(next)
	r.guesser.learnShown(next)
	if s := next.by; s != nil {
		s.used++
	}
	origin, local, asked := next.origin, next.token, false
	if e := next.parent.esc; e != nil {
		local, asked = e.Local, e.Outcome != Unasked && e.Outcome != Known
	} else if next.turn != nil {
		local = next.turn.Local
	}
	if r.guesser.drafter != nil && !next.drafted {
		origin = FromCloud
	}
	r.out.emitEvent(Event{Token: &Token{
		Pos: next.pos, ID: next.token, Origin: origin, Confidence: next.confidence, End: next.end,
		Local: local, Asked: asked, CommitDelay: r.sched.elapsedSince(next.known), Unverified: next.unverified,
		Reason: reason, LogProbs: next.probs,
	}})
	switch {
	case next.end:
		r.out.summary.Stop = "end"
	case next.final:
		_, r.out.summary.Stop = r.tokenLimit()
	}
}

// dropBranch removes the branch that begins with n from the draft tree: the model drops it, its questions are
// cancelled, and its cost is added to by.
func (r *decodeRun) dropBranch(n *node, by *escalation) {
	dead, questions := r.tree.cutBranch(n, by)
	for _, e := range questions {
		if e.checks {
			r.questions.checks--
		}
		r.dropEscalation(e, by)
	}
	if r.Trace {
		r.out.emitEvent(Event{Rollback: &Rollback{Pos: n.pos, Of: by.Pos, Nodes: dead}})
	}
	if len(dead) > 0 {
		r.model.Drop(dead...)
	}
}
