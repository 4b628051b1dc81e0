package cloud

import (
	"io/fs"
	"os"
)

// notifyHangup returns a channel on which nothing comes: Windows has no SIGHUP.
func notifyHangup() (hangups <-chan os.Signal, stop func()) { return nil, func() {} }

// readableByOthers reports nothing: the mode of a file says nothing of its access control list.
func readableByOthers(fs.FileInfo) bool { return false }
