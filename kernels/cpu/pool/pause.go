//go:build (amd64 || arm64) && !noasm

package pool

// pause passes the time of n pause instructions, which tell the CPU that a loop waits.
func pause(n uint32)
