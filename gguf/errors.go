package gguf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
)

// Causes of a [FormatError], for errors.Is. A file that ends too early has the cause io.ErrUnexpectedEOF.
var (
	ErrMagic     = errors.New("not a GGUF file")
	ErrVersion   = errors.New("unsupported version: 2 and 3 are read")
	ErrBigEndian = errors.New("big-endian file: convert it to little-endian first")
	ErrTooLong   = errors.New("more than the rest of the file can hold")
	ErrLimit     = errors.New("more than any model needs")
	ErrDuplicate = errors.New("occurs twice")
	ErrName      = errors.New("bad name")
	ErrUTF8      = errors.New("not valid UTF-8")
	ErrType      = errors.New("this type is not supported")
	ErrBool      = errors.New("a bool is 0 or 1")
	ErrDepth     = errors.New("arrays nested too deep")
	ErrAlignment = errors.New("bad alignment")
	ErrShape     = errors.New("bad shape")
	ErrOverflow  = errors.New("too large for this machine")
	ErrOverlap   = errors.New("overlaps another tensor")
	ErrSplit     = errors.New("bad split file")
)

// Errors that do not come from the bytes of a file.
var (
	ErrClosed    = errors.New("the model is closed") // [File.Close] was called
	ErrAbsent    = errors.New("absent")              // no metadata under this key
	ErrNotFinite = block.ErrNotFinite                // [Type.Quantize] of a weight that the type cannot hold
)

// FormatError says that bytes are not a GGUF file this package reads, and where.
type FormatError struct {
	Path   string // file, as it was opened; empty for bytes in memory
	Offset int64  // bytes from the start of the file to the field
	Field  string // such as "tensor[3].offset"
	Err    error  // one of the causes above, io.ErrUnexpectedEOF, or an error that wraps one
}

// Error names file, offset, field and cause.
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	fmt.Fprintf(&b, "gguf: offset %d: %s: %v", e.Offset, e.Field, e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// TypeError says that metadata are there but of another type than was asked for.
type TypeError struct {
	Key  string // metadata key
	Want string // what was asked for, such as "integer"
	Got  string // what the file has, such as "array of string"
}

// Error names key, wanted and actual type.
func (e *TypeError) Error() string {
	return fmt.Sprintf("metadata %s: want %s, the file has %s", e.Key, e.Want, e.Got)
}
