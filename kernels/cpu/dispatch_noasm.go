//go:build noasm || (!amd64 && !arm64)

package cpu

// kernelsFor returns the table of an instruction set: only plain Go.
func kernelsFor(string) *kernels { return generic() }

func computesCorrectly(*kernels) bool { return true }

// prefetch would prefetch p, but there is no instruction for it in plain Go.
func prefetch(p []byte) {}
