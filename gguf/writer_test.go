package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
)

// rewrite writes the file that f was read from.
func rewrite(t testing.TB, f *File) []byte {
	return written(t, func(w *Writer) {
		for key, v := range f.Metadata() {
			w.PutValue(key, v)
		}
		for _, x := range f.Tensors() {
			w.Declare(x.Name, x.Type, x.Shape...)
		}
		for _, x := range f.Tensors() {
			_, err := w.Write(x.Data)
			require.NoError(t, err)
		}
	})
}

// TestWriteRead: a written file is read back, and writing that gives the same bytes.
func TestWriteRead(t *testing.T) {
	fill := func(w *Writer) { everyKind(w); everyType(t, w) }
	b := written(t, fill)
	require.True(t, bytes.Equal(b, written(t, fill)), "the same calls write the same bytes")
	f, err := Parse(b)
	require.NoError(t, err)
	require.Equal(t, uint32(versionWritten), f.Version())
	require.Equal(t, int64(len(b)), f.Size())
	require.Len(t, f.Tensors(), len(writable()))
	for i, x := range f.Tensors() {
		require.Equal(t, writable()[i], x.Type)
		require.Equal(t, blocktest.Quantized(t, x.Type, blocktest.Deviates(uint64(i), x.Elems(), 1)), x.Data, x.Name)
		again, ok := f.Tensor(x.Name)
		require.True(t, ok)
		require.Equal(t, x, again)
	}
	_, ok := f.Tensor("absent")
	require.False(t, ok)
	require.True(t, bytes.Equal(b, rewrite(t, f)))

	b[4] = 2 // version 2 has the same layout
	f, err = Parse(b)
	require.NoError(t, err)
	require.Equal(t, uint32(2), f.Version())
}

// TestWriteReadRandom: the same for random metadata, tensors, alignments and pieces.
func TestWriteReadRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := written(t, func(w *Writer) {
			align := randomMetadata(rng, w)
			if align > 0 {
				Put(w, alignmentKey, uint32(align))
			}
			var data []byte
			for i := range rng.IntN(5) {
				typ := append(writable(), readable()...)[rng.IntN(15)]
				elems, size := typ.Block()
				rows := 1 + rng.IntN(4)
				w.Declare(fmt.Sprint("t", i), typ, 3*elems, rows)
				for range 3 * rows * size {
					data = append(data, byte(rng.Uint32()))
				}
			}
			for len(data) > 0 { // pieces do not depend on tensors
				n := min(1+rng.IntN(1000), len(data))
				wrote, err := w.Write(data[:n])
				require.NoError(t, err)
				require.Equal(t, n, wrote)
				data = data[n:]
			}
		})
		f, err := Parse(b)
		require.NoError(t, err, seed)
		require.True(t, bytes.Equal(b, rewrite(t, f)), seed)
	}
}

// randomMetadata adds random pairs and returns an alignment, 0 for the default.
func randomMetadata(rng *rand.Rand, w *Writer) (align int) {
	for i := range rng.IntN(10) {
		key := fmt.Sprint("key.", i)
		switch rng.IntN(4) {
		case 0:
			Put(w, key, rng.Uint32())
		case 1:
			Put(w, key, rng.Float64())
		case 2:
			PutArray(w, key, make([]string, rng.IntN(5)))
		case 3:
			w.PutValue(key, Value{kind: KindArray, elem: KindArray, n: 2,
				b: raw{}.u32(0).u64(2).u8(1, 2).u32(uint32(KindString)).u64(1).str("nested")})
		}
	}
	return []int{0, 8, 32, 64, 4096}[rng.IntN(5)]
}

func TestWriterAlignment(t *testing.T) {
	b := written(t, func(w *Writer) {
		Put(w, alignmentKey, uint32(4096))
		w.Declare("a", F32, 3)
		w.Declare("b", F32, 5)
		require.NoError(t, w.WriteFloats([]float32{1, 2, 3}))
		require.NoError(t, w.WriteFloats([]float32{4, 5}))
		require.NoError(t, w.WriteFloats([]float32{6, 7, 8}))
	})
	require.Equal(t, 3*4096, len(b))
	require.Equal(t, []byte{0, 0, 0x80, 0x3f}, b[4096:4100])
	require.Equal(t, []byte{0, 0, 0x80, 0x40}, b[8192:8196])
}

// refusedWrite is what a caller does wrong with a writer, and the error of Close.
type refusedWrite struct {
	do   func(w *Writer)
	want error
}

// refusedDescriptions returns refused metadata and descriptions of tensors, by name.
func refusedDescriptions() map[string]refusedWrite {
	long := string(make([]byte, 65))
	return map[string]refusedWrite{
		"empty key":      {func(w *Writer) { Put(w, "", true) }, ErrName},
		"key twice":      {func(w *Writer) { Put(w, "a", true); PutArray(w, "a", []bool{}) }, ErrDuplicate},
		"text not UTF-8": {func(w *Writer) { Put(w, "a", "\xff") }, ErrUTF8},
		"zero value":     {func(w *Writer) { w.PutValue("a", Value{}) }, ErrType},
		"many elements": {func(w *Writer) {
			w.PutValue("a", Value{kind: KindArray, elem: KindUint8, n: maxElements + 1})
		}, ErrLimit},
		"long text": {func(w *Writer) {
			w.PutValue("a", Value{kind: KindString, b: make([]byte, maxString+1)})
		}, ErrLimit},
		"alignment 24":      {func(w *Writer) { Put(w, alignmentKey, uint32(24)) }, ErrAlignment},
		"alignment text":    {func(w *Writer) { Put(w, alignmentKey, "32") }, &TypeError{}},
		"empty name":        {func(w *Writer) { w.Declare("", F32, 1) }, ErrName},
		"long name":         {func(w *Writer) { w.Declare(long, F32, 1) }, ErrName},
		"name twice":        {func(w *Writer) { w.Declare("a", F32, 1); w.Declare("a", F16, 1) }, ErrDuplicate},
		"unknown type":      {func(w *Writer) { w.Declare("a", 16, 256) }, ErrType},
		"no shape":          {func(w *Writer) { w.Declare("a", F32) }, ErrShape},
		"five dimensions":   {func(w *Writer) { w.Declare("a", F32, 1, 1, 1, 1, 1) }, ErrShape},
		"size 0":            {func(w *Writer) { w.Declare("a", F32, 1, 0) }, ErrShape},
		"half a block":      {func(w *Writer) { w.Declare("a", Q8_0, 48) }, ErrShape},
		"overflow":          {func(w *Writer) { w.Declare("a", F32, 1<<30, 1<<30, 1<<30) }, ErrOverflow},
		"overflow of bytes": {func(w *Writer) { w.Declare("a", F32, math.MaxInt/2) }, ErrOverflow},
	}
}

// refusedData returns data that does not fit its tensors, and calls in a wrong order, by name.
func refusedData() map[string]refusedWrite {
	return map[string]refusedWrite{
		"floats beyond the tensor": {func(w *Writer) {
			w.Declare("a", F32, 4)
			_ = w.WriteFloats(make([]float32, 3))
			_ = w.WriteFloats(make([]float32, 2))
		}, errData},
		"metadata late": {func(w *Writer) { _, _ = w.Write(nil); Put(w, "a", true) }, errOrder},
		"tensor late":   {func(w *Writer) { _, _ = w.Write(nil); w.Declare("a", F32, 1) }, errOrder},
		"data missing": {func(w *Writer) { w.Declare("a", F32, 2); _ = w.WriteFloats([]float32{1}) },
			io.ErrUnexpectedEOF},
		"data too long":    {func(w *Writer) { w.Declare("a", F32, 1); _, _ = w.Write(make([]byte, 5)) }, errData},
		"floats too long":  {func(w *Writer) { w.Declare("a", F32, 1); _ = w.WriteFloats([]float32{1, 2}) }, errData},
		"floats after all": {func(w *Writer) { _ = w.WriteFloats([]float32{1}) }, errData},
		"floats half block": {func(w *Writer) { w.Declare("a", Q8_0, 32); _ = w.WriteFloats(make([]float32, 16)) },
			errData},
		"floats not written": {func(w *Writer) { w.Declare("a", Q2_K, 256); _ = w.WriteFloats(make([]float32, 256)) },
			block.ErrNoQuantizer},
		"floats too large": {func(w *Writer) {
			w.Declare("a", Q8_0, 32)
			_ = w.WriteFloats(slices.Repeat([]float32{math.MaxFloat32}, 32))
		}, ErrNotFinite},
	}
}

// TestWriterRefuses: Close returns the first error.
func TestWriterRefuses(t *testing.T) {
	cases := refusedDescriptions()
	maps.Copy(cases, refusedData())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(io.Discard)
			c.do(w)
			err := w.Close()
			Put(w, "", true) // a later error changes nothing
			require.Equal(t, err, w.Close())
			if want, ok := c.want.(*TypeError); ok {
				require.ErrorAs(t, err, &want)
				return
			}
			require.ErrorIs(t, err, c.want)
		})
	}
}

// failAfter fails with err when more than n bytes are written.
type failAfter struct {
	n   int
	err error // nil: it only writes less
}

var errFull = errors.New("disk full")

func (w *failAfter) Write(p []byte) (int, error) {
	if len(p) > w.n {
		return w.n, w.err
	}
	w.n -= len(p)
	return len(p), nil
}

func TestWriterPassesErrorsOn(t *testing.T) {
	empty := written(t, func(w *Writer) { everyKind(w) })
	for room := len(empty); room < len(empty)+512; room += 31 { // it takes the header, and a part of the data
		w := NewWriter(&failAfter{room, errFull})
		everyKind(w)
		for i := range 4 {
			w.Declare(fmt.Sprint(i), F32, 16)
		}
		n, err := w.Write(make([]byte, 4*64))
		if err != nil {
			require.ErrorIs(t, err, errFull)
			require.Less(t, n, 4*64)
			require.LessOrEqual(t, n, max(0, room-len(empty)), "what was not written does not count")
			require.Zero(t, n%64)
		}
	}
	whole := written(t, func(w *Writer) { everyKind(w); everyType(t, w) })
	for n := 0; n < len(whole); n += 97 {
		err, want := errFull, errFull
		if n%2 == 1 {
			err, want = nil, io.ErrShortWrite
		}
		w := NewWriter(&failAfter{n, err})
		everyKind(w)
		for i, typ := range writable() {
			w.Declare(fmt.Sprint(i), typ, 256)
		}
		for range writable() {
			_ = w.WriteFloats(make([]float32, 256))
		}
		if err := w.Close(); n < 2000 {
			require.ErrorIs(t, err, want, n)
		}
	}
}
