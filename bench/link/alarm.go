package link

import "time"

// alarm wakes the one goroutine that waits for it. Any goroutine may set it, which replaces the previous setting. It
// may also wake spuriously.
type alarm interface {
	wakeAfter(after time.Duration) // 0 or less: now
	waitForWake()
	closeTimer() // when it is neither waited for nor set any more
}

// timerAlarm is a timer of Go's runtime.
type timerAlarm struct{ *time.Timer }

func newTimerAlarm() alarm                         { return timerAlarm{time.NewTimer(0)} }
func (a timerAlarm) wakeAfter(after time.Duration) { a.Reset(after) }
func (a timerAlarm) waitForWake()                  { <-a.C }
func (a timerAlarm) closeTimer()                   { a.Stop() }
