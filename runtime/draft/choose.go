package draft

import (
	"cmp"
	"math"
	"slices"
)

// choose says which leaves of the draft tree the next forward call extends. None means that there is only waiting.
//
//   - Most probable first: a leaf saves time only if the text comes through it, and every leaf saves about the same.
//     The probability is the small model's, and only guesses at open escalations count in it: other tokens follow from
//     those for certain.
//   - Of equally probable ones the nearest to the tip first, since its token is shown first, then the oldest: so that
//     the choice is a function of the tree.
//   - As many as there are, up to Rows: another row costs little, as all share one reading of the weights.
//   - At most Window tokens past the oldest open escalation of its path: further drafting would hardly be reached by
//     the answer in time, and be dropped with a higher probability.
//   - At most the room that the model's memory has. Waiting for an answer makes room, as it drops branches, and a tip
//     without an open escalation has no tree beside it.
func (r *run) choose() []*node {
	if !r.tip.evaluated {
		return []*node{r.tip}
	}
	leaves := r.leaves()
	slices.SortFunc(leaves, func(a, b leaf) int {
		return cmp.Or(cmp.Compare(b.chance, a.chance), cmp.Compare(a.pos, b.pos), cmp.Compare(a.id, b.id))
	})
	leaves = leaves[:min(len(leaves), r.Rows, max(0, r.model.Room()))]
	nodes := make([]*node, len(leaves))
	for i, l := range leaves {
		nodes[i] = l.node
	}
	return nodes
}

// leaf is a token that can be evaluated, and the probability that the text comes through it.
type leaf struct {
	*node
	chance float64
}

// leaves returns the tokens below the tip that are not evaluated, that something may follow,
// and that lie in the window.
func (r *run) leaves() (found []leaf) {
	var walk func(n *node)
	walk = func(n *node) {
		for _, c := range n.children {
			switch {
			case c.evaluated:
				walk(c)
			case !c.final && c.pos <= r.horizon(c):
				found = append(found, leaf{c, r.chance(c)})
			}
		}
	}
	walk(r.tip)
	return found
}

// horizon is the last position on the path to n that the window allows. Verification asks soon enough where no question
// is open.
func (r *run) horizon(n *node) int {
	end := math.MaxInt
	for a := n; a != r.tip; a = a.parent {
		if a.parent.open() {
			end = a.parent.pos + r.Window
		}
	}
	return end
}
