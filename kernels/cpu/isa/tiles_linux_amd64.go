//go:build !noasm

package isa

import (
	"sync"
	"syscall"
)

// tilesGranted reports whether this process may use the tiles of AMX. It requests permission from the kernel, once for
// all threads; the kernel refuses if a thread's signal stack is too small. The CPU must have AVX and AMX.
var tilesGranted = sync.OnceValue(func() bool {
	const (
		tileState        = 1<<17 | 1<<18 // configuration and data
		archReqXCompPerm = 0x1023
		xFeatureTileData = 18
	)
	if xcr0()&tileState != tileState {
		return false
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archReqXCompPerm, xFeatureTileData, 0)
	return errno == 0
})

// xcr0 returns the register that says which state the operating system saves. The CPU must have AVX.
func xcr0() uint64
