package draft

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Verification. A node is looked at when the large model has verified its token, has chosen it, or was asked and did
// not answer. Only nodes that are looked at are shown, each after those before it.
//
// The first position without verification on the path to a node, its [node.since], is a function of the path: every
// escalation lets the large model verify all that precedes it, so that the next one begins after it.

func (o *rules) marginAfter(n *node) float64 {
	if o.Dial != nil {
		return o.Dial.Margin(n.state)
	}
	return o.Margin
}

func (o *rules) allowsReplacement(n *node, token int32) bool {
	return o.Dial == nil || token == n.local || !math.IsInf(o.Dial.Margin(n.state), 1)
}

// verificationDue says why verification asks for the token after n, if the router lets the local token stand; false: it
// does not.
func (o *rules) verificationDue(n *node, local int32) (why Why, wanted bool) {
	if !o.Verify {
		return Routed, false
	}
	if o.End(local) || n.pos+2 >= o.limit {
		return EndsHere, true
	}
	if n.pos+1-n.since >= o.VerifyEvery {
		return LongAgo, true
	}
	return Routed, false
}

// firstUnverified returns the position of the first token before a question that follows at which its answer verifies;
// 0: none.
func (t *draftTree) firstUnverified(at *node) (pos int) {
	for n := at; n != t.tip && (n.pos >= at.since || t.checksEnabled()); n = n.parent {
		if !n.looked {
			pos = n.pos
		}
	}
	return pos
}

// comparison is a token of a question's context that the answer compares, and the one before it.
type comparison struct {
	pos    int
	token  int32
	before *node
}

func (t *draftTree) listComparisons(at *node, from int) []comparison {
	var all []comparison
	for n := at; from > 0 && n != t.tip && n.pos >= from; n = n.parent {
		all = append(all, comparison{n.pos, n.token, n.parent})
	}
	return all
}

// recordFacts notes the large model's choices for the tokens that the answer compares.
func (e *escalation) recordFacts(a Answer) {
	found := map[int]terms.Finding{}
	for _, f := range a.Audit {
		found[f.Pos] = f
	}
	for _, c := range e.compare {
		f, differs := found[c.pos]
		if !differs || f.Token == c.token {
			c.before.fact.recordChoice(c.token, nil)
			continue
		}
		c.before.fact.recordChoice(f.Token, nil)
		c.before.fact.recordFinding(c.token, f)
	}
}

func (e *escalation) firstReplaced(a Answer) (first comparison, found terms.Finding, ok bool) {
	if e.how != terms.EachChoice {
		return first, found, false
	}
	for _, f := range a.Audit {
		for _, c := range e.compare {
			if c.pos == f.Pos && c.token != f.Token && (!ok || c.pos < first.pos) {
				first, found, ok = c, f, true
			}
		}
	}
	return first, found, ok
}

func (r *decodeRun) applyFacts() {
	var walk func(n *node)
	walk = func(n *node) {
		r.applyFact(n)
		for _, c := range slices.Concat(n.children, n.alts) {
			walk(c)
		}
	}
	if r.usesFacts() {
		walk(r.tree.tip)
	}
}

func (o *rules) usesFacts() bool { return o.Verify || o.Ahead > 1 }

func (r *decodeRun) applyFact(n *node) {
	if !r.usesFacts() || !n.evaluated || !n.fact.known {
		return
	}
	if n.esc != nil {
		r.answerFromFacts(n.esc)
		return
	}
	c := n.children[0]
	if !r.Verify || c.looked {
		return
	}
	switch verdict := n.fact.verdictFor(c.token, r.marginAfter(n)); {
	case verdict == verdictAccept, verdict == verdictReject && !n.allowsToken(n.fact.token):
		c.by = n.fact.from
		r.acceptChild(n)
	case verdict == verdictReject:
		r.replaceToken(n)
	}
}

func (r *decodeRun) answerFromFacts(e *escalation) {
	if e.isResolved() {
		return
	}
	for n := e.at; r.Verify && n != r.tree.tip && n.pos >= e.at.since; n = n.parent {
		if !n.looked {
			return
		}
	}
	token, origin := e.at.fact.token, FromCloud
	if !e.at.allowsToken(token) || !r.allowsReplacement(e.at, token) {
		if !r.Verify {
			return // one of the best tokens of its own answer may stand
		}
		token, origin, e.Kept = e.Local, Edge, true
	}
	outcome := Known
	if e.Outcome == inFlight {
		outcome = Miss // or a hit, as it was asked
		e.Wait, e.ByAhead = r.sched.elapsedSince(e.sent), true
	} else {
		e.Held = r.sched.elapsedSince(e.wanted)
	}
	r.resolveEscalation(e, outcome, token, origin, nil)
	e.at.children[0].by = e.at.fact.from
}

func (r *decodeRun) replaceToken(n *node) {
	old, cost, c := n.children[0], new(escalation), n.takeAlternative(n.fact.token)
	r.dropBranch(old, cost)
	n.children = n.children[:0]
	if c == nil {
		c = r.tree.addChild(n, n.fact.token, old.confidence)
	} else {
		n.children = append(n.children, c)
		r.won++
	}
	r.acceptChild(n)
	c.origin, c.by, c.since, c.probs = FromCloud, n.fact.from, c.pos+1, r.answerLogProbs(nil, c.token)
	found, ok := n.fact.found[old.token]
	if ok && c.probs != nil {
		c.probs.Token = found.LogProb
	}
	if !ok {
		found = terms.Finding{Pos: c.pos, Token: c.token}
	}
	c.turn = &Turn{Finding: found, Local: old.token, Wasted: cost.Wasted, Exposed: cost.Exposed}
}

func (r *decodeRun) acceptUnverified(e *escalation) {
	for n := e.at; n != r.tree.tip && n.pos >= e.at.since; n = n.parent {
		if !n.looked {
			r.acceptChild(n.parent)
			n.unverified = true
		}
	}
}
