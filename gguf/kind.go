package gguf

import "fmt"

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

// width returns the bytes that a value of k takes, 0 where that varies (strings, arrays); ok is false if k is unknown.
func (k Kind) width() (n int, ok bool) {
	switch k {
	case KindUint8, KindInt8, KindBool:
		return 1, true
	case KindUint16, KindInt16:
		return 2, true
	case KindUint32, KindInt32, KindFloat32:
		return 4, true
	case KindUint64, KindInt64, KindFloat64:
		return 8, true
	case KindString, KindArray:
		return 0, true
	}
	return 0, false
}

// minWidth returns the fewest bytes that a value of k takes.
func (k Kind) minWidth() int {
	switch n, _ := k.width(); {
	case n > 0:
		return n
	case k == KindString:
		return 8 // length
	default:
		return 4 + 8 // element type, length
	}
}

// integer reports whether k is one of the eight integer kinds.
func (k Kind) integer() bool {
	switch k {
	case KindUint8, KindInt8, KindUint16, KindInt16, KindUint32, KindInt32, KindUint64, KindInt64:
		return true
	}
	return false
}

// String returns the usual name, such as "uint32".
func (k Kind) String() string {
	names := [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
		"uint64", "int64", "float64"}
	if int64(k) < int64(len(names)) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}
