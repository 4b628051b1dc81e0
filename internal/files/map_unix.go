//go:build unix

package files

import (
	"os"
	"syscall"
)

// Mapped reports whether bytes are pages of the file, which must then not be truncated.
const Mapped = true

// Map returns the first size bytes of file, at least one, and a function that releases them. The file may be closed
// before.
func Map(file *os.File, size int) (b []byte, release func() error, err error) {
	b, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return b, func() error { return os.NewSyscallError("munmap", syscall.Munmap(b)) }, nil
}
