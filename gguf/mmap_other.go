//go:build !linux

package gguf

import (
	"os"

	"github.com/pilotfish-ai/pilotfish/internal/mapfile"
)

// mapFile maps the first size bytes of file, of which there must be at least one, read-only, or reads them.
func mapFile(file *os.File, size int) (mapping, error) {
	b, release, err := mapfile.Map(file, size)
	return mapping{b, mapfile.Mapped, nil, release}, err
}
