package hugemem

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const settings = "/sys/kernel/mm/transparent_hugepage/"

// Size returns the size of a huge page in bytes, 0 if there are none.
func Size() int { return sizeAt(settings) }

// sizeAt is Size with the kernel's settings in dir (Documentation/admin-guide/mm/transhuge.rst).
func sizeAt(dir string) int {
	enabled, err := os.ReadFile(dir + "enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") {
		return 0
	}
	text, err := os.ReadFile(dir + "hpage_pmd_size")
	if err != nil {
		return 0
	}
	size, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || size < os.Getpagesize() || size > maxSize || size&(size-1) != 0 {
		return 0
	}
	return size
}

// Reserve reserves a range of addresses for n bytes that begins at a multiple of align, a power of two and of the page
// size. It must not be read or written yet.
func Reserve(n, align int) (unsafe.Pointer, error) {
	const nothing = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
	length := roundUp(n, os.Getpagesize())
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(length+align), unix.PROT_NONE, nothing)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	before := -int(uintptr(p)) & (align - 1)
	start := unsafe.Add(p, before)
	if err := Release(p, before); err != nil {
		return nil, err
	}
	return start, Release(unsafe.Add(start, length), align-before)
}

// Release returns n bytes of addresses from p on to the system, with their memory.
func Release(p unsafe.Pointer, n int) error {
	if n == 0 {
		return nil
	}
	return os.NewSyscallError("munmap", unix.MunmapPtr(p, uintptr(roundUp(n, os.Getpagesize()))))
}

// Alloc returns n > 0 zero bytes that begin at a multiple of [Size], in huge pages if possible: otherwise the system
// uses small ones. Free releases them.
func Alloc(n int) (b []byte, err error) {
	size := Size()
	if size == 0 {
		return nil, ErrNone
	}
	p, err := Reserve(n, size)
	if err != nil {
		return nil, err
	}
	length := roundUp(n, os.Getpagesize())
	all := unsafe.Slice((*byte)(p), length)
	err = os.NewSyscallError("mprotect", unix.Mprotect(all, unix.PROT_READ|unix.PROT_WRITE))
	if err == nil {
		err = os.NewSyscallError("madvise", unix.Madvise(all, unix.MADV_HUGEPAGE))
	}
	if err != nil {
		return nil, errors.Join(err, Release(p, length))
	}
	return all[:n:n], nil
}

// Free releases memory of [Alloc]. It must not be used afterwards.
func Free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return Release(unsafe.Pointer(unsafe.SliceData(b)), len(b))
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
