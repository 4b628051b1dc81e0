package gguf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// sparse makes a file of size bytes that begins with b, followed by zeros, which use no disk space.
func sparse(t *testing.T, b raw, size int64) string {
	t.Helper()
	path := filepath.Join(held.TempDir(t), "sparse.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	require.NoError(t, os.Truncate(path, size))
	return path
}

// TestLimits: metadata much larger than in real models is refused by its length alone, whatever the size of the file.
func TestLimits(t *testing.T) {
	const size = 1 << 30
	one := func() raw { return header(0, 1) }
	for _, c := range []struct {
		name  string
		b     raw
		field string
		cause error
		says  string
	}{
		{"a string just too long", one().pair("a", KindString).u64(maxString + 1), "kv[0].value.length", ErrLimit,
			"16777217 bytes"},
		{"a key", one().u64(size - 100), "kv[0].key", ErrName, "1073741724 bytes, at most 65535"},
		{"the name of a tensor", header(1, 0).u64(size - 100), "tensor[0].name", ErrName,
			"1073741724 bytes, at most 64"},
		{"an array of bools", one().array("a", KindBool, maxElements+1), "kv[0].value.length", ErrLimit,
			"16777217 elements, at most 16777216"},
		{"an array of strings", one().array("a", KindString, size/16), "kv[0].value.length", ErrLimit, "elements"},
		{"a string of an array", one().array("a", KindString, 2).str("b").u64(size - 200), "kv[0].value[1].length",
			ErrLimit, "bytes"},
		{"an array in an array", one().array("a", KindArray, 1).u32(uint32(KindInt8)).u64(size - 200),
			"kv[0].value.length", ErrLimit, "elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := sparse(t, c.b, size)
			_, err := Open(path)
			fe, ok := errors.AsType[*FormatError](err)
			require.True(t, ok, "%v", err)
			assert.ErrorIs(t, err, c.cause)
			assert.Equal(t, c.field, fe.Field)
			assert.Equal(t, path, fe.Path)
			assert.Less(t, fe.Offset, int64(maxMetadata+maxElements))
			assert.ErrorContains(t, err, c.says)
		})
	}
}

// TestHostileSize: files with very many small items need time and memory in proportion to their size.
func TestHostileSize(t *testing.T) {
	racing.Spare(t)
	const n = 100_000
	pairs, tensors, strs, nested := header(0, n), header(n, 0), header(0, 1).array("a", KindString, n),
		header(0, 1).array("a", KindArray, n)
	for i := range n {
		pairs = pairs.pair(fmt.Sprint(i), KindUint8).u8(0)
		tensors = tensors.tensor(fmt.Sprint(i), F32, uint64(n-1-i)*32, 1) // in reverse order
		strs = strs.str("")
		nested = nested.u32(uint32(KindArray)).u64(0)
	}
	twice := append(header(n+1, 0), tensors[24:]...).tensor("0", F32, 0, 1)
	tensors = tensors.pad(32).zeros(32 * n)
	for name, b := range map[string]raw{"pairs": pairs, "tensors": tensors, "strings": strs, "arrays": nested,
		"twice": twice} {
		start, before := cputime.Used(), allocated()
		f, err := Parse(b)
		mem, took := allocated()-before, cputime.Used()-start
		t.Logf("%s: %.1f MiB, %v a MiB, %.1f bytes allocated a byte", name, float64(len(b))/(1<<20),
			took*(1<<20)/time.Duration(len(b)), float64(mem)/float64(len(b)))
		require.Less(t, took, time.Duration(len(b))*time.Second/(1<<20))
		require.Less(t, mem, uint64(64<<10+32*len(b))) // sum of all allocations while growing; a third of it is kept
		if name == "twice" {
			require.ErrorIs(t, err, ErrDuplicate)
			continue
		}
		require.NoError(t, err)
		use(t, f)
	}
}

// TestMetadataAtLimit: metadata may end exactly at the limit, and not later.
func TestMetadataAtLimit(t *testing.T) {
	b := header(0, 3).array("a", KindUint64, maxElements)
	end := len(b) + 8*maxElements
	for more, want := range map[int]error{0: nil, 1: ErrLimit} {
		second := raw{}.array("b", KindUint64, maxElements-1000)
		third := raw{}.array("c", KindUint8, 0)
		left := maxMetadata - end - len(second) - 8*(maxElements-1000) - len(third)
		third = raw{}.array("c", KindUint8, uint64(left+more))
		path := sparse(t, b, maxMetadata+100)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt(second, int64(end))
		require.NoError(t, err)
		_, err = f.WriteAt(third, int64(maxMetadata-left-len(third)))
		require.NoError(t, err)
		read, err := Open(path)
		require.ErrorIs(t, err, want, more)
		if err == nil {
			require.NoError(t, read.Close())
		}
	}
}

// TestManyArrays: arrays that are valid alone are refused together.
func TestManyArrays(t *testing.T) {
	racing.Spare(t)
	const each = 4 + 8 // an empty array; zeros encode one of bytes
	inner := raw{}.u32(uint32(KindArray)).u64(maxElements)
	b := header(0, 1).array("a", KindArray, 2)
	path := sparse(t, append(b, inner...), 2<<30)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(inner, int64(len(b)+len(inner)+maxElements*each))
	require.NoError(t, err)
	_, err = Open(path)
	require.ErrorIs(t, err, ErrLimit)
	fe, _ := errors.AsType[*FormatError](err)
	assert.Less(t, fe.Offset, int64(maxMetadata+2*each), "reading stops at once")

	last := header(0, 1).array("a", KindString, maxElements)
	path = sparse(t, last, 2<<30)
	f, err = os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	for i := range 20 {
		_, err = f.WriteAt(raw{}.u64(maxString), int64(len(last)+i*(8+maxString)))
		require.NoError(t, err)
	}
	_, err = Open(path)
	require.ErrorIs(t, err, ErrLimit)
	assert.ErrorContains(t, err, "value[15]")
}

// TestLargeString: a string at the limit is read, also by the rules of the writer.
func TestLargeString(t *testing.T) {
	racing.Spare(t)
	text := strings.Repeat("é", maxString/2)
	b := written(t, func(w *Writer) { Put(w, "text", text); PutArray(w, "list", []string{"a", text}) })
	f, err := Parse(b)
	require.NoError(t, err)
	got, err := f.String("text")
	require.NoError(t, err)
	assert.Equal(t, len(text), len(got))

	for name, put := range map[string]func(w *Writer){
		"a long string":             func(w *Writer) { Put(w, "text", text+"x") },
		"many elements":             func(w *Writer) { PutArray(w, "list", make([]int8, maxElements+1)) },
		"a long string of an array": func(w *Writer) { PutArray(w, "list", []string{"a", text + "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(new(strings.Builder))
			put(w)
			assert.ErrorIs(t, w.Close(), ErrLimit)
		})
	}
}

// TestForeignText: an error shows at most 100 bytes of a text in the file.
func TestForeignText(t *testing.T) {
	long := strings.Repeat("k", 60000)
	for name, b := range map[string]raw{
		"key twice":     header(0, 2).pair(long, KindUint8).u8(1).pair(long, KindUint8).u8(1),
		"key not UTF-8": header(0, 1).pair(long+"\xff", KindUint8).u8(1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(b)
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 300)
			assert.ErrorContains(t, err, strings.Repeat("k", 100)+`…" (6000`)
		})
	}
}
