//go:build unix

package cpu

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fenced returns n bytes of which the last is followed by memory that may not be touched.
func fenced(t testing.TB, n int) []byte {
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(m)) })
	require.NoError(t, syscall.Mprotect(m[size:], syscall.PROT_NONE))
	return m[size-n : size : size]
}
