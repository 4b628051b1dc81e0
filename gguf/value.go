package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"reflect"
)

// Value is one metadata value: a view of the file, valid until [File.Close].
type Value struct {
	kind Kind
	elem Kind   // of an array
	n    int    // elements of an array
	b    []byte // the bytes of a number or string; for an array its elements, as a file stores them
}

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

// Len returns the number of elements if v is an array, else 0.
func (v Value) Len() int { return v.n }

// Type returns the type in words, such as "uint32" or "array of string".
func (v Value) Type() string {
	if v.kind == KindArray {
		return "array of " + v.elem.String()
	}
	return v.kind.String()
}

// Any returns a number as the Go type of its width, a bool as bool and a string as string. It returns nil for an array:
// use [Value.Elements].
func (v Value) Any() any {
	switch v.kind {
	case KindUint8:
		return v.b[0]
	case KindInt8:
		return int8(v.b[0])
	case KindUint16:
		return binary.LittleEndian.Uint16(v.b)
	case KindInt16:
		return int16(binary.LittleEndian.Uint16(v.b))
	case KindUint32:
		return binary.LittleEndian.Uint32(v.b)
	case KindInt32:
		return int32(binary.LittleEndian.Uint32(v.b))
	case KindUint64:
		return binary.LittleEndian.Uint64(v.b)
	case KindInt64:
		return int64(binary.LittleEndian.Uint64(v.b))
	case KindFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(v.b))
	case KindFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.b))
	case KindBool:
		return v.b[0] != 0
	case KindString:
		return string(v.b)
	}
	return nil
}

// Elements iterates over the elements of an array in order, without allocating. There are none if v is no array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		c := cursor{b: v.b}
		for range v.n {
			e, err := c.parseValue(v.elem)
			if err != nil {
				panic(err) // the bytes were checked when the file was opened
			}
			if !yield(e) {
				return
			}
		}
	}
}

// toInt64 returns the value of an integer; ok is false for other kinds and if an uint64 exceeds an int64.
func (v Value) toInt64() (i int64, ok bool) {
	if !v.kind.isInteger() {
		return 0, false
	}
	for k, b := range v.b {
		i |= int64(b) << (8 * k)
	}
	switch v.kind {
	case KindInt8, KindInt16, KindInt32:
		unused := 64 - 8*len(v.b)
		return i << unused >> unused, true
	}
	return i, i >= 0 || v.kind == KindInt64
}

// toInt64s returns the elements of an array of integers; ok is false for other kinds and if an element exceeds an
// int64.
func (v Value) toInt64s() (all []int64, ok bool) {
	if v.kind != KindArray || !v.elem.isInteger() {
		return nil, false
	}
	width, _ := v.elem.byteWidth()
	all = make([]int64, v.n)
	for i := range all {
		e := Value{kind: v.elem, b: v.b[i*width : (i+1)*width]}
		if all[i], ok = e.toInt64(); !ok {
			return nil, false
		}
	}
	return all, true
}

// toFloat32s returns the elements of an array of float32, or of float64 rounded; ok is false for other kinds.
func (v Value) toFloat32s() (all []float32, ok bool) {
	if v.kind != KindArray || v.elem != KindFloat32 && v.elem != KindFloat64 {
		return nil, false
	}
	all = make([]float32, v.n)
	for i := range all {
		if v.elem == KindFloat32 {
			all[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.b[4*i:]))
		} else {
			all[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(v.b[8*i:])))
		}
	}
	return all, true
}

// StringArray is a metadata array of strings in the form of the file: a vocabulary of 300,000 strings costs nothing
// until it is iterated over, and then without a Go string for each. The zero value is empty. It is valid until
// [File.Close].
type StringArray struct {
	n int
	b []byte // n × (length u64, bytes), checked
}

// Len returns the number of strings.
func (a StringArray) Len() int { return a.n }

// All iterates over index and bytes of the strings in order. The bytes alias the file: they must not be modified, and
// may be invalid UTF-8.
func (a StringArray) All() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		b := a.b
		for i := range a.n {
			end := 8 + int(binary.LittleEndian.Uint64(b))
			if !yield(i, b[8:end:end]) {
				return
			}
			b = b[end:]
		}
	}
}

// Chunk iterates over consecutive parts of the array, of n strings each; the last one may have fewer. It panics if n is
// not positive.
func (a StringArray) Chunk(n int) iter.Seq[StringArray] {
	if n < 1 {
		panic("gguf: Chunk of no strings")
	}
	return func(yield func(StringArray) bool) {
		for rest := a; rest.n > 0; {
			part := StringArray{min(n, rest.n), rest.b}
			end := 0
			for range part.n {
				end += 8 + int(binary.LittleEndian.Uint64(part.b[end:]))
			}
			part.b, rest = part.b[:end], StringArray{rest.n - part.n, rest.b[end:]}
			if !yield(part) {
				return
			}
		}
	}
}

// Kind is the number a file stores for the type of a metadata value.
type Kind uint32

// The kinds of metadata values.
const (
	KindUint8   Kind = 0
	KindInt8    Kind = 1
	KindUint16  Kind = 2
	KindInt16   Kind = 3
	KindUint32  Kind = 4
	KindInt32   Kind = 5
	KindFloat32 Kind = 6
	KindBool    Kind = 7 // one byte, 0 or 1
	KindString  Kind = 8
	KindArray   Kind = 9
	KindUint64  Kind = 10
	KindInt64   Kind = 11
	KindFloat64 Kind = 12
)

// kinds are the names of the kinds, which are those of the Go types, and the bytes of a value, 0 if that varies.
var kinds = [...]struct {
	name  string
	width int
}{
	KindUint8: {"uint8", 1}, KindUint16: {"uint16", 2}, KindUint32: {"uint32", 4}, KindUint64: {"uint64", 8},
	KindInt8: {"int8", 1}, KindInt16: {"int16", 2}, KindInt32: {"int32", 4}, KindInt64: {"int64", 8},
	KindFloat32: {"float32", 4}, KindFloat64: {"float64", 8}, KindBool: {"bool", 1}, KindString: {"string", 0},
	KindArray: {"array", 0},
}

// byteWidth returns the number of bytes of a value of kind k, 0 if it varies (strings, arrays); ok is false if k is
// unknown.
func (k Kind) byteWidth() (n int, ok bool) {
	if int64(k) >= int64(len(kinds)) {
		return 0, false
	}
	return kinds[k].width, true
}

// minByteWidth returns the minimum number of bytes of a value of kind k.
func (k Kind) minByteWidth() int {
	switch n, _ := k.byteWidth(); {
	case n > 0:
		return n
	case k == KindString:
		return 8 // length
	default:
		return 4 + 8 // element type, length
	}
}

func (k Kind) isInteger() bool {
	switch k {
	case KindUint8, KindInt8, KindUint16, KindInt16, KindUint32, KindInt32, KindUint64, KindInt64:
		return true
	}
	return false
}

// String returns the usual name, such as "uint32".
func (k Kind) String() string {
	if _, ok := k.byteWidth(); ok {
		return kinds[k].name
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}

func kindOf[T Element]() Kind {
	for k := range kinds {
		if kinds[k].name == reflect.TypeFor[T]().Name() {
			return Kind(k)
		}
	}
	panic("unreachable: each Element has a kind")
}
