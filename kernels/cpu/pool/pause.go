//go:build (amd64 || arm64) && !noasm

package pool

// pause runs n pause instructions, which hint to the CPU that a loop waits.
func pause(n uint32)
