//go:build !unix

package result

// PeakRSS returns 0 on this system.
func PeakRSS() int64 { return 0 }
