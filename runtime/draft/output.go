package draft

import (
	"slices"
	"time"
)

// outputStream emits the events of a run and sums them up. After emit has returned false it is not called again, and
// events only count. A question is emitted after its ask has returned, so that its cost and its error are known.
type outputStream struct {
	*rules
	sched   *scheduler
	emit    func(Event) bool
	stopped bool // emit returned false
	began   time.Time
	summary Summary
	viewed  Preview   // the last one that was emitted
	traced  []Drafted // rows of forward calls: see [outputStream.traceRows]
}

// emitEvent counts an event and emits it, unless emit has returned false.
func (o *outputStream) emitEvent(e Event) {
	e.At = o.sched.elapsedSince(o.began)
	o.summary.Add(e)
	if !o.stopped {
		o.stopped = !o.emit(e)
	}
}

// emitEscalation emits e once its ask has returned, so that its cost and its error are known.
func (o *outputStream) emitEscalation(e *escalation) {
	if e.cancel != nil && !e.returned || e.after != nil && !e.after.returned {
		e.due = true
		return
	}
	o.emitEvent(Event{Escalation: new(e.Escalation)})
}

// emitPreview emits the tokens that are drafted after text, if they are news.
func (o *outputStream) emitPreview(text, drafted []int32) {
	before, now := o.viewed, Preview{Pos: len(text), Tokens: drafted}
	o.viewed = now
	now.Turned = before.countContradicted(text, now)
	if now.Turned > 0 || now.Pos != before.Pos && len(before.Tokens) > 0 || !slices.Equal(now.Tokens, before.Tokens) {
		o.emitEvent(Event{Preview: &now})
	}
}

// countContradicted returns the number of tokens from the first on that differs from text and next, which follows it.
func (p Preview) countContradicted(text []int32, next Preview) int {
	for i, t := range p.Tokens {
		pos := p.Pos + i
		var now int32 = -1
		if pos < len(text) {
			now = text[pos]
		} else if j := pos - next.Pos; j < len(next.Tokens) {
			now = next.Tokens[j]
		}
		if now != t {
			return len(p.Tokens) - i
		}
	}
	return 0
}

func (o *outputStream) traceRows(rows []*node, leaves int) []Drafted {
	if !o.Trace {
		return nil
	}
	if len(rows) > cap(o.traced)-len(o.traced) {
		o.traced = make([]Drafted, 0, max(64, len(rows)))
	}
	begin := len(o.traced)
	for i, n := range rows {
		o.traced = append(o.traced, Drafted{
			ID: n.id, Parent: n.parent.id, Pos: n.pos, Token: n.token, Guess: i >= leaves,
		})
	}
	return o.traced[begin:len(o.traced):len(o.traced)]
}
