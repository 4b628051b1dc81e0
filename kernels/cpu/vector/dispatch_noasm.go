//go:build noasm || (!amd64 && !arm64)

package vector

// functions returns the operations of an instruction set: only plain Go.
func functions(string) *operations { return generic() }
