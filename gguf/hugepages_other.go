//go:build !linux

package gguf

import "context"

func (f *File) move(context.Context, mapping) error { return ErrHugePages }

// Placement returns where the pages of the file are now.
func (f *File) Placement() (Placement, error) { return Placement{Bytes: f.size}, nil }
