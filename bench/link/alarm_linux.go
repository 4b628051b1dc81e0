package link

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fdAlarm is a timer of the kernel. Timers of Go's runtime are late by up to a millisecond on Linux where nothing else
// runs, because it waits for them in epoll, which counts in milliseconds; a file that becomes
// readable wakes it at once.
type fdAlarm struct {
	fd   int // of file, which must not leave the mode in which it does not block
	file *os.File
}

// newAlarm returns the most exact alarm there is.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	a := &fdAlarm{fd, os.NewFile(uintptr(fd), "timerfd")}
	a.set(0)
	return a
}

func (a *fdAlarm) set(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, after.Nanoseconds()))} // 0 would switch it off
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil)                                     // cannot fail with these arguments
}

func (a *fdAlarm) wait() {
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:]) // an error wakes without a reason
}

func (a *fdAlarm) close() { _ = a.file.Close() }
