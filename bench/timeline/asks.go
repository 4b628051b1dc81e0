package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// drawTokens draws the tokens: from drafting to showing, and within that from settling to showing. A token is settled
// when its own question and the earlier ones have been answered. It returns the bars by position.
func (d *drawing) drawTokens() map[int]*bar {
	answered := d.settleTimes()
	settled, next := time.Duration(0), 0
	bars := map[int]*bar{}
	for _, e := range d.t.events {
		t := e.Token
		if t == nil {
			continue
		}
		for ; next < len(answered) && answered[next].pos <= t.Pos; next++ {
			settled = max(settled, answered[next].at)
		}
		at := d.t.zero + e.At
		to := min(at, d.wall)
		from := max(min(at-t.CommitDelay, to-least), 0)
		bars[t.Pos] = d.addBar(text,
			span{"token", from, to, args{
				"pos": t.Pos, "id": t.ID, "origin": t.Origin, "confidence": t.Confidence, "end": t.End,
				"unverified":      t.Unverified,
				"commit_delay_ms": inMilliseconds(t.CommitDelay),
			}},
			settledSpan(from, settled, to))
	}
	return bars
}

func settledSpan(drafted, settled, shown time.Duration) span {
	if settled <= drafted {
		return span{}
	}
	return span{"settled", settled, shown, nil}
}

// settledPosition is the time when the question about a position was answered, or abandoned.
type settledPosition struct {
	pos int
	at  time.Duration
}

func (d *drawing) settleTimes() (all []settledPosition) {
	for _, e := range d.t.events {
		if q := e.Escalation; q != nil && wasReached(q) {
			all = append(all, settledPosition{q.Pos, d.t.zero + q.Decided + q.Held + q.Wait})
		}
	}
	slices.SortFunc(all, func(a, b settledPosition) int { return cmp.Compare(a.pos, b.pos) })
	return all
}

// wasReached reports whether the text reached an escalation: it was neither dropped nor a probe or a check.
func wasReached(q *draft.Escalation) bool {
	return q.Outcome != draft.Dropped && q.Outcome != draft.Probed && q.Outcome != draft.Probing &&
		q.Outcome != draft.Checked
}

func (d *drawing) drawAsks(tokens map[int]*bar) {
	for _, e := range d.t.events {
		if w := e.Warming; w != nil {
			from := d.t.zero + w.Began
			d.addBar(asks, span{"sent early", from, from + w.Took, args{
				"tokens": w.Tokens, "new": w.New, "bytes_up": w.BytesUp, "bytes_down": w.BytesDown,
				"error": errorText(w.Err),
			}})
		}
		q := e.Escalation
		if q == nil || q.Outcome == draft.Known || q.Outcome == draft.Unasked {
			continue
		}
		d.drawAsk(q, tokens[q.Pos])
	}
}

// errorText returns the text of an error, nil without one.
func errorText(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

func (d *drawing) drawAsk(q *draft.Escalation, token *bar) {
	decided := d.t.zero + q.Decided
	left := decided + q.Held
	ask := d.addBar(asks, span{"held", decided, left, args{"pos": q.Pos}}, span{"ask", left, left + q.Wait, askArgs(q)})
	answer := q.Outcome == draft.Hit || q.Outcome == draft.Miss || q.Outcome == draft.Probed ||
		q.Outcome == draft.Checked
	if ask == nil || !answer || q.ByAhead {
		return
	}
	w := d.t.computeAskTimes(q, left, min(left+q.Wait, d.wall))
	of := args{"pos": q.Pos, "clock": w.clock}
	if w.within > 0 {
		of["clock_within_us"] = float64(w.within) / float64(time.Microsecond)
	}
	d.addBar(up, span{"ask", w.left, w.received, args{"pos": q.Pos, "bytes": q.BytesUp, "clock": w.clock}})
	back := d.addBar(down, span{"answer", w.sent, w.arrived, args{
		"pos": q.Pos, "bytes": q.BytesDown, "clock": w.clock,
	}})
	inside := d.addBar(served, span{"served", w.received, w.sent, of}, span{"queue", w.received, w.began, nil},
		span{"compute", w.began, w.done, args{"prefilled": q.Prefilled}})
	if !wasReached(q) { // it settled nothing by itself
		token = nil
	}
	d.drawArrow("ask", ask.nearestPoint(left), inside.nearestPoint(w.began), back.nearestPoint(w.sent),
		token.nearestPoint(w.arrived))
}

func askArgs(q *draft.Escalation) args {
	return args{
		"pos": q.Pos, "outcome": q.Outcome, "why": q.Why, "local": q.Local, "token": q.Token,
		"confidence": q.Confidence, "branches": q.Branches, "drafted": q.Drafted, "wasted": q.Wasted,
		"wait_ms": inMilliseconds(q.Wait), "hidden_ms": inMilliseconds(q.Hidden),
		"exposed_ms": inMilliseconds(q.Exposed), "queue_ms": inMilliseconds(q.Queue),
		"cloud_ms": inMilliseconds(q.Cloud), "wire_ms": inMilliseconds(q.Wire),
		"bytes_up": q.BytesUp, "bytes_down": q.BytesDown, "error": errorText(q.Err),
	}
}

// askTimes has the times of an ask and its answer, in order, since the text began. began and done are those of
// computing.
type askTimes struct {
	left, received, began, done, sent, arrived time.Duration
	clock                                      string        // how the times were determined: measured, or estimated
	within                                     time.Duration // maximum error of measured times
}

// computeAskTimes returns the times of a question that was sent and answered within this time. If the gateway does not
// report its times, they are assumed in the middle of the time on the wire.
func (t *Text) computeAskTimes(q *draft.Escalation, left, back time.Duration) askTimes {
	w := askTimes{left: left, received: left + q.Wire/2, sent: back - q.Wire/2, arrived: back, clock: "estimated"}
	if !q.Times.Left.IsZero() {
		since := func(at time.Time) time.Duration { return at.Sub(t.began) }
		w = askTimes{left: since(q.Times.Left), received: since(q.Times.Received), sent: since(q.Times.Sent),
			arrived: since(q.Times.Arrived), clock: "measured", within: q.Times.Within}
	}
	w.began = w.received + q.Queue
	w.done = w.began + q.Cloud
	at := left
	for _, p := range []*time.Duration{&w.left, &w.received, &w.began, &w.done, &w.sent, &w.arrived} {
		*p = min(max(*p, at), back)
		at = *p
	}
	return w
}
