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
		last += t.p.pace
		if exact != nil && exact.answered() && i < len(exact.Ahead) && exact.Ahead[i].Token == token {
			last = max(0, exact.Ahead[i].At-exact.Took)
		}
		all = append(all, later{token, last})
		if slices.Contains(t.p.Ends, token) {
			return all
		}
		text = then(text, token)
	}
	return all
}
