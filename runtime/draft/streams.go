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

// aheadStreams are the streams of tokens ahead of one text.
//
//   - The tokens of a stream are a path of facts from the place where it begins, which need not be on the draft tree.
//   - A stream is live from when its question is sent until the large model sends no more, the question is dropped
//     before its answer, or no path of the draft tree lacks its next token. It has at most Ahead tokens.
//   - What comes later is only counted: streams that have ended stay in the list.
type aheadStreams struct {
	*rules
	tree   *draftTree // which they are compared with
	lately *Waits
	all    []*stream
}

// openStream begins the stream of a question that is about to be sent.
func (l *aheadStreams) openStream(e *escalation) {
	e.stream = &stream{of: e, at: e.at, pos: e.Pos, fact: e.at.fact, live: true}
	l.all = append(l.all, e.stream)
}

func (l *aheadStreams) beginStream(e *escalation, res result) {
	s := e.stream
	if s == nil {
		return
	}
	token := res.answer.Token
	if c, found, ok := e.firstReplaced(res.answer); ok {
		s.afterReplacement, s.at, s.pos, s.fact, token = true, c.before, c.pos, c.before.fact, found.Token
	}
	l.appendToStream(s, res.at, token)
}

// The first token of a stream is the answer.
func (l *aheadStreams) appendToStream(s *stream, at time.Time, tokens ...int32) {
	for _, t := range tokens {
		if len(s.tokens) > 0 {
			s.fact.recordChoice(t, s)
			l.lately.pace = at.Sub(s.last) / time.Duration(len(tokens))
		}
		s.tokens, s.fact = append(s.tokens, t), s.fact.childFact(t)
	}
	s.last = at
}

// applyAhead adds the tokens of a result to its stream, and reports whether there may be new facts.
func (l *aheadStreams) applyAhead(res result) bool {
	s := res.of.stream
	if !s.live {
		s.late = max(0, min(s.late+len(res.ahead), l.Ahead-len(s.tokens)))
		return false
	}
	if res.ended {
		s.live = false
		return false
	}
	for i, t := range res.ahead {
		if t < 0 || l.Vocab > 0 && int(t) >= l.Vocab || len(s.tokens)+i >= l.Ahead {
			res.ahead, s.live = res.ahead[:i], false // more may come before the ask ends
			res.of.cancel(ErrToken)
			break
		}
	}
	l.appendToStream(s, res.at, res.ahead...)
	return true
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
func (l *aheadStreams) answerExpectedAt(s *stream, e *escalation) (at time.Time, may bool) {
	if ahead := e.Pos - s.pos; ahead >= 0 && ahead < len(s.tokens) && !e.at.allowsToken(s.tokens[ahead]) {
		return at, false // it has arrived, and is not allowed there
	}
	return l.tokenExpectedAt(s, e.at, e.Pos)
}

func (l *aheadStreams) tokenExpectedAt(s *stream, n *node, pos int) (at time.Time, may bool) {
	ahead, typical := pos-s.pos, l.lately.median
	if !s.live || ahead < 0 || ahead == 0 && !s.of.checks || ahead >= l.Ahead || !l.tree.streamAgrees(s, n) {
		return at, false
	}
	switch {
	case len(s.tokens) > 0:
		return s.last.Add(time.Duration(ahead+1-len(s.tokens)) * l.lately.pace), true
	case typical == 0:
		return at, true
	}
	return s.of.sent.Add(typical + time.Duration(ahead)*l.lately.pace), true
}

// extraWaits is how much longer an escalation may wait for a stream than for an ask, in waits for an answer: an ask
// costs a pass over the weights of the large model, and bytes. With checks, text is not to be later than necessary.
func (l *aheadStreams) extraWaits() int {
	if l.checksEnabled() {
		return 0
	}
	return 1
}

// waitsForStream reports whether an escalation waits for a stream or a check in place of an ask, and until when: at
// most half of timeout, that of a question; the zero time: until these begin or end.
func (l *aheadStreams) waitsForStream(
	e *escalation, now time.Time, timeout time.Duration,
) (until time.Time, ok bool) {
	var patience time.Time
	typical := l.lately.median
	if l.Deadline > 0 {
		if patience = e.wanted.Add(timeout / 2); !now.Before(patience) {
			return patience, false
		}
	}
	for _, s := range l.all {
		at, may := l.answerExpectedAt(s, e)
		if !may {
			continue
		}
		if at.IsZero() {
			return patience, true
		}
		late := at.Add(typical)
		if l.Deadline > 0 && patience.Before(late) {
			late = patience
		}
		if now.Before(late) && !at.After(now.Add(time.Duration(1+l.extraWaits())*typical)) {
			return late, true
		}
	}
	return patience, l.checksEnabled() // the next check asks for it, and for all before it
}

func (l *aheadStreams) hasLiveStream() bool {
	return slices.ContainsFunc(l.all, func(s *stream) bool { return s.live })
}

// cancelUselessStreams ends streams that are of no use: those that the text has passed, or that contradict the whole
// draft tree.
func (l *aheadStreams) cancelUselessStreams() {
	for _, s := range l.all {
		if s.live && len(s.tokens) > 0 && (!l.tree.isStreamUseful(s) || l.checksEnabled() && l.isSuperseded(s)) {
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

func (l *aheadStreams) emitAhead(o *outputStream) {
	for _, s := range l.all {
		if n := max(0, len(s.tokens)-1) + s.late; n > 0 {
			o.emitEvent(Event{Ahead: &Ahead{Pos: s.pos + 1, Tokens: n, Used: s.used}})
		}
	}
}

func (l *aheadStreams) isSuperseded(s *stream) bool {
	for _, t := range l.all {
		at := t.at
		if at.pos <= l.tree.tip.pos {
			at = l.tree.tip
		}
		next, other := s.pos+len(s.tokens), t.pos+len(t.tokens)
		if t != s && t.live && len(t.tokens) > 0 && t.pos >= s.pos &&
			(other > next || other == next && t.pos > s.pos) && l.tree.streamAgrees(s, at) && l.tree.isStreamUseful(t) {
			return true
		}
	}
	return false
}
