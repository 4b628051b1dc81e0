package soft

import "unsafe"

// pages is memory outside Go's heap.
type pages struct {
	all  []byte // as it was mapped
	used []byte // what the caller asked for
}

// address returns where b begins.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
