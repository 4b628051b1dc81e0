//go:build !linux && !darwin

package gguf

import (
	"io"
	"os"
)

// mapFile reads the first size bytes of file.
func mapFile(file *os.File, size int) (mapping, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(file, b); err != nil {
		return mapping{}, err
	}
	return mapping{b, false, nil, func() error { return nil }}, nil
}
