package gguf

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func parsed(t testing.TB, fill func(w *Writer)) *File {
	f, err := Parse(written(t, fill))
	require.NoError(t, err)
	return f
}

func TestMetadata(t *testing.T) {
	f := parsed(t, everyKind)
	for key, want := range map[string]int64{"u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "u32": 4e9, "i32": -2e9,
		"u64": math.MaxInt64, "i64": math.MinInt64} {
		got, err := f.Int(key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	for key, want := range map[string]float64{"f32": 0.5, "f64": 0.1} {
		got, err := f.Float(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for key, want := range map[string]bool{"yes": true, "no": false} {
		got, err := f.Bool(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for key, want := range map[string]string{"text": "żółw", "empty": ""} {
		got, err := f.String(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestMetadataArrays(t *testing.T) {
	f := parsed(t, everyKind)
	for key, want := range map[string][]int64{"a.u8": {1, 255}, "a.i8": {-1, 1}, "a.u16": {1, 65535}, "a.i16": {-1, 1},
		"a.u32": {1, math.MaxUint32}, "a.i32": {-1, 1}, "a.u64": {1, 2}, "a.i64": {-1, 1}, "a.none": {}} {
		got, err := f.Ints(key)
		require.NoError(t, err)
		require.Equal(t, want, got, key)
	}
	for key, want := range map[string][]float32{"a.f32": {0.5, -1}, "a.f64": {0.5, 0.1}} {
		got, err := f.Floats(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	a, err := f.Strings("a.text")
	require.NoError(t, err)
	require.Equal(t, 3, a.Len())
	var got []string
	for i, b := range a.All() {
		require.Equal(t, len(got), i)
		got = append(got, string(b))
	}
	require.Equal(t, []string{"one", "", "three"}, got)
	for range a.All() {
		break
	}
	for range (StringArray{}).All() {
		t.Fatal("an element of nothing")
	}
	for range (StringArray{}).Chunk(1) {
		t.Fatal("a part of nothing")
	}
	for n, want := range map[int][][]string{
		1: {{"one"}, {""}, {"three"}}, 2: {{"one", ""}, {"three"}}, 3: {got}, 4: {got},
	} {
		require.Equal(t, want, chunksOf(a, n), "parts of %d", n)
	}
	for range a.Chunk(1) {
		break
	}
	require.Panics(t, func() { a.Chunk(0) })
}

func chunksOf(a StringArray, n int) (all [][]string) {
	for part := range a.Chunk(n) {
		var strings []string
		for _, b := range part.All() {
			strings = append(strings, string(b))
		}
		all = append(all, strings)
	}
	return all
}

// TestMetadataErrors: absent metadata and metadata of another type are two errors, and both name the key.
func TestMetadataErrors(t *testing.T) {
	f := parsed(t, everyKind)
	getters := map[string]func(key string) error{
		"string":  func(key string) error { _, err := f.String(key); return err },
		"bool":    func(key string) error { _, err := f.Bool(key); return err },
		"integer": func(key string) error { _, err := f.Int(key); return err },
		"float":   func(key string) error { _, err := f.Float(key); return err },
		"strings": func(key string) error { _, err := f.Strings(key); return err },
		"ints":    func(key string) error { _, err := f.Ints(key); return err },
		"floats":  func(key string) error { _, err := f.Floats(key); return err },
	}
	right := map[string][]string{
		"string": {"text", "empty"}, "bool": {"yes", "no"}, "float": {"f32", "f64"}, "strings": {"a.text"},
		"floats":  {"a.f32", "a.f64"},
		"integer": {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"},
		"ints":    {"a.u8", "a.i8", "a.u16", "a.i16", "a.u32", "a.i32", "a.u64", "a.i64", "a.none"},
	}
	for name, get := range getters {
		err := get("nowhere.key")
		require.ErrorIs(t, err, ErrAbsent, name)
		require.ErrorContains(t, err, "nowhere.key")
		for _, key := range f.Keys() {
			if err = get(key); slices.Contains(right[name], key) {
				require.NoError(t, err, "%s %s", name, key)
				continue
			}
			var te *TypeError
			require.ErrorAs(t, err, &te, "%s %s", name, key)
			require.NotErrorIs(t, err, ErrAbsent)
			require.Equal(t, key, te.Key)
			require.ErrorContains(t, err, key)
		}
	}
	require.EqualError(t, getters["string"]("u32"), "metadata u32: want string, the file has uint32")
	require.EqualError(t, getters["integer"]("big"),
		"metadata big: want integer of at most 63 bits, the file has uint64 9223372036854775808")
}

// TestMetadataInOrder: iteration is in file order, with values of the Go type of their width.
func TestMetadataInOrder(t *testing.T) {
	f := parsed(t, everyKind)
	want := []any{uint8(200), int8(-100), uint16(60000), int16(-30000), uint32(4e9), int32(-2e9), uint64(math.MaxInt64),
		int64(math.MinInt64), uint64(1 << 63), float32(0.5), 0.1, true, false, "żółw", ""}
	i := 0
	for key, v := range f.Metadata() {
		require.Equal(t, f.Keys()[i], key)
		if i < len(want) {
			require.Equal(t, want[i], v.Any())
			require.Zero(t, v.Len())
		} else {
			require.Nil(t, v.Any())
			require.Equal(t, "array of "+v.elem.String(), v.Type())
			n := 0
			for e := range v.Elements() {
				require.Equal(t, v.elem, e.Kind())
				require.NotNil(t, e.Any())
				n++
			}
			require.Equal(t, v.Len(), n)
		}
		i++
	}
	require.Equal(t, len(f.Keys()), i)
	for range f.Metadata() {
		break
	}
	v, err := f.Value("u16")
	require.NoError(t, err)
	require.Equal(t, "uint16", v.Type())
	_, err = f.Value("nowhere.key")
	require.ErrorIs(t, err, ErrAbsent)
}

// TestNestedArrays: nested arrays are kept, and can be walked.
func TestNestedArrays(t *testing.T) {
	b := header(0, 1).array("a", KindArray, 2).
		u32(uint32(KindString)).u64(2).str("x").str("\xff"). // strings in arrays may be any bytes
		u32(uint32(KindInt16)).u64(1).u16(7)
	f, err := Parse(b)
	require.NoError(t, err)
	v, err := f.Value("a")
	require.NoError(t, err)
	var types []string
	var leaves []any
	for e := range v.Elements() {
		types = append(types, e.Type())
		for leaf := range e.Elements() {
			leaves = append(leaves, leaf.Any())
		}
	}
	require.Equal(t, []string{"array of string", "array of int16"}, types)
	require.Equal(t, []any{"x", "\xff", int16(7)}, leaves)
}
