package gguf

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// mapping is the bytes of one file, mapped or read.
type mapping struct {
	b      []byte
	mapped bool     // its pages are those of the file
	file   *os.File // open if pages of the file can be replaced by memory; otherwise nil
	close  func() error
}

// openMapping maps the file at path, or reads it where mapping is not supported.
func openMapping(path string) (mapping, error) {
	info, err := os.Stat(path) // before opening: opening a pipe would wait for a writer
	if err != nil {
		return mapping{}, err
	}
	if !info.Mode().IsRegular() {
		return mapping{}, fmt.Errorf("%s: not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return mapping{}, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return mapping{}, err
	}
	size, ok := toInt(uint64(info.Size()))
	if !ok {
		return mapping{}, &FormatError{Path: path, Field: "size",
			Err: fmt.Errorf("%d bytes: %w", info.Size(), ErrOverflow)}
	}
	if size == 0 { // cannot be mapped
		return mapping{close: func() error { return nil }}, nil
	}
	m, err := mapFile(file, size)
	if err != nil {
		return mapping{}, fmt.Errorf("map %s: %w", path, err)
	}
	return m, nil
}

// Preload reads all tensor data once, so that a file that is not in the page cache is read from disk in one sweep
// rather than page by page at first use. progress, if not nil, is called with the number of bytes read so far and the
// total, at least once every 4 MiB. Preload returns early, with the cause, when ctx ends, and with [ErrClosed] when the
// file is closed.
func (f *File) Preload(ctx context.Context, progress func(done, total int64)) error {
	if !f.uses.Take() {
		return ErrClosed
	}
	f.uses.Give()
	total, done, tensors := int64(0), int64(0), f.Tensors()
	for _, t := range tensors {
		total += int64(len(t.Data))
	}
	page := os.Getpagesize()
	for _, t := range tensors {
		for rest := t.Data; len(rest) > 0; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			part := rest[:min(len(rest), 4<<20)]
			rest = rest[len(part):]
			if !f.uses.Take() {
				return ErrClosed
			}
			touchPages(part, page)
			f.uses.Give()
			if done += int64(len(part)); progress != nil {
				progress(done, total)
			}
		}
	}
	return nil
}

// touchPages reads a byte of every page of b and returns their sum. The sum is of no use, but it keeps the compiler
// from removing the reads.
//
//go:noinline
func touchPages(b []byte, page int) (sum byte) {
	for i := 0; i < len(b); i += page {
		sum += b[i]
	}
	return sum
}

// ErrHugePages is returned if tensor data cannot be moved into huge pages: the system has none, or the file is not
// mapped.
var ErrHugePages = errors.New("no huge pages")

// MoveToHugePages replaces the file's pages with tensor data by memory in huge pages: the same bytes at the same
// addresses, so that concurrent readers of a tensor are not affected. It moves one page of [hugemem.Size] after the
// other and releases the file's pages meanwhile: at most one of them is held twice at any time. The ends of the file
// that fill no huge page stay as they are. If the kernel has no free huge page, small ones are used.
//
// It returns early, with the cause, when ctx ends, with [ErrClosed] when the file is closed, and with another error
// when memory is short or the file has been truncated. Pages that have been moved until then stay moved, and the rest
// is unchanged.
func (f *File) MoveToHugePages(ctx context.Context) error {
	if !f.uses.Take() {
		return ErrClosed
	}
	parts := f.parts
	f.uses.Give()
	none := ErrHugePages
	for _, m := range parts {
		switch err := f.moveMapping(ctx, m); {
		case err == nil:
			none = nil
		case !errors.Is(err, ErrHugePages): // a part of a split model may hold no tensors, and others many
			return err
		case none != nil:
			none = err
		}
	}
	return none
}

// Placement says where the pages of a file are.
type Placement struct {
	Bytes int64 // of the file, or of all files of a split model
	Huge  int64 // of these, in huge pages
	Small int64 // of these, in other memory: moved, when there was no huge page free
}
