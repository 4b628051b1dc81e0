package replay

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// Cloud wraps the large model and records its answers. The result is a [draft.Warmer] if c is.
func (t *Take) Cloud(c draft.Cloud) draft.Cloud {
	if w, ok := c.(draft.Warmer); ok {
		return warmingCloud{asking{c, t}, w}
	}
	return asking{c, t}
}

// asking is a cloud with a recorder.
type asking struct {
	draft.Cloud
	t *Take
}

// warmingCloud can also prefill text early.
type warmingCloud struct {
	asking
	to draft.Warmer
}

// Ask implements [draft.Cloud].
func (c asking) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	t := c.t
	start, lag := t.asking()
	got, err := c.Cloud.Ask(ctx, q)
	end := t.r.now()
	one := Ask{
		Lag: lag, Took: end.Sub(start), From: q.AuditFrom, Verify: int(q.Verify),
		Wanted: q.Ahead, Token: got.Token, Audited: got.Audited,
		Queue: got.Queue, Cloud: got.Compute, BytesUp: got.BytesUp, BytesDown: got.BytesDown, Prefilled: got.Prefilled,
	}
	switch {
	case ctx.Err() != nil:
		one.GivenUp = true
	case err != nil:
		one.Error = short(err.Error())
	}
	for _, f := range got.Audit {
		one.Audit = append(one.Audit, Finding{f.Pos, f.Token, finite(f.LogProb)})
	}
	for _, c := range got.Top {
		one.Top = append(one.Top, Candidate{c.ID, finite(c.LogProb)})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one.Node = t.nodeAfter(q.Context)
	t.a.Asks = append(t.a.Asks, one)
	t.came = end
	if err == nil && got.Ahead != nil {
		got.Ahead = t.pass(ctx, got.Ahead, len(t.a.Asks)-1, start, max(q.Ahead, cap(got.Ahead)))
	}
	return got, err
}

// short returns the beginning of an error text.
func short(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most]
	}
	if s == "" {
		return "failed"
	}
	return s
}

// Warm implements [draft.Warmer].
func (c warmingCloud) Warm(ctx context.Context, text []int32) (up, down int, err error) {
	start := c.t.r.now()
	up, down, err = c.to.Warm(ctx, text)
	w := Warm{
		Tokens: len(text), Took: c.t.r.now().Sub(start),
		BytesUp: up, BytesDown: down, GivenUp: ctx.Err() != nil, Failed: err != nil && ctx.Err() == nil,
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.a.Warms = append(c.t.a.Warms, w)
	return up, down, err
}
