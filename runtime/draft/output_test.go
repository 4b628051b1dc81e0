package draft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestOutputStream: a question is emitted once its ask and that of the failed one before it have returned, with the
// time of that; after emit has returned false, events only count.
func TestOutputStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Duration
		o := &outputStream{rules: new(rules), sched: newScheduler(nil), began: time.Now()}
		o.emit = func(e Event) bool { at = append(at, e.At); return len(at) < 2 }
		failed := &escalation{cancel: func(error) {}}
		unasked := &escalation{after: failed}
		failed.Outcome, unasked.Outcome = Late, Unasked
		o.emitEscalation(failed)
		o.emitEscalation(unasked)
		assert.Empty(t, at)
		assert.True(t, failed.due && unasked.due)
		time.Sleep(10 * ms)
		failed.returned = true
		o.emitEscalation(failed)
		time.Sleep(10 * ms)
		o.emitEscalation(unasked)
		o.emitEvent(Event{Pass: &Pass{Rows: 1}})
		assert.Equal(t, []time.Duration{10 * ms, 20 * ms}, at)
		assert.True(t, o.stopped)
		assert.Equal(t, []int{1, 1, 1}, []int{o.summary.Late, o.summary.Unasked, o.summary.Passes})
	})
}
