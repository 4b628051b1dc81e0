//go:build (amd64 || arm64) && !noasm

package cpu

// prefetch brings p into a second-level cache, which goes on after it returns.
//
//go:noescape
func prefetch(p []byte)
