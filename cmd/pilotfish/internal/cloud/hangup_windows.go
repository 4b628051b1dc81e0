package cloud

import (
	"io/fs"
	"os"
)

// notifyHangup returns a channel without values: Windows has no SIGHUP.
func notifyHangup() (hangups <-chan os.Signal, stop func()) { return nil, func() {} }

// readableByOthers always returns false: the mode of a file does not include its access control list.
func readableByOthers(fs.FileInfo) bool { return false }
