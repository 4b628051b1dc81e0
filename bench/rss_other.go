//go:build !unix

package bench

// peakRSS returns 0: this system is not asked.
func peakRSS() int64 { return 0 }
