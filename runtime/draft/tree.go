package draft

import (
	"math"
	"slices"
)

// draftTree is a text and what is drafted after it.
//
//   - The tip is the last token of text. It has no open escalation before it and never changes.
//   - base is the end of the text that the model has settled. The tip is base, or its child until that is evaluated.
//   - The model holds the nodes below base that are evaluated and not dropped. All others are leaves, and of each leaf
//     the parent is evaluated.
//   - After an evaluated node comes a question, with guesses at its answer as children, or one child, which may have
//     alternatives.
//   - A node knows its position, router state, place and fact by its path alone, whenever it is made.
type draftTree struct {
	*rules
	sched   *scheduler
	model   Model
	text    []int32  // the prompt and the tokens shown
	origins []Origin // of the tokens shown
	last    ID       // given to a node
	base    *node
	tip     *node
}

func newDraftTree(o *rules, s *scheduler, m Model, prompt []int32) *draftTree {
	root := &node{
		pos: len(prompt) - 1, evaluated: true, fact: new(fact), since: len(prompt), looked: true, place: o.Place,
	}
	return &draftTree{rules: o, sched: s, model: m, text: slices.Clone(prompt), base: root, tip: root}
}

func (t *draftTree) addChild(n *node, token int32, confidence float32) *node {
	c := t.newChild(n, token, confidence)
	n.children = append(n.children, c)
	return c
}

func (t *draftTree) newChild(n *node, token int32, confidence float32) *node {
	t.last++
	c := &node{
		id: t.last, token: token, pos: n.pos + 1, parent: n, state: n.state, confidence: confidence, guess: 1,
		origin: Edge, end: t.End(token), known: t.sched.currentTime(), fact: n.fact, since: n.since,
	}
	if t.Dial != nil {
		c.state = t.Dial.Count(n.state, token != n.local)
	}
	if t.usesFacts() {
		c.fact = n.fact.childFact(token)
	}
	if n.place != nil {
		c.place = n.place.Behind(token)
	}
	if n.esc != nil {
		c.since = c.pos + 1
	}
	c.final = c.end || c.pos+1 >= t.limit
	return c
}

// newRow returns a guess at what follows parent, which is not in the tree.
func (t *draftTree) newRow(parent *node, token int32) *node {
	t.last++
	return &node{id: t.last, token: token, pos: parent.pos + 1, parent: parent}
}

func (t *draftTree) modelNodes(rows []*node) []Node {
	nodes := make([]Node, len(rows))
	for i, n := range rows {
		nodes[i] = Node{ID: n.id, Token: n.token, Pos: n.pos}
		for _, a := range pathBetween(t.base, n.parent) {
			nodes[i].Path = append(nodes[i].Path, a.id)
		}
	}
	return nodes
}

func (t *draftTree) markEvaluated(n *node, p *pass) {
	n.evaluated, n.pass = true, p
	p.live++
	for a := n; a != t.tip; a = a.parent {
		if a.parent.hasOpenEscalation() {
			a.parent.esc.Drafted++
		}
	}
}

func (t *draftTree) contextTokens(n *node) []int32 { return slices.Concat(t.text, t.unshownTokens(n)) }

// pathProbability returns the probability under the small model that n becomes part of the text: the product over the
// open escalations on its path, or 1.
func (t *draftTree) pathProbability(n *node) float64 {
	p := 1.0
	for ; n != t.tip; n = n.parent {
		if n.parent.hasOpenEscalation() || n.alt {
			p *= n.guess
		}
	}
	return p
}

// acceptProbability returns the probability under the small model that n becomes part of the text.
func (t *draftTree) acceptProbability(n *node) float64 {
	p := 1.0
	for ; n != t.tip; n = n.parent {
		if !n.looked {
			p *= n.sure
		}
	}
	return p
}

func (t *draftTree) unshownTokens(n *node) []int32 {
	var tail []int32
	for _, m := range pathBetween(t.tip, n) {
		tail = append(tail, m.token)
	}
	return tail
}

// maxDraftLength returns the number of tokens after n that can be evaluated: none is final, and all are in the window.
func (t *draftTree) maxDraftLength(n *node) int {
	end := t.limit - 2 // the last position but one
	return min(end, t.windowEnd(n)) - n.pos
}

// lastCertain returns the last token that certainly follows by the answers so far: it is not evaluated, or an open
// question follows. Without verification that is the tip.
func (t *draftTree) lastCertain() *node {
	n := t.tip
	for n.evaluated && !n.hasOpenEscalation() {
		n = n.children[0]
	}
	return n
}

// draftLeaves returns the tokens below the tip that are not evaluated, not final, and in the window.
func (t *draftTree) draftLeaves() (found []leaf) {
	var walk func(n *node)
	walk = func(n *node) {
		for _, c := range slices.Concat(n.children, n.alts) {
			switch {
			case c.evaluated:
				walk(c)
			case !c.final && c.pos <= t.windowEnd(c):
				found = append(found, leaf{c, t.pathProbability(c)})
			}
		}
	}
	walk(t.tip)
	return found
}

func (t *draftTree) windowEnd(n *node) int {
	end := math.MaxInt
	for a := n; a != t.tip; a = a.parent {
		if a.parent.hasOpenEscalation() {
			end = a.parent.pos + t.Window
		}
	}
	return end
}

func (t *draftTree) isNextCertain() bool {
	return t.tip.evaluated && !t.tip.hasOpenEscalation() && (!t.Verify || t.tip.children[0].looked)
}

func (t *draftTree) appendShown(next *node) {
	t.tip = next
	t.text, t.origins = append(t.text, next.token), append(t.origins, next.origin)
}

func (t *draftTree) settleShown() {
	end := t.tip
	if !end.evaluated {
		end = end.parent
	}
	nodes := pathBetween(t.base, end)
	if len(nodes) == 0 {
		return
	}
	ids := make([]ID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	t.model.Settle(ids...)
	t.base, end.parent = end, nil
}

// cutBranch takes the branch that begins with n out of use, and returns its nodes that the model holds, which the
// caller drops, and its questions. Its cost is added to by.
func (t *draftTree) cutBranch(n *node, by *escalation) (dead []ID, questions []*escalation) {
	var walk func(n *node)
	walk = func(n *node) {
		for _, c := range slices.Concat(n.children, n.alts) {
			walk(c)
		}
		if n.esc != nil {
			questions = append(questions, n.esc)
		}
		if n.check != nil && n.check.Outcome == inFlight {
			questions = append(questions, n.check)
		}
		if turn := n.turn; turn != nil {
			by.Wasted, by.Exposed = by.Wasted+turn.Wasted, by.Exposed+turn.Exposed
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
	return dead, questions
}
