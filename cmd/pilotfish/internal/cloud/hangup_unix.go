//go:build !windows

package cloud

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// notifyHangup forwards SIGHUP, which then no longer ends the process, until stop is called.
func notifyHangup() (hangups <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

func readableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
