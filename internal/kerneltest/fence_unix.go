//go:build unix

package kerneltest

import (
	"syscall"
	"testing"
)

const fences = true

// allocFenced returns n bytes. The memory after the last byte must not be accessed.
func allocFenced(t testing.TB, n int) []byte {
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(m[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return m[size-n : size : size]
}
