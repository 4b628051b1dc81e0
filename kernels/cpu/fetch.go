//go:build (amd64 || arm64) && !noasm

package cpu

// fetch brings p into a second-level cache, which goes on after it returns.
//
//go:noescape
func fetch(p []byte)
