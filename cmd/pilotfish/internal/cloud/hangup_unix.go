//go:build !windows

package cloud

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// notifyHangup passes on SIGHUP, which does not end the process any more, until stop is called.
func notifyHangup() (hangups <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// readableByOthers reports whether anybody but the owner of a file has a right to it.
func readableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
