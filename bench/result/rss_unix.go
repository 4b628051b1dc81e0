//go:build unix

package result

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// PeakRSS returns the maximum resident memory of the process so far, in bytes.
func PeakRSS() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // bytes on macOS, KiB elsewhere
	}
	return int64(u.Maxrss) << 10
}
