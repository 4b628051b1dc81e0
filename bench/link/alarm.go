package link

import "time"

// alarm wakes the one goroutine that waits for it. Any goroutine may set it, which replaces the previous setting. It
// may also wake spuriously.
type alarm interface {
	set(after time.Duration) // 0 or less: now
	wait()
	close() // when it is neither waited for nor set any more
}

// timerAlarm is a timer of Go's runtime.
type timerAlarm struct{ *time.Timer }

func newTimerAlarm() alarm                   { return timerAlarm{time.NewTimer(0)} }
func (a timerAlarm) set(after time.Duration) { a.Reset(after) }
func (a timerAlarm) wait()                   { <-a.C }
func (a timerAlarm) close()                  { a.Stop() }
