package draft

import (
	"slices"
	"time"
)

// node is the last settled token or a later one, with what is known of the token that follows.
type node struct {
	id         ID
	token      int32
	pos        int
	parent     *node
	children   []*node // one, or the guesses at an answer
	alts       []*node // alternatives to the one child: see [decodeRun.appendAlternatives]
	others     []guess // tokens that may become alternatives
	alt        bool    // it is an alternative
	state      uint64  // of the router: left by the decisions on the path, with the one after this token once evaluated
	confidence float32 // of the decision that this token came from
	guess      float64 // probability under the small model, for a guess at an answer
	sure       float64 // probability that the large model chooses the token too
	origin     Origin
	local      int32 // the small model's token after it, once evaluated
	end, final bool  // an end token; nothing follows: an end token or the last one allowed
	evaluated  bool  // the model holds it, and children or esc are set
	pass       *pass
	esc        *escalation // the question what follows; nil: the small model's token stands
	reason     *Reason     // of the decision what follows; nil without [Options.Explain]
	known      time.Time

	fact       *fact       // of the large model after it
	since      int         // first position on the path that no question verifies yet
	looked     bool        // the large model has verified or chosen the token, or the question about it failed
	unverified bool        // the question about it failed
	drafted    bool        // by [Options.Drafter]
	by         *stream     // that verified it; nil: an answer did
	turn       *Turn       // that replaced another token by it
	check      *escalation // about the text up to it; nil: none

	place Place     // how tokens are chosen after it; nil: by [Options.Pick]
	probs *LogProbs // of the model that chose it; nil without [Options.Top]
}

// pass is one forward call: its time, and the number of its nodes that are not dropped.
type pass struct {
	took time.Duration
	live int
}

func (n *node) hasOpenEscalation() bool { return n.esc != nil && !n.esc.isResolved() }

func (r *decodeRun) addChild(n *node, token int32, confidence float32) *node {
	c := r.newChild(n, token, confidence)
	n.children = append(n.children, c)
	return c
}

func (r *decodeRun) newChild(n *node, token int32, confidence float32) *node {
	r.last++
	c := &node{
		id: r.last, token: token, pos: n.pos + 1, parent: n, state: n.state, confidence: confidence, guess: 1,
		origin: Edge, end: r.End(token), known: r.sched.currentTime(), fact: n.fact, since: n.since,
	}
	if r.Dial != nil {
		c.state = r.Dial.Count(n.state, token != n.local)
	}
	if r.usesFacts() {
		c.fact = n.fact.childFact(token)
	}
	if n.place != nil {
		c.place = n.place.Behind(token)
	}
	if n.esc != nil {
		c.since = c.pos + 1
	}
	c.final = c.end || c.pos+1 >= r.limit
	return c
}

// pathBetween returns the nodes from the first after root to n.
func pathBetween(root, n *node) []*node {
	var p []*node
	for ; n != root; n = n.parent {
		p = append(p, n)
	}
	slices.Reverse(p)
	return p
}

func (r *decodeRun) contextTokens(n *node) []int32 {
	text := slices.Clone(r.text)
	for _, m := range pathBetween(r.tip, n) {
		text = append(text, m.token)
	}
	return text
}

// pathProbability returns the probability under the small model that n becomes part of the text: the product over the
// open escalations on its path, or 1.
func (r *decodeRun) pathProbability(n *node) float64 {
	p := 1.0
	for ; n != r.tip; n = n.parent {
		if n.parent.hasOpenEscalation() || n.alt {
			p *= n.guess
		}
	}
	return p
}

// dropBranch removes the branch that begins with n from the draft tree: the model drops it, its questions are
// cancelled, and its cost is added to by.
func (r *decodeRun) dropBranch(n *node, by *escalation) {
	var dead []ID
	var walk func(n *node)
	walk = func(n *node) {
		for _, c := range slices.Concat(n.children, n.alts) {
			walk(c)
		}
		if n.esc != nil {
			r.dropEscalation(n.esc, by)
		}
		if n.check != nil && n.check.Outcome == inFlight {
			r.open--
			r.dropEscalation(n.check, by)
		}
		if t := n.turn; t != nil {
			by.Wasted, by.Exposed = by.Wasted+t.Wasted, by.Exposed+t.Exposed
		}
		if !n.evaluated {
			return
		}
		dead = append(dead, n.id)
		by.Wasted++
		if n.pass.live--; n.pass.live == 0 {
			by.Exposed += n.pass.took
		}
	}
	walk(n)
	if r.Trace {
		r.out.emitEvent(Event{Rollback: &Rollback{Pos: n.pos, Of: by.Pos, Nodes: dead}})
	}
	if len(dead) > 0 {
		r.model.Drop(dead...)
	}
}

// commitTokens shows the tokens before which no escalation is open and that need no further verification, settles them
// in the model, and reports whether the text is over.
func (r *decodeRun) commitTokens() (over bool) {
	for !over && !r.out.stopped && r.isNextCertain() {
		next, reason := r.tip.children[0], r.tip.reason
		if e := r.tip.esc; e != nil {
			r.auditEscalation(e)
			r.out.emitEscalation(e)
			if r.out.stopped {
				r.tip.esc = nil // it has been emitted
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
	r.settleShown()
	if r.Preview && !over && !r.out.stopped {
		r.out.emitPreview(r.text, r.unshownTokens(r.lastCertain()))
	}
	return over || r.out.stopped
}

func (r *decodeRun) isNextCertain() bool {
	return r.tip.evaluated && !r.tip.hasOpenEscalation() && (!r.Verify || r.tip.children[0].looked)
}

func (r *decodeRun) showToken(next *node, reason *Reason) {
	r.recordComparison(next)
	r.tip = next
	r.text, r.origins = append(r.text, next.token), append(r.origins, next.origin)
	if r.promptLookup != nil {
		r.promptLookup.appendShown(next)
	}
	if s := next.by; s != nil {
		s.used++
	}
	origin, local, asked := next.origin, next.token, false
	if e := next.parent.esc; e != nil {
		local, asked = e.Local, e.Outcome != Unasked && e.Outcome != Known
	} else if next.turn != nil {
		local = next.turn.Local
	}
	if r.drafter != nil && !next.drafted {
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

func (r *decodeRun) settleShown() {
	end := r.tip
	if !end.evaluated {
		end = end.parent
	}
	nodes := pathBetween(r.base, end)
	if len(nodes) == 0 {
		return
	}
	ids := make([]ID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	r.model.Settle(ids...)
	r.base, end.parent = end, nil
}
