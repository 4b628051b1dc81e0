package replay

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// later is a token that comes ahead, and when after the answer.
type later struct {
	token int32
	after time.Duration
}

// ahead sends the tokens that the large model decodes on by itself, as far as the recording tells what they are.
func (t *Text) ahead(ctx context.Context, q draft.Question, text uint64, exact *Ask, a *draft.Answer) <-chan int32 {
	to := make(chan int32, q.Ahead)
	all := t.follows(q, text, exact, a)
	begin := t.passed()
	t.clock.Go(func() {
		defer close(to)
		for i, l := range all {
			if !t.rest(ctx, begin+l.after-t.passed()) {
				return
			}
			if t.pipe != nil && !t.carry(ctx, downwards, text+uint64(i)+2, 0) {
				return
			}
			to <- l.token
		}
	})
	return to
}

// comes is when the token of number i comes, after the answer and not before the one that came last: as recorded, or at
// the usual pace, where nobody waited for it any more then.
func (t *Text) comes(exact *Ask, i int, token int32, last time.Duration) time.Duration {
	switch {
	case exact == nil || !exact.answered():
	case i < len(exact.Ahead) && exact.Ahead[i].Token == token:
		return max(last, exact.Ahead[i].At-exact.Took)
	case i >= len(exact.Ahead):
		return max(last+t.p.pace, exact.Until-exact.Took+1)
	}
	return last + t.p.pace
}

// follows are the tokens behind an answer, and their times: over a link, those at which they leave, as if the answer
// had left when it came.
func (t *Text) follows(q draft.Question, text uint64, exact *Ask, a *draft.Answer) (all []later) {
	text = then(text, a.Token)
	if q.Verify == draft.Choices && len(a.Audit) > 0 {
		first := slices.MinFunc(a.Audit, func(a, b draft.Finding) int { return a.Pos - b.Pos })
		text = then(hashOf(q.Context[:first.Pos]), first.Token)
	}
	last := time.Duration(0)
	for i := range q.Ahead {
		token, known := t.p.said[text]
		if !known {
			return all
		}
		if exact != nil && exact.answered() && i >= len(exact.Ahead) && exact.Closed && len(exact.Ahead) < exact.Wanted {
			return all
		}
		last = t.comes(exact, i, token, last)
		all = append(all, later{token, last})
		if slices.Contains(t.p.Ends, token) {
			return all
		}
		text = then(text, token)
	}
	return all
}
