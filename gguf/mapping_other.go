//go:build !linux

package gguf

import (
	"context"
	"os"

	"github.com/pilotfish-ai/pilotfish/internal/files"
)

// mapFile maps the first size bytes of file read-only, at least one, or reads them.
func mapFile(file *os.File, size int) (mapping, error) {
	b, release, err := files.Map(file, size)
	return mapping{b, files.Mapped, nil, release}, err
}

func (f *File) moveMapping(context.Context, mapping) error { return ErrHugePages }

// Placement returns where the pages of the file are now.
func (f *File) Placement() (Placement, error) { return Placement{Bytes: f.size}, nil }
