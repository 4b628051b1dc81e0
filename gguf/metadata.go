package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// metadata holds the pairs of a file in file order.
type metadata struct {
	keys    []string
	values  []Value
	offsets []int          // where in the file the values start
	index   map[string]int // key to position in the above
}

// parseMetadata parses n pairs. Nothing is sized by n: a wrong count costs no more than the bytes that follow it.
func (c *cursor) parseMetadata(n int) (metadata, error) {
	m := metadata{index: make(map[string]int)}
	c.list = "kv"
	for c.index = range n {
		off := c.off
		key, err := c.readName("key", maxKeyLen)
		if err != nil {
			return m, err
		}
		if _, twice := m.index[key]; twice {
			return m, c.fieldError(off, "key", fmt.Errorf("%s %w", errs.Quote(key), ErrDuplicate))
		}
		kind, err := c.readUint32("type")
		if err != nil {
			return m, err
		}
		valueOff := c.off
		v, err := c.parseValue(Kind(kind))
		if err == nil && v.kind == KindString && !utf8.Valid(v.b) {
			err = c.fieldError(valueOff, "value", ErrUTF8)
		}
		if err == nil {
			err = c.checkMetadataSize("value")
		}
		if err != nil {
			return m, err
		}
		m.index[key] = len(m.keys)
		m.keys = append(m.keys, key)
		m.values = append(m.values, v)
		m.offsets = append(m.offsets, valueOff)
	}
	c.list = ""
	return m, nil
}

// parseValue parses a value of the given kind. c is at the number of the kind. A string may hold any bytes.
func (c *cursor) parseValue(kind Kind) (Value, error) {
	width, ok := kind.byteWidth()
	switch {
	case !ok:
		return Value{}, c.fieldError(c.off-4, "type", fmt.Errorf("metadata type %d: %w", uint32(kind), ErrType))
	case kind == KindString:
		b, err := c.readString("value")
		return Value{kind: kind, b: b}, err
	case kind == KindArray:
		return c.parseArray(1)
	}
	off := c.off
	b, err := c.readBytes(width, "value")
	if err == nil && kind == KindBool {
		err = c.checkBools(off, b)
	}
	return Value{kind: kind, b: b}, err
}

// parseArray parses an array at the given depth: 1 for a value of metadata, 2 for an array within one.
func (c *cursor) parseArray(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, c.fieldError(c.off, "value", fmt.Errorf("more than %d deep: %w", maxDepth, ErrDepth))
	}
	off := c.off
	kind, err := c.readUint32("value.type")
	if err != nil {
		return Value{}, err
	}
	elem := Kind(kind)
	width, ok := elem.byteWidth()
	if !ok {
		return Value{}, c.fieldError(off, "value.type", fmt.Errorf("metadata type %d: %w", kind, ErrType))
	}
	n, err := c.readCountUpTo(maxElements, elem.minByteWidth(), "value.length", "elements")
	if err != nil {
		return Value{}, err
	}
	start := c.off
	switch elem {
	case KindString:
		err = c.skipStrings(n)
	case KindArray:
		for i := 0; i < n && err == nil; i++ {
			if _, err = c.parseArray(depth + 1); err == nil {
				err = c.checkMetadataSize("value")
			}
		}
	default:
		c.off += n * width // count has checked that n elements fit into the bytes left
		if elem == KindBool {
			err = c.checkBools(start, c.b[start:c.off])
		}
	}
	return Value{kind: KindArray, elem: elem, n: n, b: c.b[start:c.off:c.off]}, err
}

// skipStrings skips n strings and reads only their lengths: this is the whole cost of a vocabulary.
func (c *cursor) skipStrings(n int) error {
	for i := range n {
		if c.remainingBytes() < 8 {
			return c.fieldError(c.off, fmt.Sprintf("value[%d].length", i), io.ErrUnexpectedEOF)
		}
		length := binary.LittleEndian.Uint64(c.b[c.off:])
		if length > uint64(c.remainingBytes()-8) {
			return c.fieldError(c.off, fmt.Sprintf("value[%d].length", i),
				fmt.Errorf("%d with %d bytes left: %w", length, c.remainingBytes()-8, ErrTooLong))
		}
		if length > maxString {
			return c.fieldError(c.off, fmt.Sprintf("value[%d].length", i), tooManyError(length, maxString, "bytes"))
		}
		if c.off += 8 + int(length); c.off > maxMetadata {
			return c.checkMetadataSize(fmt.Sprintf("value[%d]", i))
		}
	}
	return nil
}

// checkBools checks that each byte, the first at offset off, is a bool.
func (c *cursor) checkBools(off int, b []byte) error {
	for i, v := range b {
		if v > 1 {
			return c.fieldError(off+i, "value", fmt.Errorf("byte %#02x: %w", v, ErrBool))
		}
	}
	return nil
}

// Keys returns the metadata keys in file order. Of a split model these are the keys of the first file.
func (f *File) Keys() []string {
	if !f.uses.Take() {
		return nil
	}
	defer f.uses.Give()
	return append([]string(nil), f.meta.keys...)
}

// Metadata iterates over keys and values in file order.
func (f *File) Metadata() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, key := range f.Keys() {
			if v, err := f.Value(key); err != nil || !yield(key, v) {
				return
			}
		}
	}
}

// Value returns the value of key, of whatever type. The error is [ErrAbsent] or [ErrClosed].
func (f *File) Value(key string) (Value, error) {
	return readValue(f, key, func(v Value) (Value, error) { return v, nil })
}

// readValue returns of(value of key). The file cannot be closed meanwhile.
func readValue[T any](f *File, key string, of func(Value) (T, error)) (got T, err error) {
	if !f.uses.Take() {
		return got, fmt.Errorf("metadata %s: %w", key, ErrClosed)
	}
	defer f.uses.Give()
	i, ok := f.meta.index[key]
	if !ok {
		return got, fmt.Errorf("metadata %s: %w", key, ErrAbsent)
	}
	return of(f.meta.values[i])
}

// String returns the string of key. The error is [ErrAbsent], [ErrClosed] or a [TypeError].
func (f *File) String(key string) (string, error) {
	return readValue(f, key, func(v Value) (string, error) {
		if v.kind != KindString {
			return "", &TypeError{key, "string", v.Type()}
		}
		return string(v.b), nil
	})
}

// Bool returns the bool of key. The error is [ErrAbsent], [ErrClosed] or a [TypeError].
func (f *File) Bool(key string) (bool, error) {
	return readValue(f, key, func(v Value) (bool, error) {
		if v.kind != KindBool {
			return false, &TypeError{key, "bool", v.Type()}
		}
		return v.b[0] == 1, nil
	})
}

// Int returns the integer of key, of whatever width and sign. The error is [ErrAbsent], [ErrClosed] or a [TypeError],
// the latter also for an uint64 beyond the range of an int64.
func (f *File) Int(key string) (int64, error) {
	return readValue(f, key, func(v Value) (int64, error) {
		i, ok := v.toInt64()
		if ok {
			return i, nil
		}
		got := v.Type()
		if v.kind == KindUint64 {
			got = fmt.Sprintf("uint64 %d", v.Any())
		}
		return 0, &TypeError{key, "integer of at most 63 bits", got}
	})
}

// Float returns the float32 or float64 of key. The error is [ErrAbsent], [ErrClosed] or a [TypeError].
func (f *File) Float(key string) (float64, error) {
	return readValue(f, key, func(v Value) (float64, error) {
		switch x := v.Any().(type) {
		case float32:
			return float64(x), nil
		case float64:
			return x, nil
		}
		return 0, &TypeError{key, "float", v.Type()}
	})
}

// Strings returns the array of strings of key as a view. The error is [ErrAbsent], [ErrClosed] or a [TypeError].
func (f *File) Strings(key string) (StringArray, error) {
	return readValue(f, key, func(v Value) (StringArray, error) {
		if v.kind != KindArray || v.elem != KindString {
			return StringArray{}, &TypeError{key, "array of string", v.Type()}
		}
		return StringArray{v.n, v.b}, nil
	})
}

// Ints returns the array of integers of key, of whatever width and sign, as a new slice. The error is [ErrAbsent],
// [ErrClosed] or a [TypeError], the latter also if an uint64 is beyond the range of an int64.
func (f *File) Ints(key string) ([]int64, error) {
	return readValue(f, key, func(v Value) ([]int64, error) {
		all, ok := v.toInt64s()
		if !ok {
			return nil, &TypeError{key, "array of integers of at most 63 bits", v.Type()}
		}
		return all, nil
	})
}

// Floats returns the array of float32 of key, or of float64 rounded to float32, as a new slice. The error is
// [ErrAbsent], [ErrClosed] or a [TypeError].
func (f *File) Floats(key string) ([]float32, error) {
	return readValue(f, key, func(v Value) ([]float32, error) {
		all, ok := v.toFloat32s()
		if !ok {
			return nil, &TypeError{key, "array of float", v.Type()}
		}
		return all, nil
	})
}
