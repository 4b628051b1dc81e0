//go:build unix

package mapfile

import (
	"os"
	"syscall"
)

// Mapped tells that bytes are pages of the file, which must not be cut short meanwhile.
const Mapped = true

// Map returns the first size bytes of file, of which there must be at least one, and what gives them back. The file may
// be closed before.
func Map(file *os.File, size int) (b []byte, release func() error, err error) {
	b, err = syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return b, func() error { return os.NewSyscallError("munmap", syscall.Munmap(b)) }, nil
}
