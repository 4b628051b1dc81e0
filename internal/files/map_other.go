//go:build !unix

package files

import (
	"io"
	"os"
)

// Mapped reports whether bytes are pages of the file; here they are a copy.
const Mapped = false

// Map returns the first size bytes of file, at least one, and a function that releases them. The file may be closed
// before.
func Map(file *os.File, size int) (b []byte, release func() error, err error) {
	b = make([]byte, size)
	if _, err := io.ReadFull(file, b); err != nil {
		return nil, nil, err
	}
	return b, func() error { return nil }, nil
}
