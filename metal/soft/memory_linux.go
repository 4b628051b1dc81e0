package soft

import (
	"fmt"
	"os"
	"syscall"
)

// mapping are the flags for mapping memory: untouched pages cost nothing.
const mapping = syscall.MAP_ANON | syscall.MAP_PRIVATE | syscall.MAP_NORESERVE

// mapPages maps length bytes of zeroed memory. At most 127 bytes after its end lies a page that must not be accessed.
func mapPages(length int) (pages, error) {
	page := os.Getpagesize()
	room := (length + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, mapping)
	if err != nil {
		return pages{}, fmt.Errorf("map %d bytes: %w", length, err)
	}
	if err := syscall.Mprotect(all[room:], syscall.PROT_NONE); err != nil {
		_ = syscall.Munmap(all)
		return pages{}, fmt.Errorf("guard page: %w", err)
	}
	start := (room - length) &^ 127
	return pages{all, all[start : start+length : start+length]}, nil
}

// mapAligned maps zeroed memory at a multiple of its size, a power of two.
func mapAligned(size int) (pages, error) {
	all, err := syscall.Mmap(-1, 0, 2*size, syscall.PROT_READ|syscall.PROT_WRITE, mapping)
	if err != nil {
		return pages{}, fmt.Errorf("map %d bytes: %w", 2*size, err)
	}
	start := -int(addressOf(all)) & (size - 1)
	// Much of it is never touched. An error of a kernel without huge pages is harmless.
	_ = syscall.Madvise(all, syscall.MADV_NOHUGEPAGE)
	return pages{all, all[start : start+size : start+size]}, nil
}

// zeroPages zeroes the memory and returns it to the system until it is touched again.
func (p pages) zeroPages() error {
	if p.all == nil {
		return nil
	}
	return syscall.Madvise(p.all, syscall.MADV_DONTNEED)
}

func (p *pages) unmapPages() {
	if p.all != nil {
		_ = syscall.Munmap(p.all) // it cannot fail for memory that was mapped here
	}
	*p = pages{}
}
