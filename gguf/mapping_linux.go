package gguf

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
)

// mapFile maps the first size bytes of file read-only, at least one, aligned so that huge pages can replace them: see
// [File.MoveToHugePages], for which the file stays open.
func mapFile(file *os.File, size int) (mapping, error) {
	p, err := hugemem.Reserve(size, cmp.Or(hugemem.Size(), os.Getpagesize()))
	if err != nil {
		return mapping{}, err
	}
	if err := mapAt(p, file, 0, size); err != nil {
		return mapping{}, errors.Join(err, hugemem.Release(p, size))
	}
	own, err := duplicateFile(file)
	if err != nil {
		return mapping{}, errors.Join(err, hugemem.Release(p, size))
	}
	return mapping{unsafe.Slice((*byte)(p), size), true, own, func() error {
		return errors.Join(hugemem.Release(p, size), own.Close())
	}}, nil
}

// mapAt maps size bytes of file, from offset on, at p, in place of the current mapping.
func mapAt(p unsafe.Pointer, file *os.File, offset int64, size int) error {
	_, err := unix.MmapPtr(int(file.Fd()), offset, p, uintptr(size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

func duplicateFile(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// moveMapping is [File.MoveToHugePages] for one file.
func (f *File) moveMapping(ctx context.Context, m mapping) error {
	size := hugemem.Size()
	if size == 0 || m.file == nil || uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))%uintptr(size) != 0 {
		return ErrHugePages
	}
	from, to := f.firstTensorOffset(m)/size*size, len(m.b)/size*size
	if from >= to {
		return fmt.Errorf("%w: the tensors fill none", ErrHugePages)
	}
	staging, err := hugemem.Alloc(to - from)
	if err != nil {
		return err
	}
	for from < to && err == nil {
		if err = context.Cause(ctx); err != nil {
			break
		}
		if !f.uses.Take() {
			err = ErrClosed
			break
		}
		if err = m.replacePage(from, staging[:size:size]); err == nil {
			from, staging = from+size, staging[size:] // it is now mapped in the file's place
		}
		f.uses.Give()
	}
	return errors.Join(err, hugemem.Free(staging))
}

func (f *File) firstTensorOffset(m mapping) int {
	first, base := len(m.b), uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))
	for _, t := range f.tensors {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
		if at >= base && at < base+uintptr(len(m.b)) {
			first = min(first, int(at-base))
		}
	}
	return first
}

// replacePage fills page with the file's bytes at offset from, and moves it to the place of the mapped bytes there. It
// reads the bytes by a system call: if the file was truncated that is an error, while an access to the mapping would be
// a fault.
func (m mapping) replacePage(from int, page []byte) error {
	if _, err := m.file.ReadAt(page, int64(from)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read %s: %w", m.file.Name(), err)
	}
	if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
		return os.NewSyscallError("mprotect", err)
	}
	to, here := unsafe.Pointer(&m.b[from]), unsafe.Pointer(unsafe.SliceData(page))
	// A concurrent reader that finds no page waits until the kernel has finished the move.
	_, err := unix.MremapPtr(here, uintptr(len(page)), to, uintptr(len(page)), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err == nil {
		return nil
	}
	// The address range may be unmapped now: mremap fails so if the kernel is out of memory for its tables.
	return errors.Join(os.NewSyscallError("mremap", err), mapAt(to, m.file, int64(from), len(page)))
}

// Placement returns where the pages of the file are now, according to the kernel (/proc/self/smaps).
func (f *File) Placement() (p Placement, err error) {
	if !f.uses.Take() {
		return p, ErrClosed
	}
	defer f.uses.Give()
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return p, err
	}
	defer smaps.Close()
	p.Bytes = f.size
	return p, p.addSmaps(smaps, f.parts)
}

// addSmaps adds the mappings' lines in smaps (Documentation/filesystems/proc.rst).
func (p *Placement) addSmaps(smaps io.Reader, parts []mapping) error {
	lines, ours := bufio.NewScanner(smaps), false
	for lines.Scan() {
		if lo, hi, ok := parseAddressRange(lines.Text()); ok {
			ours = overlapsMapping(lo, hi, parts)
			continue
		}
		name, text, _ := strings.Cut(lines.Text(), ":")
		n, ok := parseKilobytes(text)
		if !ok || !ours {
			continue
		}
		switch name {
		case "AnonHugePages":
			p.Huge, p.Small = p.Huge+n<<10, p.Small-n<<10
		case "Anonymous":
			p.Small += n << 10
		case "FilePmdMapped":
			p.Huge += n << 10
		}
	}
	return lines.Err()
}

// parseAddressRange parses the range of addresses at the beginning of a line, if the line is the first of an entry of
// smaps.
func parseAddressRange(line string) (lo, hi uintptr, ok bool) {
	n, _ := fmt.Sscanf(line, "%x-%x ", &lo, &hi)
	return lo, hi, n == 2
}

func parseKilobytes(text string) (kilobytes int64, ok bool) {
	n, _ := fmt.Sscanf(text, "%d kB", &kilobytes)
	return kilobytes, n == 1
}

func overlapsMapping(lo, hi uintptr, parts []mapping) bool {
	for _, m := range parts {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))
		if lo < base+uintptr(len(m.b)) && base < hi {
			return true
		}
	}
	return false
}
