package gguf

import (
	"context"
	"errors"
)

// ErrHugePages says that tensor data cannot be moved into huge pages: the system has none, or the file is not mapped.
var ErrHugePages = errors.New("no huge pages")

// MoveToHugePages puts memory in huge pages in the place of the file's pages that hold tensor data: the same bytes at
// the same addresses, so that whoever reads a tensor meanwhile need not know. It goes page by page of [hugemem.Size],
// and gives each page of the file back as it goes: at no time is more than one of them held twice. The ends of the
// file that fill no huge page stay as they are. Where the kernel finds no huge page free, small ones take its place.
//
// It returns early, with the cause, when ctx ends, with [ErrClosed] when the file is closed, and with another error
// when memory is short or the file has been cut short: what has been moved until then stays, and the rest is as
// before.
func (f *File) MoveToHugePages(ctx context.Context) error {
	if !f.uses.Take() {
		return ErrClosed
	}
	parts := f.parts
	f.uses.Give()
	none := ErrHugePages
	for _, m := range parts {
		switch err := f.move(ctx, m); {
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

// Placement tells where the pages of a file are.
type Placement struct {
	Bytes int64 // of the file, or of all files of a split model
	Huge  int64 // of these, in huge pages
	Small int64 // of these, in other memory: moved, when there was no huge page free
}
