package replay

import (
	"context"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Cloud returns the large model.
func (t *Text) Cloud() draft.Cloud { return replayCloud{t} }

// replayCloud is the large model of a recording.
type replayCloud struct{ t *Text }

func (c replayCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	t := c.t
	text := hashTokens(q.Context)
	like := t.p.recordedAsk(askKey{t.of.Mode, text, false})
	a := draft.Answer{BytesUp: like.BytesUp, BytesDown: like.BytesDown}
	a.Token = t.largeModelChoice(text)
	if q.AuditFrom > 0 {
		t.auditContext(q, &a)
	}
	arrived := t.awaitAnswer(ctx, q.Context, &like, func() bool {
		a.Queue, a.Compute = t.computeTimes(&like, q.Context)
		if t.link != nil && !t.sleepFor(ctx, a.Queue+a.Compute) {
			return false
		}
		if q.Ahead > 0 {
			a.Ahead = t.sendAhead(ctx, q, text, &a)
		}
		return true
	})
	if !arrived {
		return draft.Answer{BytesUp: a.BytesUp, BytesDown: a.BytesDown}, context.Cause(ctx)
	}
	a.Prefilled = len(q.Context) - longestCommonPrefix(t.served, q.Context)
	t.served = append(t.served, q.Context)
	return a, nil
}

func (c replayCloud) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	t := c.t
	like := t.p.recordedAsk(askKey{t.of.Mode, hashTokens(text), true})
	arrived := t.awaitAnswer(ctx, text, &like, func() bool {
		if t.link != nil {
			t.simulateReading(text)
		}
		return true
	})
	if !arrived {
		return like.BytesUp, 0, context.Cause(ctx)
	}
	t.served = append(t.served, text)
	return like.BytesUp, like.BytesDown, nil
}

// awaitAnswer waits until an answer arrives; false: ctx was done before. It calls there when the text is there, or
// without another link when the answer has arrived: the recorded time is that of both ways and of the cloud.
func (t *Text) awaitAnswer(ctx context.Context, text []int32, like *Ask, there func() bool) bool {
	if t.link == nil {
		d := like.Took
		if p := t.terms.CloudPace; p != nil && !like.Warm {
			d = max(0, d+*p-like.Cloud)
		}
		return t.sleepFor(ctx, d) && there()
	}
	message := hashTokens(text)
	if like.Warm {
		message++ // a text that was sent is not an ask
	} else if !t.sleepFor(ctx, t.p.own) {
		return false
	}
	return t.sendMessage(ctx, upwards, message, like.BytesUp) && there() &&
		t.sendMessage(ctx, downwards, message, like.BytesDown)
}

func (t *Text) computeTimes(like *Ask, context []int32) (queue, cloud time.Duration) {
	if t.terms.CloudPace == nil {
		return like.Queue, like.Cloud
	}
	if t.link == nil || t.p.readingTime(t.of.Question, len(context)) == 0 {
		return like.Queue, *t.terms.CloudPace
	}
	queue = max(0, t.busy-t.elapsedTime())
	return queue, t.simulateReading(context) - queue + *t.terms.CloudPace
}

// simulateReading simulates that the server reads the new part of a text, after what it is reading already, and returns
// how long that takes from now. The common beginning of all prompts was read before. The last token belongs to the pass
// that answers.
func (t *Text) simulateReading(text []int32) time.Duration {
	n := max(0, len(text)-1-max(t.p.shared, longestCommonPrefix(t.begun, text)))
	t.begun = append(t.begun, text)
	t.busy = max(t.busy, t.elapsedTime()) + t.p.readingTime(t.of.Question, n)
	return t.busy - t.elapsedTime()
}

// largeModelChoice returns the large model's choice after a text. If the recording does not have it, it is the small
// model's choice.
func (t *Text) largeModelChoice(text uint64) int32 {
	if token, known := t.p.said[text]; known {
		return token
	}
	t.Answers++
	t.assumed[text] = true
	h, _ := t.p.findHead(t.of.Question, text, false)
	return h.IDs[0]
}

// auditContext compares the tokens of a context with the large model's choices: all requested ones with verification,
// and else as many at the end as the recording has.
func (t *Text) auditContext(q draft.Question, a *draft.Answer) {
	from := min(q.AuditFrom, len(q.Context))
	texts := []uint64{hashTokens(q.Context[:from])}
	for _, id := range q.Context[from:] {
		texts = append(texts, extendHash(texts[len(texts)-1], id))
	}
	for pos := len(q.Context) - 1; pos >= from; pos-- {
		text := texts[pos-from]
		token, known := t.p.said[text]
		switch {
		case !known && q.Verify == terms.AsItComes:
			return
		case known && token == q.Context[pos]:
		case known && !q.Verify.Scored():
			a.Audit = append([]terms.Finding{{Pos: pos, Token: token}}, a.Audit...)
		default:
			gap, known := t.p.gaps[scoreKey{text, q.Context[pos], q.Verify}]
			if !known { // assumed to stand
				t.Answers++
				t.assumed[text] = true
				break
			}
			a.Audit = append([]terms.Finding{{Pos: pos, Token: token, Stands: -gap}}, a.Audit...)
		}
		a.Audited++
	}
}

func longestCommonPrefix(texts [][]int32, context []int32) (most int) {
	for _, text := range texts {
		most = max(most, terms.CommonPrefix(text, context))
	}
	return most
}

// sendAhead sends the tokens that the large model decodes after an answer, as far as the recording has its choices.
// They arrive in order.
func (t *Text) sendAhead(ctx context.Context, q draft.Question, message uint64, a *draft.Answer) <-chan int32 {
	text := extendHash(message, a.Token)
	if q.Verify == terms.EachChoice && len(a.Audit) > 0 {
		text = extendHash(hashTokens(q.Context[:a.Audit[0].Pos]), a.Audit[0].Token)
	}
	pace := t.p.pace
	if t.terms.CloudPace != nil {
		pace = *t.terms.CloudPace
	}
	to := make(chan int32, q.Ahead)
	senders, passed := 1, 0 // passed: tokens that were passed on
	end := func() {
		if senders--; senders == 0 {
			close(to)
		}
	}
	t.clock.Go(func() {
		defer end()
		for n := range q.Ahead {
			token, known := t.p.said[text]
			if !known || !t.sleepFor(ctx, pace) {
				return
			}
			senders++
			t.clock.Go(func() {
				defer end()
				if t.link != nil && !t.sendMessage(ctx, downwards, message+uint64(n)+2, 0) {
					return
				}
				if t.clock.Wait(time.Time{}, func() bool { return passed == n || ctx.Err() != nil }); passed == n {
					to <- token // there is room for all
					passed++
				}
			})
			if slices.Contains(t.p.Ends, token) {
				return
			}
			text = extendHash(text, token)
		}
	})
	return to
}
