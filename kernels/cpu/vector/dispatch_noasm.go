//go:build noasm || (!amd64 && !arm64)

package vector

// functions returns those of an instruction set: there is plain Go alone.
func functions(string) *operations { return generic() }
