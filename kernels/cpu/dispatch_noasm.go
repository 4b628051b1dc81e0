//go:build noasm || (!amd64 && !arm64)

package cpu

// functions returns the table of an instruction set: there is plain Go alone.
func functions(string) *kernels { return generic() }

// right reports whether the table of an instruction set that this CPU has computes right.
func right(*kernels) bool { return true }

// prefetch brings p into a second-level cache, where there is a way.
func prefetch(p []byte) {}
