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

func (n *node) allowsToken(token int32) bool { return n.place == nil || n.place.Allows(token) }

// pathBetween returns the nodes from the first after root to n.
func pathBetween(root, n *node) []*node {
	var p []*node
	for ; n != root; n = n.parent {
		p = append(p, n)
	}
	slices.Reverse(p)
	return p
}
