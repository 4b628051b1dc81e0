package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// save writes b to a new file and returns its path.
func save(t testing.TB, dir, name string, b []byte) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// opened returns a file until the test ends.
func opened(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestOpen(t *testing.T) {
	b := written(t, func(w *Writer) { everyKind(w); everyType(t, w) })
	f := opened(t, save(t, held.TempDir(t), "model.gguf", b))
	require.Equal(t, int64(len(b)), f.Size())
	require.Equal(t, b, rewrite(t, f))
	require.NoError(t, f.Close())
	require.Empty(t, f.Tensors())
	require.Empty(t, f.Keys())
	_, err := f.String("text")
	require.ErrorIs(t, err, ErrClosed)
	_, ok := f.Tensor("F32")
	require.False(t, ok)
	require.ErrorIs(t, f.Preload(t.Context(), nil), ErrClosed)
	require.NoError(t, f.Close())
}

// TestResultsAreApart: what a method returns may be changed or appended to, without effect on the file, on neighbouring
// data, or on later calls.
func TestResultsAreApart(t *testing.T) {
	b := written(t, func(w *Writer) {
		everyKind(w)
		shape := []int{32, 2}
		w.Declare("a", F32, shape...)
		shape[0] = 64 // of the caller again
		w.Declare("b", F32, shape...)
		require.NoError(t, w.WriteFloats(blocktest.Deviates(1, 64, 1)))
		require.NoError(t, w.WriteFloats(blocktest.Deviates(2, 128, 1)))
	})
	f, err := Parse(b)
	require.NoError(t, err)
	before := rewrite(t, f)
	a, ok := f.Tensor("a")
	require.True(t, ok)
	require.Equal(t, []int{32, 2}, a.Shape)
	all, keys := f.Tensors(), f.Keys()
	slices.Reverse(all)
	slices.Reverse(keys)
	list, err := f.Strings("a.text")
	require.NoError(t, err)
	for _, s := range list.All() {
		_ = append(s, "overwritten"...)
	}
	for _, x := range f.Tensors() {
		_ = append(x.Data, "overwritten"...)
	}
	require.True(t, bytes.Equal(before, rewrite(t, f)))
}

// TestMappings: the mapped bytes are those of all files of a model. A file in memory is not mapped.
func TestMappings(t *testing.T) {
	first := splitModel(t, 3, nil)
	f := opened(t, first)
	require.True(t, f.Mapped() || runtime.GOOS != "linux")
	if f.Mapped() { // not on every system
		var want, got [][]byte
		for i := range 3 {
			b, err := os.ReadFile(strings.Replace(first, "00001-of", fmt.Sprintf("%05d-of", i+1), 1))
			require.NoError(t, err)
			want = append(want, b)
		}
		for _, b := range f.Mappings() {
			got = append(got, bytes.Clone(b))
		}
		require.Equal(t, want, got)
	}
	require.NoError(t, f.Close())
	require.Nil(t, f.Mappings())
	b, err := os.ReadFile(first)
	require.NoError(t, err)
	require.True(t, f.Size() > int64(len(b)), "the size of a closed file is known")
	f = parsed(t, everyKind)
	require.False(t, f.Mapped())
	require.Nil(t, f.Mappings())
}

// TestCloseWhileRead: Close may be called at any time. A concurrent read succeeds or is refused, and never faults.
func TestCloseWhileRead(t *testing.T) {
	b := written(t, func(w *Writer) {
		Put(w, "text", strings.Repeat("x", 1<<16))
		w.Declare("a", F32, 1<<20)
		require.NoError(t, w.WriteFloats(make([]float32, 1<<20)))
	})
	path := save(t, held.TempDir(t), "model.gguf", b)
	for range 30 {
		f := opened(t, path)
		var all sync.WaitGroup
		begun := make(chan struct{}, 4)
		read := func(one func() error) {
			all.Go(func() {
				for err := error(nil); err == nil; {
					if err = one(); err != nil {
						assert.ErrorIs(t, err, ErrClosed)
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		read(func() error { _, err := f.String("text"); return err })
		read(func() error { _, err := f.Value("text"); _ = f.Keys(); return err })
		read(func() error { return f.Preload(t.Context(), nil) })
		read(func() error {
			if _, ok := f.Tensor("a"); !ok || len(f.Tensors()) == 0 {
				return ErrClosed
			}
			return nil
		})
		for range cap(begun) {
			<-begun
		}
		all.Go(func() { assert.NoError(t, f.Close()) })
		assert.NoError(t, f.Close())
		all.Wait()
	}
}

// TestOpenRefuses: a missing file is an error of the operating system; a file that is not a GGUF file is a FormatError
// with its name.
func TestOpenRefuses(t *testing.T) {
	dir := held.TempDir(t)
	_, err := Open(filepath.Join(dir, "absent.gguf"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "absent.gguf")
	_, err = Open(dir)
	require.ErrorContains(t, err, "not a regular file")
	for name, b := range map[string][]byte{"empty.gguf": nil, "short.gguf": []byte("GG"), "cut.gguf": header(0, 1)} {
		_, err = Open(save(t, dir, name, b))
		var fe *FormatError
		require.ErrorAs(t, err, &fe)
		require.ErrorIs(t, err, map[bool]error{true: ErrTooLong, false: io.ErrUnexpectedEOF}[name == "cut.gguf"])
		require.Equal(t, filepath.Join(dir, name), fe.Path)
		require.ErrorContains(t, err, name)
	}
}

func TestFormatErrorMessage(t *testing.T) {
	_, err := Parse([]byte("GGML and so on"))
	require.EqualError(t, err, `gguf: offset 0: magic: "GGML": not a GGUF file`)
	_, err = Parse(header(1, 0).tensor("blk.0.attn_q.weight", Q8_0, 0, 33, 2))
	require.EqualError(t, err,
		`gguf: offset 71: tensor[0].type: "blk.0.attn_q.weight": rows of 33 are no whole number of Q8_0 blocks of `+
			`32: bad shape`)
	_, err = Parse(header(1, 0).tensor("w", 16, 0, 256))
	require.EqualError(t, err, `gguf: offset 45: tensor[0].type: "w": type 16 IQ2_XXS: this type is not supported`)
	_, err = Parse(header(3, 2).zeros(100))
	require.EqualError(t, err,
		"gguf: offset 8: tensor_count: 3 with 2 metadata pairs: more than the rest of the file can hold")
	require.EqualError(t, &FormatError{Path: "a.gguf", Offset: 3, Field: "f", Err: errors.New("why")},
		"a.gguf: gguf: offset 3: f: why")
}

// splitModel writes a model of n parts with one tensor each, and returns the path of the first. edit may change each
// part.
func splitModel(t *testing.T, n int, edit func(part int, w *Writer) (skip bool)) string {
	dir := held.TempDir(t)
	var first string
	for i := range n {
		b := written(t, func(w *Writer) {
			if edit == nil || !edit(i, w) {
				splitKeys(w, n, i, n)
			}
			if i == 0 {
				Put(w, "general.name", "first")
			}
			w.Declare(fmt.Sprint("t", i), F32, 1)
			require.NoError(t, w.WriteFloats([]float32{float32(i)}))
		})
		path := save(t, dir, fmt.Sprintf("my-model-%05d-of-%05d.gguf", i+1, n), b)
		if i == 0 {
			first = path
		}
	}
	return first
}

func splitKeys(w *Writer, count, no, tensors int) {
	Put(w, splitCount, uint16(count))
	Put(w, splitNo, uint16(no))
	Put(w, splitTensors, int32(tensors))
}

// TestSplit: the model is the same whichever part is opened.
func TestSplit(t *testing.T) {
	first := splitModel(t, 3, nil)
	for i := range 3 {
		f := opened(t, strings.Replace(first, "00001-of", fmt.Sprintf("%05d-of", i+1), 1))
		name, err := f.String("general.name")
		require.NoError(t, err)
		require.Equal(t, "first", name)
		require.Len(t, f.Tensors(), 3)
		for k, x := range f.Tensors() {
			require.Equal(t, fmt.Sprint("t", k), x.Name)
			require.Equal(t, []float32{float32(k)}, floats(x))
		}
		info, err := os.Stat(first)
		require.NoError(t, err)
		require.Greater(t, f.Size(), 2*info.Size())
		require.NoError(t, f.Close())
	}
	b, err := os.ReadFile(first)
	require.NoError(t, err)
	_, err = Parse(b)
	require.ErrorIs(t, err, ErrSplit)
	require.ErrorContains(t, err, "one of 3 parts")

	single := splitModel(t, 1, nil) // a model of one part may have any file name
	f := opened(t, single)
	require.NoError(t, f.Close())
}

// refuseSplit checks that opening the part at path fails with want, in an error that contains names.
func refuseSplit(t *testing.T, path, names string, want error) {
	t.Helper()
	_, err := Open(path)
	var fe *FormatError
	require.ErrorAs(t, err, &fe)
	require.ErrorContains(t, err, names)
	if te, ok := want.(*TypeError); ok {
		require.ErrorAs(t, err, &te)
		return
	}
	require.ErrorIs(t, err, want)
}

// TestSplitFiles: a part that is missing, broken or renamed is named.
func TestSplitFiles(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		first := splitModel(t, 3, nil)
		second := strings.Replace(first, "00001-of", "00002-of", 1)
		require.NoError(t, os.Remove(second))
		refuseSplit(t, first, "my-model-00002-of-00003.gguf", fs.ErrNotExist)
		refuseSplit(t, first, "my-model-00002-of-00003.gguf", ErrSplit)
	})
	t.Run("broken", func(t *testing.T) {
		first := splitModel(t, 2, nil)
		save(t, filepath.Dir(first), "my-model-00002-of-00002.gguf", header(9, 0))
		refuseSplit(t, first, "my-model-00002-of-00002.gguf", ErrTooLong)
	})
	t.Run("renamed", func(t *testing.T) {
		first := splitModel(t, 2, nil)
		other := filepath.Join(filepath.Dir(first), "other.gguf")
		require.NoError(t, os.Rename(first, other))
		refuseSplit(t, other, "-00001-of-00002.gguf", ErrSplit)
	})
}

// TestSplitKeys: one part of two with wrong metadata is refused, with its name or that of the key.
func TestSplitKeys(t *testing.T) {
	for name, c := range map[string]struct {
		part  int
		edit  func(w *Writer)
		names string
		want  error
	}{
		"no number": {0, func(w *Writer) { Put(w, splitCount, uint16(2)); Put(w, splitTensors, int32(2)) },
			splitNo, ErrSplit},
		"no tensor count": {0, func(w *Writer) { Put(w, splitCount, uint16(2)); Put(w, splitNo, uint16(0)) },
			splitTensors, ErrSplit},
		"number too high": {0, func(w *Writer) { splitKeys(w, 2, 2, 2) }, splitNo, ErrSplit},
		"number twice":    {1, func(w *Writer) { splitKeys(w, 2, 0, 2) }, "my-model-00002", ErrSplit},
		"other count":     {1, func(w *Writer) { splitKeys(w, 3, 1, 2) }, "my-model-00002", ErrSplit},
		"other tensors":   {1, func(w *Writer) { splitKeys(w, 2, 1, 3) }, "my-model-00002", ErrSplit},
		"no part":         {1, func(*Writer) {}, "my-model-00002", ErrSplit},
		"negative count":  {0, func(w *Writer) { Put(w, splitCount, int32(-1)) }, splitCount, ErrSplit},
		"huge count":      {0, func(w *Writer) { Put(w, splitCount, uint64(1)<<62) }, splitCount, ErrSplit},
		"count is text": {0, func(w *Writer) { Put(w, splitCount, "2") }, splitCount,
			&TypeError{splitCount, "integer of at most 63 bits", "string"}},
	} {
		t.Run(name, func(t *testing.T) {
			first := splitModel(t, 2, func(part int, w *Writer) bool {
				if part == c.part {
					c.edit(w)
				}
				return part == c.part
			})
			refuseSplit(t, first, c.names, c.want)
		})
	}
}

// TestSplitTensors: the tensors of all parts have different names, and their number is that of the metadata.
func TestSplitTensors(t *testing.T) {
	t.Run("tensor twice", func(t *testing.T) {
		first := splitModel(t, 2, nil)
		save(t, filepath.Dir(first), "my-model-00002-of-00002.gguf", written(t, func(w *Writer) {
			splitKeys(w, 2, 1, 2)
			w.Declare("t0", F32, 1)
			require.NoError(t, w.WriteFloats([]float32{1}))
		}))
		refuseSplit(t, first, "my-model-00002", ErrDuplicate)
	})
	t.Run("too few tensors", func(t *testing.T) {
		first := splitModel(t, 2, func(part int, w *Writer) bool { splitKeys(w, 2, part, 3); return true })
		refuseSplit(t, first, splitTensors, ErrSplit)
		second := strings.Replace(first, "00001-of", "00002-of", 1)
		refuseSplit(t, second, first, ErrSplit) // the error names the part with the count that is compared
	})
}
