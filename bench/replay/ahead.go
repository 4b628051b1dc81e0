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
	way := &ordered{to: to}
	t.clock.Go(func() {
		defer func() { way.end(true) }()
		for s.more() {
			if !t.rest(ctx, begin+s.next()-t.passed()) {
				way.close()
				return
			}
			token, message := s.take(), text+uint64(s.sent)+2
			way.sent = append(way.sent, passing{token: token})
			number := len(way.sent) - 1
			if t.pipe == nil {
				way.arrive(number)
				continue
			}
			t.clock.Go(func() {
				if t.carry(ctx, downwards, message, 0) {
					way.arrive(number)
				} else {
					way.close()
				}
			})
		}
	})
	return to
}

// ordered passes on tokens in the order in which they were sent, although they may arrive in another one.
type ordered struct {
	to     chan int32
	sent   []passing
	next   int  // number of the next one to pass on
	ended  bool // no more are sent
	closed bool
}

// passing is a token on its way.
type passing struct {
	token   int32
	arrived bool
}

// arrive notes that a token has arrived, and passes on those that no earlier one is missing of.
func (o *ordered) arrive(number int) {
	o.sent[number].arrived = true
	for !o.closed && o.next < len(o.sent) && o.sent[o.next].arrived {
		o.to <- o.sent[o.next].token // there is room for all
		o.next++
	}
	o.end(o.ended)
}

// end closes the channel after the last token, if no more are sent.
func (o *ordered) end(ended bool) {
	if o.ended = ended; ended && o.next == len(o.sent) {
		o.close()
	}
}

// close closes the channel, once.
func (o *ordered) close() {
	if !o.closed {
		o.closed = true
		close(o.to)
	}
}

// more reports whether the large model decodes another token.
func (s *stream) more() bool {
	ended := s.exact != nil && s.exact.Closed && s.sent == len(s.exact.Ahead) && s.sent < s.exact.Wanted
	return !s.over && s.sent < s.wanted && !ended
}

// next returns when the next token is sent, after the answer: at another pace if one is given, or else as recorded or
// at the usual pace, but not at a time at which the recorded stream was no longer read.
func (s *stream) next() time.Duration {
	switch e, pace := s.exact, s.t.terms.CloudPace; {
	case pace != nil:
		return s.last + *pace
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
