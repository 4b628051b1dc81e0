//go:build noasm || (!amd64 && !arm64)

package pool

// pause waits for about as long as n pause instructions.
func pause(n uint32) {
	for range n {
	}
}
