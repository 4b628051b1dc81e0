package engine

import (
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// detokenizer turns the events of decoding into tokens with text. It holds back text that may be the beginning of a
// stop string.
type detokenizer struct {
	s       *Session
	r       Route
	yield   func(Token) bool
	start   time.Time
	lead    time.Duration // from the call until decoding began
	decoder *tokenizer.Decoder
	kinds   *tokenizer.Thoughts
	stop    stopper
	text    strings.Builder // of all tokens that were shown
	seen    []float32       // confidences of all tokens, if there is a router
	stopped bool            // a stop string ended the text
	more    bool            // the caller takes more tokens

	unanswered int         // tokens that stand because a question had no reply
	replaced   int         // tokens of the large model that are not the small one's
	verified   func() bool // whether the large model verified the text
}

func (n *detokenizer) handleEvent(e draft.Event) bool {
	if n.r.Observe != nil {
		n.r.Observe(e)
	}
	t := e.Token
	if t != nil && n.r.Router != nil {
		n.seen = append(n.seen, t.Confidence)
		switch {
		case t.Origin == draft.EdgeTimeout:
			n.unanswered++
		case t.Origin == draft.FromCloud && t.ID != t.Local:
			n.replaced++
		}
	}
	switch {
	case t == nil:
		return true
	case t.End && !n.r.IgnoreEnd:
		n.s.end = new(n.buildToken(t, e.At))
		return true
	}
	return n.showToken(t, e.At)
}

// addToBudget adds the answer to the balance of the router's budget: the questions that had a reply, or with the policy
// verify the tokens that were replaced. An answer with a margin of its own changes nothing.
func (n *detokenizer) addToBudget() {
	n.s.summary.Verified, n.s.summary.Unlike = n.verified(), n.r.Router != nil && n.r.Router.Unlike()
	if n.r.Router == nil || n.r.Router.Balance() == nil || n.r.Draft.Verify {
		return
	}
	a := router.Answer{Tokens: n.s.summary.Tokens, Escalations: n.replaced, Confidences: n.seen}
	if !n.verified() {
		a = n.r.Router.Spent(n.seen, n.s.summary.Tokens)
		a.Escalations -= n.unanswered
	}
	n.r.Router.Add(a)
	n.s.summary.Spent = a
}

// buildToken leaves the text empty. at is when the token was known, since decoding began.
func (n *detokenizer) buildToken(t *draft.Token, at time.Duration) Token {
	out := Token{
		Pos: t.Pos, ID: t.ID, Origin: string(t.Origin), Local: t.Local, Asked: t.Asked, Unverified: t.Unverified,
		Confidence: t.Confidence, At: n.lead + at,
	}
	if p := t.LogProbs; p != nil {
		out.LogProb, out.Top = p.Token, p.Top[:min(n.r.Top, len(p.Top))]
	}
	return out
}

// showToken shows a token, unless a stop string may begin in it.
func (n *detokenizer) showToken(t *draft.Token, at time.Duration) bool {
	s := n.s
	if s.summary.Tokens == 0 {
		s.summary.PromptTime = s.now().Sub(n.start)
	}
	s.summary.Tokens++
	switch t.Origin {
	case draft.FromCloud:
		s.summary.CloudTokens++
	case draft.EdgeTimeout:
		s.summary.Timeouts++
	}
	one := n.buildToken(t, at)
	one.Text, one.Kind = n.decoder.Push(t.ID), string(n.kinds.Next(t.ID))
	s.publishSummary()
	some := []Token{one}
	if one.Kind == string(tokenizer.Answer) { // a thought ends at no stop string
		some, n.stopped = n.stop.pushToken(one)
	} else {
		s.summary.Thought++
		s.summary.AnswerAt += len(one.Text)
	}
	n.more = n.yieldTokens(some) && !s.isClosed()
	return n.more && !n.stopped
}

func (n *detokenizer) yieldTokens(tokens []Token) bool {
	for _, t := range tokens {
		if n.text.WriteString(t.Text); !n.yield(t) {
			return false
		}
	}
	return true
}

// finishText shows the text that was held back, unless decoding failed or a stop string ended the text, and completes
// the summary.
func (n *detokenizer) finishText(stop string, well bool) {
	if n.s.summary.Stop = stop; n.stopped {
		n.s.summary.Stop, n.s.summary.Stopped = StopString, n.stop.found
	} else {
		if well && n.more {
			n.yieldTokens(n.stop.pending)
		}
		n.text.WriteString(n.decoder.Flush())
	}
	n.s.summary.Text = n.text.String()
}
