package gguf

import (
	"encoding/binary"
	"math"
)

// kindOf returns the kind that v is stored as.
func kindOf(v any) Kind {
	switch v.(type) {
	case uint8:
		return KindUint8
	case int8:
		return KindInt8
	case uint16:
		return KindUint16
	case int16:
		return KindInt16
	case uint32:
		return KindUint32
	case int32:
		return KindInt32
	case uint64:
		return KindUint64
	case int64:
		return KindInt64
	case float32:
		return KindFloat32
	case float64:
		return KindFloat64
	case bool:
		return KindBool
	default:
		return KindString
	}
}

// appendElement appends a number, or the bytes of a string.
func appendElement[T Element](b []byte, v T) []byte {
	switch x := any(v).(type) {
	case string:
		return append(b, x...)
	case bool:
		if x {
			return append(b, 1)
		}
		return append(b, 0)
	case uint8:
		return append(b, x)
	case int8:
		return append(b, byte(x))
	case uint16:
		return binary.LittleEndian.AppendUint16(b, x)
	case int16:
		return binary.LittleEndian.AppendUint16(b, uint16(x))
	case uint32:
		return binary.LittleEndian.AppendUint32(b, x)
	case int32:
		return binary.LittleEndian.AppendUint32(b, uint32(x))
	case uint64:
		return binary.LittleEndian.AppendUint64(b, x)
	case int64:
		return binary.LittleEndian.AppendUint64(b, uint64(x))
	case float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	case float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// appendString appends a string as a file has it.
func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
