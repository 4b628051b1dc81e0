package draft

import (
	"slices"
	"time"
)

// stream holds the tokens that the large model decodes after an answer: after the token that was asked for, or with
// [terms.EachChoice] after the first token that replaces another.
type stream struct {
	of               *escalation
	afterReplacement bool    // it follows a token that replaces another: the question may be dropped meanwhile
	at               *node   // the node before the first of tokens
	pos              int     // of the first of tokens
	tokens           []int32 // received so far; none before the answer
	fact             *fact   // after the last of them
	last             time.Time
	live             bool // more may come
	late             int  // tokens that came after its end
	used             int  // of the tokens, those that answered an escalation or verified a token
}

func (r *decodeRun) beginStream(e *escalation, res result) {
	s := e.stream
	if s == nil {
		return
	}
	token := res.answer.Token
	if c, found, ok := e.firstReplaced(res.answer); ok {
		s.afterReplacement, s.at, s.pos, s.fact, token = true, c.before, c.pos, c.before.fact, found.Token
	}
	r.appendToStream(s, res.at, token)
}

// The first token of a stream is the answer.
func (r *decodeRun) appendToStream(s *stream, at time.Time, tokens ...int32) {
	for _, t := range tokens {
		if len(s.tokens) > 0 {
			s.fact.recordChoice(t, s)
			r.lately.pace = at.Sub(s.last) / time.Duration(len(tokens))
		}
		s.tokens, s.fact = append(s.tokens, t), s.fact.childFact(t)
	}
	s.last = at
}

func (r *decodeRun) applyAhead(res result) {
	s := res.of.stream
	if !s.live {
		s.late = max(0, min(s.late+len(res.ahead), r.Ahead-len(s.tokens)))
		return
	}
	if res.ended {
		s.live = false
		return
	}
	for i, t := range res.ahead {
		if t < 0 || r.Vocab > 0 && int(t) >= r.Vocab || len(s.tokens)+i >= r.Ahead {
			res.ahead, s.live = res.ahead[:i], false // more may come before the ask ends
			res.of.cancel(ErrToken)
			break
		}
	}
	r.appendToStream(s, res.at, res.ahead...)
	r.applyFacts()
}

// streamAgrees reports whether the path to n passes through the place of a stream and equals its tokens as far as both
// go.
func (t *draftTree) streamAgrees(s *stream, n *node) bool {
	m := n
	for ; m != t.tip && m.pos > s.at.pos; m = m.parent {
		if i := m.pos - s.pos; i < len(s.tokens) && s.tokens[i] != m.token {
			return false
		}
	}
	if m != t.tip {
		return m == s.at
	}
	for i := 0; i < len(s.tokens) && s.pos+i <= t.tip.pos; i++ {
		if s.tokens[i] != t.text[s.pos+i] {
			return false
		}
	}
	return s.at.pos < t.tip.pos || s.at == t.tip
}

// answerExpectedAt returns when a stream is likely to deliver the token that e asks for, if it may. Before the answer
// the estimate uses the last waits; the zero time: unknown.
func (r *decodeRun) answerExpectedAt(s *stream, e *escalation) (at time.Time, may bool) {
	if ahead := e.Pos - s.pos; ahead >= 0 && ahead < len(s.tokens) && !e.at.allowsToken(s.tokens[ahead]) {
		return at, false // it has arrived, and is not allowed there
	}
	return r.tokenExpectedAt(s, e.at, e.Pos)
}

func (r *decodeRun) tokenExpectedAt(s *stream, n *node, pos int) (at time.Time, may bool) {
	ahead, typical := pos-s.pos, r.lately.median
	if !s.live || ahead < 0 || ahead == 0 && !s.of.checks || ahead >= r.Ahead || !r.tree.streamAgrees(s, n) {
		return at, false
	}
	switch {
	case len(s.tokens) > 0:
		return s.last.Add(time.Duration(ahead+1-len(s.tokens)) * r.lately.pace), true
	case typical == 0:
		return at, true
	}
	return s.of.sent.Add(typical + time.Duration(ahead)*r.lately.pace), true
}

// extraWaits is how much longer an escalation may wait for a stream than for an ask, in waits for an answer: an ask
// costs a pass over the weights of the large model, and bytes. With checks, text is not to be later than necessary.
func (r *decodeRun) extraWaits() int {
	if r.checksEnabled() {
		return 0
	}
	return 1
}

// waitsForStream reports whether an escalation waits for a stream or a check in place of an ask, and until when: at
// most half a deadline; the zero time: until these begin or end.
func (r *decodeRun) waitsForStream(e *escalation, now time.Time) (until time.Time, ok bool) {
	var patience time.Time
	typical := r.lately.median
	if r.Deadline > 0 {
		if patience = e.wanted.Add(r.questions.answerTimeout() / 2); !now.Before(patience) {
			return patience, false
		}
	}
	for _, s := range r.streams {
		at, may := r.answerExpectedAt(s, e)
		if !may {
			continue
		}
		if at.IsZero() {
			return patience, true
		}
		late := at.Add(typical)
		if r.Deadline > 0 && patience.Before(late) {
			late = patience
		}
		if now.Before(late) && !at.After(now.Add(time.Duration(1+r.extraWaits())*typical)) {
			return late, true
		}
	}
	return patience, r.checksEnabled() // the next check asks for it, and for all before it
}

func (r *decodeRun) hasLiveStream() bool {
	return slices.ContainsFunc(r.streams, func(s *stream) bool { return s.live })
}

// cancelUselessStreams ends streams that are of no use: those that the text has passed, or that contradict the whole
// draft tree.
func (r *decodeRun) cancelUselessStreams() {
	for _, s := range r.streams {
		if s.live && len(s.tokens) > 0 && (!r.tree.isStreamUseful(s) || r.checksEnabled() && r.isSuperseded(s)) {
			s.live = false
			s.of.cancel(errDropped)
		}
	}
}

func (t *draftTree) isStreamUseful(s *stream) bool {
	next := s.pos + len(s.tokens)
	if s.pos+t.Ahead <= t.tip.pos+1 {
		return false
	}
	var usefulBelow func(n *node) bool
	usefulBelow = func(n *node) bool {
		if len(n.children) == 0 {
			return (!n.final || next <= n.pos) && t.streamAgrees(s, n)
		}
		return slices.ContainsFunc(n.children, usefulBelow)
	}
	return usefulBelow(t.tip)
}

func (r *decodeRun) emitAhead() {
	for _, s := range r.streams {
		if n := max(0, len(s.tokens)-1) + s.late; n > 0 {
			r.out.emitEvent(Event{Ahead: &Ahead{Pos: s.pos + 1, Tokens: n, Used: s.used}})
		}
	}
}
