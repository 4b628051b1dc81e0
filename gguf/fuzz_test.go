package gguf

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// use calls all methods of a file, and checks properties of any accepted file.
func use(t testing.TB, f *File) {
	for _, key := range f.Keys() {
		v, err := f.Value(key)
		require.NoError(t, err)
		walk(v)
		_, _ = f.String(key)
		_, _ = f.Bool(key)
		_, _ = f.Int(key)
		_, _ = f.Float(key)
		_, _ = f.Ints(key)
		_, _ = f.Floats(key)
		if a, err := f.Strings(key); err == nil {
			n := 0
			for range a.All() {
				n++
			}
			require.Equal(t, a.Len(), n)
		}
	}
	for _, x := range f.Tensors() {
		elems, size := x.Type.Block()
		require.Equal(t, x.Elems()/elems*size, len(x.Data))
		if x.Elems() <= 1<<16 {
			x.Type.Dequantize(make([]float32, x.Elems()), x.Data)
		}
		_, ok := f.Tensor(x.Name)
		require.True(t, ok)
	}
}

// walk visits all elements of a value.
func walk(v Value) {
	_, _ = v.Type(), v.Any()
	for e := range v.Elements() {
		walk(e)
	}
}

// FuzzParse: any bytes are refused with a FormatError, or are a file with usable parts that can be written again: the
// result is read as the same file, and is written as the same bytes.
func FuzzParse(f *testing.F) {
	for _, h := range hostileFiles() {
		if len(h.b) < 1<<16 {
			f.Add([]byte(h.b))
		}
	}
	f.Add([]byte(good()))
	f.Add(written(f, func(w *Writer) { everyKind(w) }))
	f.Add(written(f, func(w *Writer) { everyType(f, w) })[:4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		if err != nil {
			var fe *FormatError
			require.ErrorAs(t, err, &fe)
			require.True(t, fe.Offset >= 0 && fe.Offset <= int64(len(b)))
			require.NotEmpty(t, err.Error())
			return
		}
		use(t, file)
		if align, err := file.readAlignment(); err != nil || align > 1<<12 {
			return // padding could be much larger than the file
		}
		once := rewrite(t, file)
		again, err := Parse(once)
		require.NoError(t, err)
		require.Equal(t, file.Keys(), again.Keys())
		require.Equal(t, file.Tensors(), again.Tensors())
		require.True(t, bytes.Equal(once, rewrite(t, again)))
	})
}
