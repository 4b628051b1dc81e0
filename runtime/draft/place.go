package draft

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Place says how tokens are chosen after a text: which tokens may follow, and which of them does. It is a function of
// the text alone and never changes, because drafts ask for many texts, in any order. One goroutine at a time calls it.
type Place interface {
	// Pick returns the small model's token at pos, which follows head.
	Pick(pos int, head *backend.Output) int32
	// Take returns the large model's token at pos, from its own choice and the best tokens that it gave; false if none
	// of these may follow. Without best tokens it is token.
	Take(pos int, token int32, top []terms.Candidate) (int32, bool)
	// Allows reports whether a token may follow.
	Allows(token int32) bool
	// Behind returns the place after one more token.
	Behind(token int32) Place
}

func (o *rules) pickToken(n *node, head *backend.Output) int32 {
	if n.place == nil {
		return o.Pick(n.pos+1, head)
	}
	return n.place.Pick(n.pos+1, head)
}

// tokenFromAnswer returns the token that an answer to e makes stand, and who chose it: the small model's if no token of
// the answer may stand.
//
// With verification only the answer's token counts, so that a fact from another answer gives the same token.
func (o *rules) tokenFromAnswer(e *escalation, a Answer) (token int32, origin Origin) {
	token, ok := a.Token, true
	switch p := e.at.place; {
	case p == nil:
	case o.Verify:
		ok = p.Allows(token)
	default:
		token, ok = p.Take(e.Pos, a.Token, a.Top)
	}
	if !ok || !o.allowsReplacement(e.at, token) {
		return e.Local, Edge
	}
	return token, FromCloud
}

// LogProbs are log-probabilities of the model that chose a token, before temperature and before any change by a
// [Place].
type LogProbs struct {
	Token float32           // of the token; NaN if the large model did not give it
	Top   []terms.Candidate // the best tokens, best first; none if it did not give them
}

// headLogProbs returns the log-probabilities of a token in a head; nil without [Options.Top].
func (o *rules) headLogProbs(head *backend.Output, token int32) *LogProbs {
	if o.Top == 0 {
		return nil
	}
	return &LogProbs{Token: tokenLogProb(head, token), Top: head.LogProbs(o.Top)}
}

// answerLogProbs returns the log-probabilities of a token in an answer; nil without [Options.Top].
func (o *rules) answerLogProbs(top []terms.Candidate, token int32) *LogProbs {
	if o.Top == 0 {
		return nil
	}
	s := &LogProbs{Token: float32(math.NaN()), Top: slices.Clip(top[:min(o.Top, len(top))])}
	for _, c := range top {
		if c.ID == token {
			s.Token = c.LogProb
		}
	}
	return s
}
