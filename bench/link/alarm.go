package link

import "time"

// alarm wakes the one goroutine that waits for it. It may be set from anywhere, and then forgets what it was set to
// before; it may also wake without a reason.
type alarm interface {
	set(after time.Duration) // 0 or less: now
	wait()
	close() // when nobody waits or sets any more
}

// timerAlarm is a timer of Go's runtime.
type timerAlarm struct{ *time.Timer }

func newTimerAlarm() alarm                   { return timerAlarm{time.NewTimer(0)} }
func (a timerAlarm) set(after time.Duration) { a.Reset(after) }
func (a timerAlarm) wait()                   { <-a.C }
func (a timerAlarm) close()                  { a.Stop() }
