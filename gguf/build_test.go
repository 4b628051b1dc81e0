package gguf

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
)

// raw builds the bytes of a file field by field, right or wrong.
type raw []byte

func (r raw) u8(v ...byte) raw  { return append(r, v...) }
func (r raw) u16(v uint16) raw  { return binary.LittleEndian.AppendUint16(r, v) }
func (r raw) u32(v uint32) raw  { return binary.LittleEndian.AppendUint32(r, v) }
func (r raw) u64(v uint64) raw  { return binary.LittleEndian.AppendUint64(r, v) }
func (r raw) str(s string) raw  { return append(r.u64(uint64(len(s))), s...) }
func (r raw) zeros(n int) raw   { return append(r, make([]byte, n)...) }
func (r raw) pad(align int) raw { return r.zeros(-len(r) & (align - 1)) }

// header starts a version 3 file.
func header(tensors, pairs uint64) raw { return raw("GGUF").u32(3).u64(tensors).u64(pairs) }

// pair adds a key and the type of its value.
func (r raw) pair(key string, kind Kind) raw { return r.str(key).u32(uint32(kind)) }

// array adds a key, and the header of an array.
func (r raw) array(key string, elem Kind, n uint64) raw {
	return r.pair(key, KindArray).u32(uint32(elem)).u64(n)
}

// tensor adds the description of a tensor.
func (r raw) tensor(name string, t Type, offset uint64, shape ...uint64) raw {
	r = r.str(name).u32(uint32(len(shape)))
	for _, d := range shape {
		r = r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// written returns the file that fill writes.
func written(t testing.TB, fill func(w *Writer)) []byte {
	var b bytes.Buffer
	w := NewWriter(&b)
	fill(w)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// everyKind adds a pair of each kind, and an array of each.
func everyKind(w *Writer) {
	Put(w, "u8", uint8(200))
	Put(w, "i8", int8(-100))
	Put(w, "u16", uint16(60000))
	Put(w, "i16", int16(-30000))
	Put(w, "u32", uint32(4e9))
	Put(w, "i32", int32(-2e9))
	Put(w, "u64", uint64(1)<<63-1)
	Put(w, "i64", int64(-1)<<63)
	Put(w, "big", uint64(1)<<63)
	Put(w, "f32", float32(0.5))
	Put(w, "f64", 0.1)
	Put(w, "yes", true)
	Put(w, "no", false)
	Put(w, "text", "żółw")
	Put(w, "empty", "")
	PutArray(w, "a.u8", []uint8{1, 255})
	PutArray(w, "a.i8", []int8{-1, 1})
	PutArray(w, "a.u16", []uint16{1, 65535})
	PutArray(w, "a.i16", []int16{-1, 1})
	PutArray(w, "a.u32", []uint32{1, 1<<32 - 1})
	PutArray(w, "a.i32", []int32{-1, 1})
	PutArray(w, "a.u64", []uint64{1, 2})
	PutArray(w, "a.i64", []int64{-1, 1})
	PutArray(w, "a.big", []uint64{1, 1 << 63})
	PutArray(w, "a.f32", []float32{0.5, -1})
	PutArray(w, "a.f64", []float64{0.5, 0.1})
	PutArray(w, "a.bool", []bool{true, false})
	PutArray(w, "a.text", []string{"one", "", "three"})
	PutArray(w, "a.none", []int32{})
}

// everyType declares a tensor of each writable type, with one to four dimensions, and writes it.
func everyType(t testing.TB, w *Writer) {
	shapes := [][]int{{256}, {256, 3}, {512, 2, 2}, {256, 1, 2, 3}}
	for i, typ := range writable() {
		w.Declare("tensor."+typ.String(), typ, shapes[i%4]...)
	}
	for i := range writable() {
		n := Tensor{Shape: shapes[i%4]}.Elems()
		require.NoError(t, w.WriteFloats(blocktest.Deviates(uint64(i), n, 1)))
	}
}

// writable returns the types that Quantize writes, and readable the others.
func writable() []Type { return []Type{F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K} }
func readable() []Type { return []Type{Q2_K, Q3_K, Q5_K, IQ4_NL, IQ4_XS} }
