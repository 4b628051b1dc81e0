//go:build (amd64 || arm64) && !noasm

package cpu

// prefetch starts to load p into a second-level cache. Loading continues after it returns.
//
//go:noescape
func prefetch(p []byte)
