package gguf

import (
	"cmp"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
)

// mapFile maps the first size bytes of file, of which there must be at least one, read-only and where huge pages can
// take their place: see [File.MoveToHugePages], for which the file stays open.
func mapFile(file *os.File, size int) (mapping, error) {
	p, err := hugemem.Reserve(size, cmp.Or(hugemem.Size(), os.Getpagesize()))
	if err != nil {
		return mapping{}, err
	}
	if err := mapAt(p, file, 0, size); err != nil {
		return mapping{}, errors.Join(err, hugemem.Release(p, size))
	}
	own, err := duplicate(file)
	if err != nil {
		return mapping{}, errors.Join(err, hugemem.Release(p, size))
	}
	return mapping{unsafe.Slice((*byte)(p), size), true, own, func() error {
		return errors.Join(hugemem.Release(p, size), own.Close())
	}}, nil
}

// mapAt puts size bytes of file, from offset on, at p, in place of what is there.
func mapAt(p unsafe.Pointer, file *os.File, offset int64, size int) error {
	_, err := unix.MmapPtr(int(file.Fd()), offset, p, uintptr(size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

// duplicate opens what file has open once more.
func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
