package draft

import (
	"cmp"
	"slices"
)

// chooseLeaves returns the leaves of the draft tree that the next forward call extends. None means to wait.
//
//   - Most probable first: a leaf saves time only if the text comes through it, and all leaves save about the same.
//     The probability is the small model's, of the guesses at open escalations: other tokens follow from them.
//   - Of equally probable ones the nearest to the tip first, as its token is shown first, then the oldest, so that the
//     choice is a function of the tree.
//   - Up to Rows leaves: a further row costs little, as all share one pass over the weights.
//   - Up to Window tokens past the oldest open escalation of the path: later ones are more likely to be dropped.
//   - Up to the room of the model's memory. An answer makes room, as it drops branches, and a tip without an open
//     escalation has no tree beside it.
func (r *decodeRun) chooseLeaves() []*node {
	if !r.tree.tip.evaluated {
		return []*node{r.tree.tip}
	}
	if r.model.Room() <= r.Rows {
		r.dropAlternatives()
	}
	leaves := r.appendAlternatives(r.tree.draftLeaves())
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

// leaf is a token that can be evaluated, and the probability that it becomes part of the text.
type leaf struct {
	*node
	chance float64
}
