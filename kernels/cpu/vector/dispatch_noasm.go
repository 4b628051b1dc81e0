//go:build noasm || (!amd64 && !arm64)

package vector

func operationsFor(string) *operations { return generic() }
