//go:build !noasm

package cpu

// In peak_amd64.s.

//go:noescape
func readAVX2(p []byte) uint64

//go:noescape
func peakBytesAVX2(n int) uint64

//go:noescape
func peakFloatsAVX2(n int) uint64

//go:noescape
func peakBytesAVXVNNI(n int) uint64

//go:noescape
func peakBytesVNNI(n int) uint64

//go:noescape
func peakBytesAMX(n int) uint64

//go:noescape
func peakFloatsAVX512(n int) uint64
