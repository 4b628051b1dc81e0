package replay

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// stream is the tokens that the large model decodes ahead after an answer.
type stream struct {
	t      *Text
	wanted int
	exact  *Ask   // the answered ask in the recording; nil: it has none
	text   uint64 // hash of the text so far
	length int    // of the text, in tokens
	sent   int
	last   time.Duration // when the last token was sent, after the answer
	over   bool
}

// ahead sends the tokens ahead of an answer.
func (t *Text) ahead(ctx context.Context, q draft.Question, text uint64, exact *Ask, a *draft.Answer) <-chan int32 {
	to := make(chan int32, q.Ahead)
	s := &stream{t: t, wanted: q.Ahead, text: then(text, a.Token), length: len(q.Context) + 1}
	if q.Verify == terms.EachChoice && len(a.Audit) > 0 {
		first := slices.MinFunc(a.Audit, func(a, b terms.Finding) int { return a.Pos - b.Pos })
		s.text, s.length = then(hashOf(q.Context[:first.Pos]), first.Token), first.Pos+1
	}
	if exact != nil && exact.answered() {
		s.exact = exact
	}
	begin := t.passed()
	t.clock.Go(func() {
		defer close(to)
		for s.more() {
			if !t.rest(ctx, begin+s.next()-t.passed()) {
				return
			}
			token := s.take()
			if t.pipe != nil && !t.carry(ctx, downwards, text+uint64(s.sent)+2, 0) {
				return
			}
			to <- token
		}
	})
	return to
}

// more reports whether the large model decodes another token.
func (s *stream) more() bool {
	ended := s.exact != nil && s.exact.Closed && s.sent == len(s.exact.Ahead) && s.sent < s.exact.Wanted
	return !s.over && s.sent < s.wanted && !ended
}

// next returns when the next token is sent, after the answer: as recorded, or at the usual pace, but not at a time at
// which the recorded stream was no longer read.
func (s *stream) next() time.Duration {
	switch e := s.exact; {
	case e == nil:
	case s.sent < len(e.Ahead):
		return max(s.last, e.Ahead[s.sent].At-e.Took)
	default:
		return max(s.last+s.t.p.pace, e.Until-e.Took+1)
	}
	return s.last + s.t.p.pace
}

// take returns the next token, which is sent now.
func (s *stream) take() int32 {
	s.last = s.next()
	token := s.t.says(s.text, s.length)
	s.text, s.length, s.sent = then(s.text, token), s.length+1, s.sent+1
	s.over = slices.Contains(s.t.p.Ends, token)
	return token
}
