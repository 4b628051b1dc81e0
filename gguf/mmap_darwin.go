package gguf

import (
	"os"
	"syscall"
)

// mapFile maps the first size bytes of file, of which there must be at least one, read-only.
func mapFile(file *os.File, size int) (mapping, error) {
	b, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return mapping{}, os.NewSyscallError("mmap", err)
	}
	return mapping{b, true, nil, func() error { return os.NewSyscallError("munmap", syscall.Munmap(b)) }}, nil
}
