package link

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fdAlarm is a timer of the kernel. Timers of Go's runtime are late by up to a millisecond on an idle Linux machine,
// since the runtime waits for them in epoll, which counts milliseconds; a file that becomes readable wakes it at once.
type fdAlarm struct {
	fd   int // of file, which must stay in non-blocking mode
	file *os.File
}

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	a := &fdAlarm{fd, os.NewFile(uintptr(fd), "timerfd")}
	a.wakeAfter(0)
	return a
}

func (a *fdAlarm) wakeAfter(after time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, after.Nanoseconds()))} // 0 would disarm it
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil)                                     // cannot fail with these arguments
}

func (a *fdAlarm) waitForWake() {
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:]) // after an error it wakes spuriously
}

func (a *fdAlarm) closeTimer() { _ = a.file.Close() }
