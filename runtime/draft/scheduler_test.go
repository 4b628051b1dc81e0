package draft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestScheduler: results come in the order of their time, a wait ends at its due time without one, and the last wait
// ends when the last goroutine does.
func TestScheduler(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, began := newScheduler(nil), time.Now()
		bring := func(after time.Duration) {
			s.startGoroutine(func() {
				time.Sleep(after)
				s.results.pushResult(result{at: s.currentTime()})
			})
		}
		bring(30 * ms)
		bring(20 * ms)
		s.startGoroutine(func() { time.Sleep(70 * ms) })
		assert.False(t, s.waitForResultUntil(t.Context(), began.Add(10*ms)))
		assert.Equal(t, 10*ms, s.elapsedSince(began))
		for _, want := range []time.Duration{20 * ms, 30 * ms} {
			assert.True(t, s.waitForResult())
			res, _ := s.results.popResult()
			assert.Equal(t, want, res.at.Sub(began))
		}
		assert.False(t, s.waitForResult(), "no goroutine is left")
		assert.Equal(t, 70*ms, s.elapsedSince(began))
	})
}
