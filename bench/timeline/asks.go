package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// text draws the tokens: from drafting to showing, and within that from settling to showing. A token is settled when
// its own question and the earlier ones have been answered. It returns the bars by position.
func (d *drawing) text() map[int]*bar {
	answered := d.answered()
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
		bars[t.Pos] = d.bar(text,
			span{"token", from, to, args{
				"pos": t.Pos, "id": t.ID, "origin": t.Origin, "confidence": t.Confidence, "end": t.End,
				"unverified":      t.Unverified,
				"commit_delay_ms": milliseconds(t.CommitDelay),
			}},
			opened(from, settled, to))
	}
	return bars
}

// opened returns the span from settling to showing of a token that was unsettled for a while after drafting.
func opened(drafted, settled, shown time.Duration) span {
	if settled <= drafted {
		return span{}
	}
	return span{"settled", settled, shown, nil}
}

// settling is the time when the question about a position was answered, or abandoned.
type settling struct {
	pos int
	at  time.Duration
}

func (d *drawing) answered() (all []settling) {
	for _, e := range d.t.events {
		if q := e.Escalation; q != nil && passed(q) {
			all = append(all, settling{q.Pos, d.t.zero + q.Decided + q.Held + q.Wait})
		}
	}
	slices.SortFunc(all, func(a, b settling) int { return cmp.Compare(a.pos, b.pos) })
	return all
}

// passed reports whether the text reached an escalation: it was neither dropped nor a probe or a check.
func passed(q *draft.Escalation) bool {
	return q.Outcome != draft.Dropped && q.Outcome != draft.Probed && q.Outcome != draft.Probing &&
		q.Outcome != draft.Checked
}

// asks draws the questions, and text that was sent early.
func (d *drawing) asks(tokens map[int]*bar) {
	for _, e := range d.t.events {
		if w := e.Warming; w != nil {
			from := d.t.zero + w.Began
			d.bar(asks, span{"sent early", from, from + w.Took, args{
				"tokens": w.Tokens, "new": w.New, "bytes_up": w.BytesUp, "bytes_down": w.BytesDown,
				"error": said(w.Err),
			}})
		}
		q := e.Escalation
		if q == nil || q.Outcome == draft.Known || q.Outcome == draft.Unasked {
			continue
		}
		d.ask(q, tokens[q.Pos])
	}
}

// said returns the text of an error, nil without one.
func said(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// ask draws a question that was sent, and its way there and back if its answer arrived.
func (d *drawing) ask(q *draft.Escalation, token *bar) {
	decided := d.t.zero + q.Decided
	left := decided + q.Held
	ask := d.bar(asks, span{"held", decided, left, args{"pos": q.Pos}}, span{"ask", left, left + q.Wait, askArgs(q)})
	answer := q.Outcome == draft.Hit || q.Outcome == draft.Miss || q.Outcome == draft.Probed ||
		q.Outcome == draft.Checked
	if ask == nil || !answer || q.ByAhead {
		return
	}
	w := d.t.way(q, left, min(left+q.Wait, d.wall))
	of := args{"pos": q.Pos, "clock": w.clock}
	if w.within > 0 {
		of["clock_within_us"] = float64(w.within) / float64(time.Microsecond)
	}
	d.bar(up, span{"ask", w.left, w.received, args{"pos": q.Pos, "bytes": q.BytesUp, "clock": w.clock}})
	back := d.bar(down, span{"answer", w.sent, w.arrived, args{"pos": q.Pos, "bytes": q.BytesDown, "clock": w.clock}})
	inside := d.bar(served, span{"served", w.received, w.sent, of}, span{"queue", w.received, w.began, nil},
		span{"compute", w.began, w.done, args{"prefilled": q.Prefilled}})
	if !passed(q) { // it settled nothing by itself
		token = nil
	}
	d.arrow("ask", ask.at(left), inside.at(w.began), back.at(w.sent), token.at(w.arrived))
}

func askArgs(q *draft.Escalation) args {
	return args{
		"pos": q.Pos, "outcome": q.Outcome, "why": q.Why, "local": q.Local, "token": q.Token,
		"confidence": q.Confidence, "branches": q.Branches, "drafted": q.Drafted, "wasted": q.Wasted,
		"wait_ms": milliseconds(q.Wait), "hidden_ms": milliseconds(q.Hidden),
		"exposed_ms": milliseconds(q.Exposed), "queue_ms": milliseconds(q.Queue),
		"cloud_ms": milliseconds(q.Cloud), "wire_ms": milliseconds(q.Wire),
		"bytes_up": q.BytesUp, "bytes_down": q.BytesDown, "error": said(q.Err),
	}
}

// way has the times of an ask and its answer, in order, since the text began. began and done are those of computing.
type way struct {
	left, received, began, done, sent, arrived time.Duration
	clock                                      string        // how the times were determined: measured, or estimated
	within                                     time.Duration // maximum error of measured times
}

// way returns the times of a question that was sent and answered within this time. If the gateway does not report its
// times, they are assumed in the middle of the time on the wire.
func (t *Text) way(q *draft.Escalation, left, back time.Duration) way {
	w := way{left: left, received: left + q.Wire/2, sent: back - q.Wire/2, arrived: back, clock: "estimated"}
	if !q.Times.Left.IsZero() {
		since := func(at time.Time) time.Duration { return at.Sub(t.began) }
		w = way{left: since(q.Times.Left), received: since(q.Times.Received), sent: since(q.Times.Sent),
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
