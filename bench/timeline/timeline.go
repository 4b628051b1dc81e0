// Package timeline draws how answers came about: as a file of trace events, which Perfetto (ui.perfetto.dev) and
// chrome://tracing open. Each answer has three processes, all of which begin at 0:
//
//	device    draft steps   the whole answer, and in it the prompt, forward calls, waits, and the rest between them:
//	                        together they are the time of the answer. Rollbacks are marks
//	          operations    of the small model, as the CPU ran them; on a GPU whole passes, by its own clock. Where
//	                        forward calls are so short that a look at the clock counts, not all are timed
//	          asks          from when an ask leaves until its answer is there, and text that is sent early
//	          text          each token from when it was drafted until it was shown
//	network   up, down      the ways of asks and answers
//	gateway   asks          queue and compute of each ask, on the device's clock
//
// An arrow leads from each ask to the gateway's computing, to its answer, and to the token that it settled. What is
// recorded has ids of tokens and no text.
package timeline

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Timeline is a number of answers, which may come about at the same time. The zero value has none. A nil one records
// nothing.
type Timeline struct {
	now func() time.Time // the clock that answers are timed by; nil: the computer's

	mu    sync.Mutex
	texts []*Text
}

// Text is how one answer came about. It is told of it by one goroutine at a time.
type Text struct {
	name  string
	now   func() time.Time
	began time.Time
	wall  time.Duration // 0: it has not ended
	zero  time.Duration // of the times of events: the call of [draft.Decoder.Decode], since began

	events []draft.Event
	ops    [][]backend.Op
}

// Begin adds an answer that begins now, under a name for people. It is nil where l is.
func (l *Timeline) Begin(name string) *Text {
	if l == nil {
		return nil
	}
	now := l.now
	if now == nil {
		now = time.Now
	}
	t := &Text{name: name, now: now, events: make([]draft.Event, 0, 256)}
	t.began = now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, t)
	return t
}

// Watch has a route tell how its answer comes about; whoever observed it already still does. A nil text watches
// nothing.
func (t *Text) Watch(r *engine.Route) {
	if t == nil {
		return
	}
	before := r.Observe
	r.Draft.Trace = true
	r.Watch = &engine.Watcher{Zero: t.began, Tell: t.operation, Share: share}
	r.Observe = func(e draft.Event) {
		t.Observe(e)
		if before != nil {
			before(e)
		}
	}
}

// Options are those of an answer that the timeline draws.
func (t *Text) Options() []pilotfish.Option {
	return []pilotfish.Option{pilotfish.Watch(t.Observe), pilotfish.Trace(t.began, share, t.operation)}
}

// share of the time that is spent on recording operations, so that all that is recorded takes less than 1%.
const share = 0.002

// End says that the answer is there, or will not come. What comes later does not count.
func (t *Text) End() {
	if t != nil && t.wall == 0 {
		t.wall = max(t.now().Sub(t.began), 1)
	}
}

// Observe takes an event of a decoder with [draft.Options.Trace]. An event comes a moment after the time that it says:
// the shortest such moment of the first few tells when decoding began.
func (t *Text) Observe(e draft.Event) {
	const enough = 8
	if n := len(t.events); n < enough {
		if zero := t.now().Sub(t.began) - e.At; n == 0 || zero < t.zero {
			t.zero = max(zero, 0)
		}
	}
	if e.Preview == nil {
		t.events = append(t.events, e)
	}
}

// operation takes an operation of the small model. There are many, which are never copied.
func (t *Text) operation(o backend.Op) {
	const some = 256
	last := len(t.ops) - 1
	if last < 0 || len(t.ops[last]) == some {
		t.ops, last = append(t.ops, make([]backend.Op, 0, some)), last+1
	}
	t.ops[last] = append(t.ops[last], o)
}
