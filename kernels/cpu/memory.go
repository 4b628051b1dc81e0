package cpu

import "unsafe"

// growSlice returns s with length n and a capacity of at least c ≥ n.
func growSlice[E any](s []E, n, c int) []E {
	if cap(s) < c {
		s = make([]E, c)
	}
	return s[:n]
}

func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func bytesOfIntegers(q []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(q))), len(q))
}

func bytesIn(w []uint32) *int8 { return (*int8)(unsafe.Pointer(unsafe.SliceData(w))) }

func floatsIn(w []uint32) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(w))) }
