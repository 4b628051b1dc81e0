//go:build noasm || (!amd64 && !arm64)

package cpu

// functions returns the table of an instruction set: only plain Go.
func functions(string) *kernels { return generic() }

// right reports whether the table of an available instruction set computes correct results.
func right(*kernels) bool { return true }

// prefetch would prefetch p, but there is no instruction for it in plain Go.
func prefetch(p []byte) {}
