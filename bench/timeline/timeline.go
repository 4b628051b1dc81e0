// Package timeline draws how answers were produced: as a file of trace events, for Perfetto (ui.perfetto.dev) and
// chrome://tracing. Each answer has three processes, all of which begin at 0:
//
//	device    draft steps   the whole answer, and in it the prompt, forward passes, waits, and the rest between them:
//	                        together they are the time of the answer. Rollbacks are marks
//	          operations    of the small model, as the CPU ran them; on a GPU whole passes, by its own clock. If
//	                        forward passes are so short that reading the clock matters, not all are timed
//	          asks          from sending an ask until its answer arrives, and text that is sent early
//	          text          each token from drafting to showing
//	network   up, down      the ways of asks and answers
//	gateway   asks          queue and compute of each ask, on the device's clock
//
// Arrows connect each ask with the gateway's computing, its answer, and the token that it settled. The recording
// contains ids of tokens and no text.
package timeline

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// Timeline is a number of answers, which may be concurrent. The zero value has none. A nil Timeline records nothing.
type Timeline struct {
	now func() time.Time // the clock that times answers; nil: the computer's

	mu    sync.Mutex
	texts []*Text
}

// Text records how one answer was produced. It is not safe for concurrent use.
type Text struct {
	name  string
	now   func() time.Time
	began time.Time
	wall  time.Duration // 0: not ended
	zero  time.Duration // origin of the times of events: the call of [draft.Decoder.Decode], since began

	events []draft.Event
	ops    [][]backend.Op
}

// Begin adds an answer that begins now, with a name for display. It returns nil if l is nil.
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

// Watch makes a route report its events to the text, in addition to earlier observers. A nil text records nothing.
func (t *Text) Watch(r *engine.Route) {
	if t == nil {
		return
	}
	before := r.Observe
	r.Draft.Trace = true
	r.Watch = &engine.Watcher{Zero: t.began, Tell: t.addOperation, Share: share}
	r.Observe = func(e draft.Event) {
		t.Observe(e)
		if before != nil {
			before(e)
		}
	}
}

// share of the time that is spent on recording operations, so that all that is recorded takes less than 1%.
const share = 0.002

// End records that the answer is complete, or will not arrive. Nothing is drawn after this time.
func (t *Text) End() {
	if t != nil && t.wall == 0 {
		t.wall = max(t.now().Sub(t.began), 1)
	}
}

// Observe handles an event of a decoder with [draft.Options.Trace]. An event arrives shortly after the time that it
// states: the minimum delay of the first few events determines when decoding began.
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

// addOperation handles an operation of the small model. There are many, so they are not copied.
func (t *Text) addOperation(o backend.Op) {
	const some = 256
	last := len(t.ops) - 1
	if last < 0 || len(t.ops[last]) == some {
		t.ops, last = append(t.ops, make([]backend.Op, 0, some)), last+1
	}
	t.ops[last] = append(t.ops[last], o)
}
