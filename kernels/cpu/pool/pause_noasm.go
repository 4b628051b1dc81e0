//go:build noasm || (!amd64 && !arm64)

package pool

// pause passes the time of about n pause instructions.
func pause(n uint32) {
	for range n {
	}
}
