//go:build !linux

package link

// newAlarm returns the most precise alarm of the system.
func newAlarm() alarm { return newTimerAlarm() }
