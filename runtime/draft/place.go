package draft

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Place says how tokens are chosen behind a text: which may follow, and which of them does. It is a function of the
// text alone and never changes, as drafts ask of many texts, in any order. One goroutine at a time calls it.
type Place interface {
	// Pick returns the small model's token at pos, which follows head.
	Pick(pos int, head *backend.Output) int32
	// Take returns the large model's token at pos, of which it is known what the model would choose by itself, and its
	// best tokens as far as it gave them; false if none of these may follow. It is another than token only where there
	// are best ones.
	Take(pos int, token int32, top []terms.Candidate) (int32, bool)
	// Allows reports whether a token may follow.
	Allows(token int32) bool
	// Behind returns the place behind one token more.
	Behind(token int32) Place
}

// pick returns the small model's token behind n.
func (r *run) pick(n *node, head *backend.Output) int32 {
	if n.place == nil {
		return r.Pick(n.pos+1, head)
	}
	return n.place.Pick(n.pos+1, head)
}

// allows reports whether a token may follow n.
func (n *node) allows(token int32) bool { return n.place == nil || n.place.Allows(token) }

// taken returns the token that the large model's answer to e comes to, and who chose it: it is the small model's where
// none of the answer may stand there.
//
// With verification only the answer's token counts: the same could be known from another answer, which tells no others.
func (r *run) taken(e *escalation, a Answer) (token int32, origin Origin) {
	token, ok := a.Token, true
	switch p := e.at.place; {
	case p == nil:
	case r.Verify:
		ok = p.Allows(token)
	default:
		token, ok = p.Take(e.Pos, a.Token, a.Top)
	}
	if !ok {
		return e.Local, Edge
	}
	return token, FromCloud
}

// possible leaves the guesses that may stand behind n.
func possible(n *node, all []guess) []guess {
	return slices.DeleteFunc(all, func(g guess) bool { return !n.allows(g.token) })
}

// LogProbs are what the model that chose a token says of it: log-probabilities, before temperature and all that a
// [Place] changes.
type LogProbs struct {
	Token float32           // of the token; NaN where the large model did not tell
	Top   []terms.Candidate // the best tokens, best first; none where it did not tell
}

// scored returns what a head says of a token; nil if nobody wants to know.
func (r *run) scored(head *backend.Output, token int32) *LogProbs {
	if r.Top == 0 {
		return nil
	}
	return &LogProbs{Token: logProb(head, token), Top: head.LogProbs(r.Top)}
}

// answered returns what an answer with its best tokens says of one.
func (r *run) answered(top []terms.Candidate, token int32) *LogProbs {
	if r.Top == 0 {
		return nil
	}
	s := &LogProbs{Token: float32(math.NaN()), Top: slices.Clip(top[:min(r.Top, len(top))])}
	for _, c := range top {
		if c.ID == token {
			s.Token = c.LogProb
		}
	}
	return s
}
