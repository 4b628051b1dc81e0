package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// cursor walks over the bytes of a file. Each read checks that the bytes are there; the errors name the field that
// was being read, within the entry of the list (metadata or tensors) that was being read.
type cursor struct {
	b     []byte
	off   int    // next byte to read
	list  string // "kv", "tensor", or empty in the header
	index int    // entry of the list
}

func (c *cursor) remainingBytes() int { return len(c.b) - c.off }

func (c *cursor) fieldError(off int, field string, err error) error {
	if c.list != "" {
		field = fmt.Sprintf("%s[%d].%s", c.list, c.index, field)
	}
	return &FormatError{Offset: int64(off), Field: field, Err: err}
}

func (c *cursor) readBytes(n int, field string) ([]byte, error) {
	if n > c.remainingBytes() {
		return nil, c.fieldError(c.off, field, io.ErrUnexpectedEOF)
	}
	b := c.b[c.off : c.off+n : c.off+n]
	c.off += n
	return b, nil
}

func (c *cursor) readUint32(field string) (uint32, error) {
	b, err := c.readBytes(4, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) readUint64(field string) (uint64, error) {
	b, err := c.readBytes(8, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// readCount reads a number of elements that take at least each bytes, and refuses more than fit into the bytes left.
func (c *cursor) readCount(each int, field string) (int, error) {
	off := c.off
	n, err := c.readUint64(field)
	if err != nil {
		return 0, err
	}
	if n > uint64(c.remainingBytes()/each) {
		return 0, c.fieldError(off, field, fmt.Errorf("%d with %d bytes left: %w", n, c.remainingBytes(), ErrTooLong))
	}
	return int(n), nil
}

// readCountUpTo reads a number of elements like readCount, and refuses more than most of them.
func (c *cursor) readCountUpTo(most, each int, field, things string) (int, error) {
	off := c.off
	n, err := c.readCount(each, field)
	if err == nil && n > most {
		err = c.fieldError(off, field, tooManyError(uint64(n), most, things))
	}
	return n, err
}

// tooManyError returns the cause of an error for n things if at most most are allowed.
func tooManyError(n uint64, most int, things string) error {
	return fmt.Errorf("%d %s, at most %d are read: %w", n, things, most, ErrLimit)
}

func (c *cursor) checkMetadataSize(field string) error {
	if c.off > maxMetadata {
		return c.fieldError(c.off, field, tooManyError(uint64(c.off), maxMetadata, "bytes up to here"))
	}
	return nil
}

// readString takes a string as a view of the file.
func (c *cursor) readString(field string) ([]byte, error) {
	n, err := c.readCountUpTo(maxString, 1, field+".length", "bytes")
	if err != nil {
		return nil, err
	}
	return c.readBytes(n, field)
}

// readName takes a string that is a metadata key or the name of a tensor, of at most limit bytes.
func (c *cursor) readName(field string, limit int) (string, error) {
	off := c.off
	n, err := c.readCount(1, field+".length")
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", c.fieldError(off, field, longNameError(n, limit))
	}
	b, err := c.readBytes(n, field)
	if err != nil {
		return "", err
	}
	if err := checkName(string(b), limit); err != nil {
		return "", c.fieldError(off, field, err)
	}
	return string(b), nil
}

func longNameError(n, limit int) error {
	return fmt.Errorf("%d bytes, at most %d: %w", n, limit, ErrName)
}

func checkName(s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("empty: %w", ErrName)
	case len(s) > limit:
		return longNameError(len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s: %w: %w", errs.Quote(s), ErrName, ErrUTF8)
	}
	return nil
}

func toInt(v uint64) (int, bool) {
	return int(v), v <= math.MaxInt
}
