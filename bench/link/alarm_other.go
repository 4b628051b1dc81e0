//go:build !linux

package link

// newAlarm returns the most exact alarm there is.
func newAlarm() alarm { return newTimerAlarm() }
