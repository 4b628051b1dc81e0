package gguf

import (
	"encoding/binary"
	"iter"
	"math"
)

// Value is one metadata value: a view of the file, valid until [File.Close].
type Value struct {
	kind Kind
	elem Kind   // of an array
	n    int    // elements of an array
	b    []byte // the bytes of a number or string; of an array its elements, each as a file stores it
}

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

// Elem returns the type of the elements if v is an array.
func (v Value) Elem() Kind { return v.elem }

// Len returns the number of elements if v is an array, else 0.
func (v Value) Len() int { return v.n }

// Type returns the type in words, such as "uint32" or "array of string".
func (v Value) Type() string {
	if v.kind == KindArray {
		return "array of " + v.elem.String()
	}
	return v.kind.String()
}

// Any returns a number as the Go type of its width, a bool as bool and a string as string; nil for an array, whose
// elements [Value.Elements] gives.
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
			e, err := c.value(v.elem)
			if err != nil {
				panic(err) // the bytes were checked when the file was opened
			}
			if !yield(e) {
				return
			}
		}
	}
}

// int returns the value of an integer; ok is false for other kinds and if an uint64 exceeds an int64.
func (v Value) int() (i int64, ok bool) {
	switch v.kind {
	case KindUint8:
		return int64(v.b[0]), true
	case KindInt8:
		return int64(int8(v.b[0])), true
	case KindUint16:
		return int64(binary.LittleEndian.Uint16(v.b)), true
	case KindInt16:
		return int64(int16(binary.LittleEndian.Uint16(v.b))), true
	case KindUint32:
		return int64(binary.LittleEndian.Uint32(v.b)), true
	case KindInt32:
		return int64(int32(binary.LittleEndian.Uint32(v.b))), true
	case KindUint64, KindInt64:
		u := binary.LittleEndian.Uint64(v.b)
		return int64(u), v.kind == KindInt64 || u <= math.MaxInt64
	}
	return 0, false
}

// ints returns the elements of an array of integers; ok is false for other kinds and if an element exceeds an int64.
func (v Value) ints() (all []int64, ok bool) {
	if v.kind != KindArray || !v.elem.integer() {
		return nil, false
	}
	width, _ := v.elem.width()
	all = make([]int64, v.n)
	for i := range all {
		e := Value{kind: v.elem, b: v.b[i*width : (i+1)*width]}
		if all[i], ok = e.int(); !ok {
			return nil, false
		}
	}
	return all, true
}

// floats returns the elements of an array of float32, or of float64 rounded; ok is false for other kinds.
func (v Value) floats() (all []float32, ok bool) {
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
