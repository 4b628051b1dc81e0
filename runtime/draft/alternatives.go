package draft

import (
	"cmp"
	"slices"
)

// Alternatives. Verification can replace any token of the small model, also one that the router let stand. While the
// verdict is under way, spare rows draft on from tokens that may take its place: the small model's next best ones. If
// one of them does, its branch is the draft, and the time until then was not in vain. Where there is an open
// escalation, its guesses are branches already.

// alternative is a token that may take the place of the one after a node.
type alternative struct {
	at     *node
	token  guess
	chance float64
}

func (r *decodeRun) appendAlternatives(leaves []leaf) []leaf {
	if !r.checksEnabled() || len(leaves) == 0 {
		return leaves
	}
	room := min(r.Rows, r.model.Room()-r.Rows) - len(leaves)
	var rows, others []float64
	for i := range leaves {
		leaves[i].chance = r.tree.acceptProbability(leaves[i].node)
		rows = append(rows, leaves[i].chance)
	}
	all := r.tree.findAlternatives()
	slices.SortStableFunc(all, func(a, b alternative) int { return cmp.Compare(b.chance, a.chance) })
	for _, o := range all[:min(len(all), max(0, room))] {
		others = append(others, o.chance)
	}
	for _, o := range all[:chooseExtraRows(rows, others, r.guesser.cost.Curve(r.Rows))] {
		n := r.tree.insertAlternative(o)
		leaves = append(leaves, leaf{n, o.chance})
	}
	return leaves
}

// chooseExtraRows returns how many of further rows, in falling order of their probability, a forward call should have
// beside rows that it has anyway. curve is what calls of 1, 2, … rows cost, in calls of one row.
//
// Until the verdict comes after a delay D, calls of n rows draft D/c(n) tokens on each. The text comes through one of
// them with the probability Σp. So D/c(n)·Σp tokens are there when the verdict comes, and no other number of rows has
// more than the one with the greatest
//
//	E(n) = Σp/c(n).
//
// Of all sets of n rows the most probable ones have the greatest sum. D only scales E, so it does not matter here: it
// says how much there is to gain.
func chooseExtraRows(rows, others, curve []float64) (best int) {
	sum := 0.0
	for _, p := range rows {
		sum += p
	}
	most := sum / curve[min(len(rows), len(curve))-1]
	for k, p := range others[:max(0, min(len(others), len(curve)-len(rows)))] {
		if sum += p; sum/curve[len(rows)+k] > most {
			most, best = sum/curve[len(rows)+k], k+1
		}
	}
	return best
}

func (t *draftTree) findAlternatives() (all []alternative) {
	var walk func(n *node, hope float64)
	walk = func(n *node, hope float64) {
		if !n.evaluated {
			return
		}
		if len(n.children) > 0 && !n.children[0].looked && n.pos+1 < t.windowEnd(n) {
			for _, g := range n.others {
				all = append(all, alternative{n, g, hope * g.p})
			}
		}
		for _, c := range slices.Concat(n.children, n.alts) {
			if c.looked {
				walk(c, hope)
			} else {
				walk(c, hope*c.sure)
			}
		}
	}
	walk(t.tip, 1)
	return all
}

func (t *draftTree) insertAlternative(o alternative) *node {
	n := o.at
	c := t.newChild(n, o.token.token, n.children[0].confidence)
	c.guess, c.sure, c.alt = o.token.p, o.token.p, true
	c.since = c.pos + 1 // as after [decodeRun.replaceToken], since it is of use only then
	n.alts = append(n.alts, c)
	n.others = slices.DeleteFunc(n.others, func(g guess) bool { return g.token == c.token })
	return c
}

func (r *decodeRun) acceptChild(n *node) {
	n.children[0].looked = true
	for _, a := range n.alts {
		r.dropBranch(a, &r.fanned)
	}
	n.alts, n.others = nil, nil
}

// takeAlternative returns the alternative after n with a token, which then is none anymore; nil if there is none.
func (n *node) takeAlternative(token int32) *node {
	i := slices.IndexFunc(n.alts, func(a *node) bool { return a.token == token })
	if i < 0 {
		return nil
	}
	a := n.alts[i]
	n.alts, a.alt = slices.Delete(n.alts, i, i+1), false
	return a
}

func (r *decodeRun) dropAlternatives() {
	for _, a := range r.tree.takeAlternatives() {
		r.dropBranch(a, &r.fanned)
	}
}

// takeAlternatives returns all alternatives, which then are none anymore; no further ones will be made beside them.
func (t *draftTree) takeAlternatives() (all []*node) {
	var walk func(n *node)
	walk = func(n *node) {
		all = append(all, n.alts...)
		n.alts, n.others = nil, nil
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(t.tip)
	return all
}
