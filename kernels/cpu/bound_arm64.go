//go:build !noasm

package cpu

// In peak_arm64.s.

//go:noescape
func readNEON(p []byte) uint64

//go:noescape
func peakBytesNEON(n int) uint64

//go:noescape
func peakBytesSDOT(n int) uint64

//go:noescape
func peakBytesSMMLA(n int) uint64

//go:noescape
func peakFloatsNEON(n int) uint64
