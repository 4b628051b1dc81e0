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

// rest returns how many bytes are left.
func (c *cursor) rest() int { return len(c.b) - c.off }

// fail returns the error that field, which starts at offset off, has cause err.
func (c *cursor) fail(off int, field string, err error) error {
	if c.list != "" {
		field = fmt.Sprintf("%s[%d].%s", c.list, c.index, field)
	}
	return &FormatError{Offset: int64(off), Field: field, Err: err}
}

func (c *cursor) bytes(n int, field string) ([]byte, error) {
	if n > c.rest() {
		return nil, c.fail(c.off, field, io.ErrUnexpectedEOF)
	}
	b := c.b[c.off : c.off+n : c.off+n]
	c.off += n
	return b, nil
}

func (c *cursor) u32(field string) (uint32, error) {
	b, err := c.bytes(4, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(field string) (uint64, error) {
	b, err := c.bytes(8, field)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of elements that take at least each bytes, and refuses more than fit into the bytes left.
func (c *cursor) count(each int, field string) (int, error) {
	off := c.off
	n, err := c.u64(field)
	if err != nil {
		return 0, err
	}
	if n > uint64(c.rest()/each) {
		return 0, c.fail(off, field, fmt.Errorf("%d with %d bytes left: %w", n, c.rest(), ErrTooLong))
	}
	return int(n), nil
}

// countUpTo reads a number of elements like count, and refuses more than most of them.
func (c *cursor) countUpTo(most, each int, field, things string) (int, error) {
	off := c.off
	n, err := c.count(each, field)
	if err == nil && n > most {
		err = c.fail(off, field, tooMany(uint64(n), most, things))
	}
	return n, err
}

// tooMany returns the cause of an error for n things if at most most are allowed.
func tooMany(n uint64, most int, things string) error {
	return fmt.Errorf("%d %s, at most %d are read: %w", n, things, most, ErrLimit)
}

// extent checks that the metadata before c are not too long.
func (c *cursor) extent(field string) error {
	if c.off > maxMetadata {
		return c.fail(c.off, field, tooMany(uint64(c.off), maxMetadata, "bytes up to here"))
	}
	return nil
}

// str takes a string as a view of the file.
func (c *cursor) str(field string) ([]byte, error) {
	n, err := c.countUpTo(maxString, 1, field+".length", "bytes")
	if err != nil {
		return nil, err
	}
	return c.bytes(n, field)
}

// name takes a string that is a metadata key or the name of a tensor, of at most limit bytes.
func (c *cursor) name(field string, limit int) (string, error) {
	off := c.off
	n, err := c.count(1, field+".length")
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", c.fail(off, field, longName(n, limit))
	}
	b, err := c.bytes(n, field)
	if err != nil {
		return "", err
	}
	if err := checkName(string(b), limit); err != nil {
		return "", c.fail(off, field, err)
	}
	return string(b), nil
}

func longName(n, limit int) error { return fmt.Errorf("%d bytes, at most %d: %w", n, limit, ErrName) }

// checkName returns an error if s cannot be a metadata key or the name of a tensor.
func checkName(s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("empty: %w", ErrName)
	case len(s) > limit:
		return longName(len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s: %w: %w", errs.Quote(s), ErrName, ErrUTF8)
	}
	return nil
}

// toInt converts v if it fits into an int.
func toInt(v uint64) (int, bool) {
	return int(v), v <= math.MaxInt
}
