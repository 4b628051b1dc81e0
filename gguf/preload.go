package gguf

import (
	"context"
	"os"
)

// Preload reads all tensor data once, so that a file that is not in the page cache comes from the disk in one sweep rather
// than page by page when it is first used. progress, if given, is told how many of all bytes are there, at least once
// every 4 MiB. It returns early, with the cause, when ctx ends, and with [ErrClosed] when the file is closed.
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
			touch(part, page)
			f.uses.Give()
			if done += int64(len(part)); progress != nil {
				progress(done, total)
			}
		}
	}
	return nil
}

// touch reads a byte of every page of b and returns their sum, which nobody needs but which the compiler has to compute.
//
//go:noinline
func touch(b []byte, page int) (sum byte) {
	for i := 0; i < len(b); i += page {
		sum += b[i]
	}
	return sum
}
