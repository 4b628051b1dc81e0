package replay

import (
	"context"
	"errors"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// ErrRecorded is the error of an ask that failed in the recording.
var ErrRecorded = errors.New("as in the recording")

// Cloud returns the large model.
func (t *Text) Cloud() draft.Cloud { return cloud{t} }

// cloud is the large model of a recording.
type cloud struct{ t *Text }

// Ask implements [draft.Cloud].
func (c cloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	t := c.t
	text := hashOf(q.Context)
	exact, like := t.exact(text)
	worked := t.passed() - t.work // time of the program until it asked that has passed already
	if exact != nil && exact.Error != "" && t.pipe == nil {
		t.rest(ctx, max(0, exact.Lag-worked+exact.Took))
		return draft.Answer{}, ErrRecorded
	}
	a := t.answer(q, text, exact, like)
	onward := func() {
		if q.Ahead > 0 {
			a.Ahead = t.ahead(ctx, q, text, exact, &a)
		}
	}
	if !t.travel(ctx, q.Context, exact, like, worked, &a, onward) {
		if exact != nil && !exact.answered() {
			a.BytesUp, a.BytesDown = exact.BytesUp, exact.BytesDown
		}
		return draft.Answer{BytesUp: a.BytesUp, BytesDown: a.BytesDown}, context.Cause(ctx)
	}
	if exact == nil || !exact.answered() {
		a.Prefilled = len(q.Context) - common(t.served, q.Context)
	}
	t.served = append(t.served, q.Context)
	return a, nil
}

// exact returns the recorded ask with this context, nil if there is none, and an ask to take times from.
func (t *Text) exact(text uint64) (exact, like *Ask) {
	if t.from != nil {
		exact = t.from.asks[text]
	}
	if exact != nil && exact.answered() {
		return exact, exact
	}
	t.AskTimes++
	if like = t.p.ask(t.of.Mode, text); like == nil {
		like = new(Ask)
	}
	return exact, like
}

// compute returns how long an ask waits at the large model, and how long it is computed, if it arrives now.
func (t *Text) compute(like *Ask, context []int32) (queue, cloud time.Duration) {
	if t.terms.CloudPace == nil {
		return like.Queue, like.Cloud
	}
	if t.pipe == nil || t.p.reading(t.of.Question, len(context)) == 0 {
		return like.Queue, *t.terms.CloudPace
	}
	queue = max(0, t.busy-t.passed())
	return queue, t.read(context) - queue + *t.terms.CloudPace
}

// read simulates that the server reads the new part of a text, after what it is reading already, and returns how long
// that takes from now. The common beginning of all prompts was read before. The last token belongs to the pass that
// answers.
func (t *Text) read(text []int32) time.Duration {
	n := max(0, len(text)-1-max(t.p.shared, common(t.begun, text)))
	t.begun = append(t.begun, text)
	t.busy = max(t.busy, t.passed()) + t.p.reading(t.of.Question, n)
	return t.busy - t.passed()
}

// travel waits until an answer arrives, and fills in its times; false: ctx was done before. It calls onward when tokens
// after the answer can follow: when the answer is on its way, or without another link when it has arrived, which the
// recorded times of such tokens count from.
func (t *Text) travel(
	ctx context.Context, context []int32, exact, like *Ask, worked time.Duration, a *draft.Answer, onward func(),
) bool {
	if t.pipe == nil {
		a.Queue, a.Compute = t.compute(like, context)
		if !t.rest(ctx, t.asRecorded(exact, like, worked)) {
			return false
		}
		onward()
		return true
	}
	own, text := t.p.own, hashOf(context)
	if !t.rest(ctx, own.lag-worked+own.way) || !t.carry(ctx, upwards, text, a.BytesUp) {
		return false
	}
	a.Queue, a.Compute = t.compute(like, context)
	if !t.rest(ctx, a.Queue+a.Compute) {
		return false
	}
	onward()
	return t.carry(ctx, downwards, text, a.BytesDown)
}

// asRecorded returns the time of an ask over the recorded link.
func (t *Text) asRecorded(exact, like *Ask, worked time.Duration) time.Duration {
	d := like.Lag - worked + like.Took
	if t.terms.CloudPace != nil {
		d += *t.terms.CloudPace - like.Cloud
	}
	if exact != nil && !exact.answered() { // it was abandoned before the answer arrived
		d = max(d, exact.Lag-worked+exact.Took+1)
	}
	return max(0, d)
}

// answer returns the large model's answer, without times.
func (t *Text) answer(q draft.Question, text uint64, exact, like *Ask) draft.Answer {
	a := draft.Answer{
		BytesUp: like.BytesUp, BytesDown: like.BytesDown, Prefilled: like.Prefilled,
	}
	if exact != nil && exact.answered() {
		a.Token = exact.Token
	} else {
		a.Token = t.says(text, len(q.Context))
	}
	if exact != nil && exact.answered() && exact.From == q.AuditFrom && exact.Verify == int(q.Verify) {
		a.Audited = exact.Audited
		for _, f := range exact.Audit {
			if f.Pos < len(q.Context) {
				a.Audit = append(a.Audit, terms.Finding{Pos: f.Pos, Token: f.Token, LogProb: f.LogProb})
			}
		}
		for _, c := range exact.Top {
			a.Top = append(a.Top, terms.Candidate(c))
		}
		return a
	}
	if q.AuditFrom > 0 {
		t.audit(q, &a)
	}
	return a
}

// says returns the large model's choice after a text of length tokens. If the recording does not have it, it is the
// small model's choice.
func (t *Text) says(text uint64, length int) int32 {
	if token, known := t.p.said[text]; known {
		return token
	}
	t.Answers++
	t.guessed[text] = true
	h, _ := t.p.head(t.of.Question, length-1, text, false)
	return h.IDs[0]
}

// audit compares the tokens of a context with the large model's choices: all requested ones with verification, and else
// as many at the end as the recording has.
func (t *Text) audit(q draft.Question, a *draft.Answer) {
	from := min(q.AuditFrom, len(q.Context))
	texts := []uint64{hashOf(q.Context[:from])}
	for _, id := range q.Context[from:] {
		texts = append(texts, then(texts[len(texts)-1], id))
	}
	for pos := len(q.Context) - 1; pos >= from; pos-- {
		text := texts[pos-from]
		token, known := t.p.said[text]
		switch {
		case !known && q.Verify == terms.AsItComes:
			return
		case !known: // assumed to be the token in the text
			t.Answers++
			t.guessed[text] = true
		case token != q.Context[pos]:
			a.Audit = append([]terms.Finding{{Pos: pos, Token: token}}, a.Audit...)
		}
		a.Audited++
	}
}

// common returns the length of the longest common prefix of a context with one of some texts.
func common(texts [][]int32, context []int32) (most int) {
	for _, text := range texts {
		most = max(most, terms.CommonPrefix(text, context))
	}
	return most
}

// Warm implements [draft.Warmer].
func (c cloud) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	t := c.t
	exact, like := t.warm(len(text))
	ok := false
	switch {
	case t.pipe != nil:
		key := hashOf(text) + 1 // a text that was sent is not an ask
		if ok = t.carry(ctx, upwards, key, like.BytesUp); ok {
			t.read(text)
			ok = t.carry(ctx, downwards, key, like.BytesDown)
		}
	case exact != nil && exact.GivenUp:
		ok = t.rest(ctx, max(like.Took, exact.Took+1))
	default:
		ok = t.rest(ctx, like.Took)
	}
	switch {
	case !ok && exact != nil:
		return exact.BytesUp, exact.BytesDown, context.Cause(ctx)
	case !ok:
		return like.BytesUp, 0, context.Cause(ctx)
	case exact != nil && exact.Failed && t.pipe == nil:
		return exact.BytesUp, exact.BytesDown, ErrRecorded
	}
	t.served = append(t.served, text)
	return like.BytesUp, like.BytesDown, nil
}

// warm returns the recorded sending of a text of this length, nil if there is none, and one to take times from.
func (t *Text) warm(tokens int) (exact, like *Warm) {
	if t.from != nil {
		for i := range t.from.Warms {
			if w := &t.from.Warms[i]; w.Tokens == tokens {
				exact = w
			}
		}
	}
	switch all := t.p.warms; {
	case exact != nil && !exact.GivenUp:
		return exact, exact
	case len(all) > 0:
		return exact, all[pick(uint64(tokens), uint64(t.of.Question), len(all))]
	}
	return exact, new(Warm)
}
