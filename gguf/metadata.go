package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"
)

// metadata holds the pairs of a file in file order.
type metadata struct {
	keys    []string
	values  []Value
	offsets []int          // where in the file the values start
	index   map[string]int // key to position in the above
}

// metadata parses n pairs. Nothing is sized by n: a wrong count costs no more than the bytes that follow it.
func (c *cursor) metadata(n int) (metadata, error) {
	m := metadata{index: make(map[string]int)}
	c.list = "kv"
	for c.index = range n {
		off := c.off
		key, err := c.name("key", maxKeyLen)
		if err != nil {
			return m, err
		}
		if _, twice := m.index[key]; twice {
			return m, c.fail(off, "key", fmt.Errorf("%q %w", key, ErrDuplicate))
		}
		kind, err := c.u32("type")
		if err != nil {
			return m, err
		}
		valueOff := c.off
		v, err := c.value(Kind(kind))
		if err == nil && v.kind == KindString && !utf8.Valid(v.b) {
			err = c.fail(valueOff, "value", ErrUTF8)
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

// value parses a value of the given kind, whose number ends where c stands. A string may be any bytes.
func (c *cursor) value(kind Kind) (Value, error) {
	width, ok := kind.width()
	switch {
	case !ok:
		return Value{}, c.fail(c.off-4, "type", fmt.Errorf("metadata type %d: %w", uint32(kind), ErrType))
	case kind == KindString:
		b, err := c.str("value")
		return Value{kind: kind, b: b}, err
	case kind == KindArray:
		return c.array(1)
	}
	off := c.off
	b, err := c.bytes(width, "value")
	if err == nil && kind == KindBool {
		err = c.bools(off, b)
	}
	return Value{kind: kind, b: b}, err
}

// array parses an array at the given depth: 1 for a value of metadata, 2 for an array within one.
func (c *cursor) array(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, c.fail(c.off, "value", fmt.Errorf("more than %d deep: %w", maxDepth, ErrDepth))
	}
	off := c.off
	kind, err := c.u32("value.type")
	if err != nil {
		return Value{}, err
	}
	elem := Kind(kind)
	width, ok := elem.width()
	if !ok {
		return Value{}, c.fail(off, "value.type", fmt.Errorf("metadata type %d: %w", kind, ErrType))
	}
	n, err := c.count(elem.minWidth(), "value.length")
	if err != nil {
		return Value{}, err
	}
	start := c.off
	switch elem {
	case KindString:
		err = c.skipStrings(n)
	case KindArray:
		for i := 0; i < n && err == nil; i++ {
			_, err = c.array(depth + 1)
		}
	default:
		c.off += n * width // count has compared n with the bytes left
		if elem == KindBool {
			err = c.bools(start, c.b[start:c.off])
		}
	}
	return Value{kind: KindArray, elem: elem, n: n, b: c.b[start:c.off:c.off]}, err
}

// skipStrings walks over n strings, looking at nothing but their lengths: this is the whole cost of a vocabulary.
func (c *cursor) skipStrings(n int) error {
	for i := range n {
		if c.rest() < 8 {
			return c.fail(c.off, fmt.Sprintf("value[%d].length", i), io.ErrUnexpectedEOF)
		}
		length := binary.LittleEndian.Uint64(c.b[c.off:])
		if length > uint64(c.rest()-8) {
			return c.fail(c.off, fmt.Sprintf("value[%d].length", i),
				fmt.Errorf("%d with %d bytes left: %w", length, c.rest()-8, ErrTooLong))
		}
		c.off += 8 + int(length)
	}
	return nil
}

// bools checks that each byte, the first at offset off, is a bool.
func (c *cursor) bools(off int, b []byte) error {
	for i, v := range b {
		if v > 1 {
			return c.fail(off+i, "value", fmt.Errorf("byte %#02x: %w", v, ErrBool))
		}
	}
	return nil
}

// Keys returns the metadata keys in file order. Of a split model these are the keys of the first file.
func (f *File) Keys() []string { return append([]string(nil), f.meta.keys...) }

// Metadata iterates over keys and values in file order.
func (f *File) Metadata() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i, key := range f.meta.keys {
			if !yield(key, f.meta.values[i]) {
				return
			}
		}
	}
}

// Value returns the value of key, of whatever type. The error is [ErrAbsent].
func (f *File) Value(key string) (Value, error) { return f.meta.value(key) }

func (m *metadata) value(key string) (Value, error) {
	i, ok := m.index[key]
	if !ok {
		return Value{}, fmt.Errorf("metadata %s: %w", key, ErrAbsent)
	}
	return m.values[i], nil
}

// String returns the string of key. The error is [ErrAbsent] or a [TypeError].
func (f *File) String(key string) (string, error) {
	v, err := f.meta.value(key)
	if err == nil && v.kind != KindString {
		err = &TypeError{key, "string", v.Type()}
	}
	if err != nil {
		return "", err
	}
	return string(v.b), nil
}

// Bool returns the bool of key. The error is [ErrAbsent] or a [TypeError].
func (f *File) Bool(key string) (bool, error) {
	v, err := f.meta.value(key)
	if err == nil && v.kind != KindBool {
		err = &TypeError{key, "bool", v.Type()}
	}
	return err == nil && v.b[0] == 1, err
}

// Int returns the integer of key, of whatever width and sign. The error is [ErrAbsent] or a [TypeError], the latter
// also for an uint64 beyond the range of an int64.
func (f *File) Int(key string) (int64, error) { return f.meta.int(key) }

func (m *metadata) int(key string) (int64, error) {
	v, err := m.value(key)
	if err != nil {
		return 0, err
	}
	i, ok := v.int()
	if ok {
		return i, nil
	}
	got := v.Type()
	if v.kind == KindUint64 {
		got = fmt.Sprintf("uint64 %d", v.Any())
	}
	return 0, &TypeError{key, "integer of at most 63 bits", got}
}

// Float returns the float32 or float64 of key. The error is [ErrAbsent] or a [TypeError].
func (f *File) Float(key string) (float64, error) {
	v, err := f.meta.value(key)
	if err != nil {
		return 0, err
	}
	switch x := v.Any().(type) {
	case float32:
		return float64(x), nil
	case float64:
		return x, nil
	}
	return 0, &TypeError{key, "float", v.Type()}
}

// Strings returns the array of strings of key as a view. The error is [ErrAbsent] or a [TypeError].
func (f *File) Strings(key string) (StringArray, error) {
	v, err := f.meta.value(key)
	if err == nil && (v.kind != KindArray || v.elem != KindString) {
		err = &TypeError{key, "array of string", v.Type()}
	}
	if err != nil {
		return StringArray{}, err
	}
	return StringArray{v.n, v.b}, nil
}

// Ints returns the array of integers of key, of whatever width and sign, as a new slice. The error is [ErrAbsent] or a
// [TypeError], the latter also if an uint64 is beyond the range of an int64.
func (f *File) Ints(key string) ([]int64, error) {
	v, err := f.meta.value(key)
	if err != nil {
		return nil, err
	}
	all, ok := v.ints()
	if !ok {
		return nil, &TypeError{key, "array of integers of at most 63 bits", v.Type()}
	}
	return all, nil
}

// Floats returns the array of float32 of key, or of float64 rounded to float32, as a new slice. The error is
// [ErrAbsent] or a [TypeError].
func (f *File) Floats(key string) ([]float32, error) {
	v, err := f.meta.value(key)
	if err != nil {
		return nil, err
	}
	all, ok := v.floats()
	if !ok {
		return nil, &TypeError{key, "array of float", v.Type()}
	}
	return all, nil
}
