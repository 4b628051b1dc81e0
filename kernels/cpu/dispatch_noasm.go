//go:build noasm || (!amd64 && !arm64)

package cpu

// variants returns what this CPU and build offer, plain Go first, the best last.
func variants() []*kernels { return []*kernels{generic()} }

// sets returns all variants.
func sets() []*kernels { return variants() }

// pause passes the time of about n pause instructions.
func pause(n uint32) {
	for range n {
	}
}

// fetch brings p into a second-level cache, where there is a way.
func fetch(p []byte) {}
