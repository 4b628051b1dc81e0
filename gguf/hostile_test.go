package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// hostile is a file that must be refused, with the cause and the field that the error must name.
type hostile struct {
	name  string
	b     raw
	want  error
	field string
}

// hostileFiles returns files made by hand with one mistake each.
func hostileFiles() []hostile {
	all := hostileHeaders()
	all = append(all, hostilePairs()...)
	all = append(all, hostileArrays()...)
	all = append(all, hostileTensors()...)
	all = append(all, hostileShapes()...)
	return append(all, hostileData()...)
}

func hostileHeaders() []hostile {
	v := func(version uint32) raw { return raw("GGUF").u32(version).u64(0).u64(0).zeros(64) }
	eof := io.ErrUnexpectedEOF
	return []hostile{
		{"empty", nil, eof, "magic"},
		{"half a magic", raw("GGU"), eof, "magic"},
		{"old magic", raw("ggml").zeros(64), ErrMagic, "magic"},
		{"a web page", raw("<!DOCTYPE html><html></html>"), ErrMagic, "magic"},
		{"a Git LFS pointer", raw("version https://git-lfs.github.com/spec/v1\n"), ErrMagic, "magic"},
		{"no version", raw("GGUF"), eof, "version"},
		{"version 1", v(1), ErrVersion, "version"},
		{"version 4", v(4), ErrVersion, "version"},
		{"big-endian version 3", v(3 << 24), ErrBigEndian, "version"},
		{"big-endian version 2", v(2 << 24), ErrBigEndian, "version"},
		{"no counts", raw("GGUF").u32(3), eof, "tensor_count"},
		{"no metadata count", raw("GGUF").u32(3).u64(0), eof, "kv_count"},
		{"tensors without bytes", header(1, 0), ErrTooLong, "tensor_count"},
		{"pairs without bytes", header(0, 1), ErrTooLong, "kv_count"},
		{"2⁶⁴-1 tensors", header(math.MaxUint64, 0).zeros(1000), ErrTooLong, "tensor_count"},
		{"2⁶⁴-1 pairs", header(0, math.MaxUint64).zeros(1000), ErrTooLong, "kv_count"},
		{"pairs just too many", header(0, 1000/minPairBytes+1).zeros(1000), ErrTooLong, "kv_count"},
		{"tensors just too many", header(1000/minTensorBytes+1, 0).zeros(1000), ErrTooLong, "tensor_count"},
		{"both counts fit alone", header(20, 40).zeros(1000), ErrTooLong, "tensor_count"},
		{"one pair too few", header(0, 2).pair("a", KindUint64).u64(1).u32(0).u16(0).u8(0), eof, "kv[1].key.length"},
	}
}

func hostilePairs() []hostile {
	eof := io.ErrUnexpectedEOF
	one := func() raw { return header(0, 1) }
	long := strings.Repeat("k", maxKeyLen+1)
	return []hostile{
		{"key length 2⁶⁴-1", one().u64(math.MaxUint64).zeros(50), ErrTooLong, "kv[0].key.length"},
		{"key length one too long", one().u64(51).zeros(50), ErrTooLong, "kv[0].key.length"},
		{"key to the end of the file", one().str("12345678901234567890"), eof, "kv[0].type"},
		{"empty key", one().pair("", KindUint8).u8(1).zeros(9), ErrName, "kv[0].key"},
		{"key of 65,536 bytes", one().pair(long, KindUint8).u8(1), ErrName, "kv[0].key"},
		{"key not UTF-8", one().pair("a\xc3(", KindUint8).u8(1), ErrUTF8, "kv[0].key"},
		{"key twice, not in a row",
			header(0, 3).pair("a", KindUint8).u8(1).pair("b", KindUint8).u8(1).pair("a", KindBool).u8(1), ErrDuplicate,
			"kv[2].key"},
		{"type 13", one().pair("a", 13).u64(1), ErrType, "kv[0].type"},
		{"half a uint32", one().pair("a", KindUint32).u16(1), eof, "kv[0].value"},
		{"no bool", one().pair("ab", KindBool), eof, "kv[0].value"},
		{"bool 2", one().pair("a", KindBool).u8(2), ErrBool, "kv[0].value"},
		{"no string length", one().pair("a", KindString).u32(0), eof, "kv[0].value.length"},
		{"string length 2⁶⁴-1", one().pair("a", KindString).u64(math.MaxUint64).zeros(9), ErrTooLong,
			"kv[0].value.length"},
		{"string length one too long", one().pair("a", KindString).u64(10).zeros(9), ErrTooLong, "kv[0].value.length"},
		{"string not UTF-8", one().pair("a", KindString).str("\xff\xfe"), ErrUTF8, "kv[0].value"},
		{"string with a surrogate", one().pair("a", KindString).str("\xed\xa0\x80"), ErrUTF8, "kv[0].value"},
	}
}

func hostileArrays() []hostile {
	eof := io.ErrUnexpectedEOF
	one := func(elem Kind, n uint64) raw { return header(0, 1).array("a", elem, n) }
	nested := func(depth int) raw {
		b := header(0, 1).pair("a", KindArray)
		for range depth - 1 {
			b = b.u32(uint32(KindArray)).u64(1)
		}
		return b.u32(uint32(KindUint8)).u64(0)
	}
	return []hostile{
		{"array without type", header(0, 1).pair("a", KindArray).u16(0), eof, "kv[0].value.type"},
		{"array without length", header(0, 1).pair("a", KindArray).u32(0).u32(0), eof, "kv[0].value.length"},
		{"array of type 13", one(13, 1).zeros(99), ErrType, "kv[0].value.type"},
		{"2⁶⁴-1 uint8", one(KindUint8, math.MaxUint64).zeros(99), ErrTooLong, "kv[0].value.length"},
		{"2⁶¹ uint64: bytes overflow to 0", one(KindUint64, 1<<61).zeros(99), ErrTooLong, "kv[0].value.length"},
		{"2⁶¹+1 uint64: bytes overflow to 8", one(KindUint64, 1<<61+1).zeros(99), ErrTooLong, "kv[0].value.length"},
		{"one uint32 too many", one(KindUint32, 26).zeros(100), ErrTooLong, "kv[0].value.length"},
		{"array with bool 2", one(KindBool, 3).u8(0, 1, 2), ErrBool, "kv[0].value"},
		{"2⁶⁴-1 strings", one(KindString, math.MaxUint64).zeros(100), ErrTooLong, "kv[0].value.length"},
		{"strings just too many", one(KindString, 13).zeros(100), ErrTooLong, "kv[0].value.length"},
		{"string in array too long", one(KindString, 2).str("ab").u64(9).zeros(8), ErrTooLong, "kv[0].value[1].length"},
		{"string in array of 2⁶⁴-8: back to itself", one(KindString, 2).str("ab").u64(math.MaxUint64 - 7).zeros(8),
			ErrTooLong, "kv[0].value[1].length"},
		{"last string without length", one(KindString, 3).str("abcdefgh").str(""), eof, "kv[0].value[2].length"},
		{"arrays 9 deep", nested(9), ErrDepth, "kv[0].value"},
		{"arrays just too many", one(KindArray, 9).zeros(100), ErrTooLong, "kv[0].value.length"},
		{"array in array too long", one(KindArray, 1).u32(uint32(KindUint64)).u64(2).zeros(15), ErrTooLong,
			"kv[0].value.length"},
		{"array in array of type 13", one(KindArray, 1).u32(13).u64(0), ErrType, "kv[0].value.type"},
		{"array in array with bool 3", one(KindArray, 1).u32(uint32(KindBool)).u64(1).u8(3), ErrBool, "kv[0].value"},
	}
}

// good returns a file with one pair and two tensors of 128 bytes.
func good() raw {
	return header(2, 1).pair("general.name", KindString).str("good").
		tensor("a", F32, 0, 32).tensor("b", F32, 128, 16, 2).pad(32).zeros(256)
}

func hostileTensors() []hostile {
	one := func() raw { return header(1, 0) }
	return []hostile{
		{"name length 2⁶⁴-1", one().u64(math.MaxUint64).zeros(99), ErrTooLong, "tensor[0].name.length"},
		{"empty name", one().tensor("", F32, 0, 8).pad(32).zeros(32), ErrName, "tensor[0].name"},
		{"name of 65 bytes", one().tensor(strings.Repeat("n", 65), F32, 0, 8).pad(32).zeros(32), ErrName,
			"tensor[0].name"},
		{"name not UTF-8", one().tensor("\x80", F32, 0, 8).pad(32).zeros(32), ErrUTF8, "tensor[0].name"},
		{"name twice, not in a row",
			header(3, 0).tensor("a", F32, 0, 8).tensor("b", F32, 32, 8).tensor("a", F32, 64, 8).pad(32).zeros(96),
			ErrDuplicate, "tensor[2].name"},
		{"type 4, which was removed", one().tensor("a", 4, 0, 32).pad(32).zeros(99), ErrType, "tensor[0].type"},
		{"type Q8_1", one().tensor("a", 9, 0, 32).pad(32).zeros(99), ErrType, "tensor[0].type"},
		{"type I32", one().tensor("a", 26, 0, 8).pad(32).zeros(99), ErrType, "tensor[0].type"},
		{"one tensor more than described", header(2, 0).tensor("a", F32, 0, 8).pad(32).zeros(32), ErrName,
			"tensor[1].name"},
	}
}

func hostileShapes() []hostile {
	one := func(t Type, shape ...uint64) raw {
		return header(1, 0).tensor("a", t, 0, shape...).pad(32).zeros(1 << 10)
	}
	const max64 = math.MaxUint64
	return []hostile{
		{"no dimensions", one(F32), ErrShape, "tensor[0].dimensions"},
		{"five dimensions", one(F32, 1, 1, 1, 1, 1), ErrShape, "tensor[0].dimensions"},
		{"2³²-1 dimensions", header(1, 0).str("a").u32(math.MaxUint32).zeros(999), ErrShape, "tensor[0].dimensions"},
		{"size 0", one(F32, 0), ErrShape, "tensor[0].shape"},
		{"shape cut off", header(1, 0).str("a tensor with a long name").u32(2).u64(8), io.ErrUnexpectedEOF,
			"tensor[0].shape"},
		{"last size 0 after a large one", one(F32, 8, 1<<20, 1, 0), ErrShape, "tensor[0].shape"},
		{"size 2⁶⁴-1", one(F32, max64), ErrOverflow, "tensor[0].shape"},
		{"2³²·2³²: elements overflow to 0", one(F32, 1<<32, 1<<32), ErrOverflow, "tensor[0]"},
		{"elements overflow in the middle", one(F32, 1<<31+1, 1<<31, 1<<30, 8), ErrOverflow, "tensor[0]"},
		{"2⁶²: bytes overflow to 0", one(F32, 1<<62), ErrOverflow, "tensor[0]"},
		{"2⁶² Q8_0, which fit an int64", one(Q8_0, 1<<62), nil, "tensor[0]"},
		{"2⁶³-256 Q6_K, which fit an int64", one(Q6_K, 1<<63-256), nil, "tensor[0]"},
		{"half a Q8_0 block", one(Q8_0, 16), ErrShape, "tensor[0].type"},
		{"rows of half a Q4_K block", one(Q4_K, 128, 2), ErrShape, "tensor[0].type"},
		{"rows of one IQ4_XS", one(IQ4_XS, 1, 256), ErrShape, "tensor[0].type"},
	}
}

func hostileData() []hostile {
	eof := io.ErrUnexpectedEOF
	one := func(offset uint64, n int) raw { return header(1, 0).tensor("a", F32, offset, 32).pad(32).zeros(n) }
	two := func(a, b uint64, n int) raw {
		return header(2, 0).tensor("a", F32, a, 32).tensor("b", F32, b, 32).pad(32).zeros(n)
	}
	aligned := func(kind Kind, v raw, offset uint64) raw {
		b := append(header(1, 1).pair(alignmentKey, kind), v...)
		return b.tensor("a", F32, offset, 2).pad(32).zeros(4096)
	}
	var te *TypeError
	return []hostile{
		{"no data", one(0, 0), eof, "tensor[0].offset"},
		{"data one byte short", one(0, 127), eof, "tensor[0].offset"},
		{"offset 1", one(1, 256), ErrAlignment, "tensor[0].offset"},
		{"offset at the end", one(128, 128), eof, "tensor[0].offset"},
		{"offset 2⁶⁴-32", one(math.MaxUint64-31, 256), eof, "tensor[0].offset"},
		{"offset 2⁶⁴-128: end overflows to 0", one(math.MaxUint64-127, 256), eof, "tensor[0].offset"},
		{"same place", two(0, 0, 256), ErrOverlap, "tensor[1].offset"},
		{"overlap in reverse order", two(96, 0, 256), ErrOverlap, "tensor[0].offset"},
		{"second past the end", two(0, 256, 256), eof, "tensor[1].offset"},
		{"first past the end", two(256, 0, 256), eof, "tensor[0].offset"},
		{"a large one over a small one",
			header(2, 0).tensor("a", F32, 64, 8).tensor("b", F32, 0, 64).pad(32).zeros(256), ErrOverlap,
			"tensor[0].offset"},
		{"a terabyte of data", header(1, 0).tensor("a", F32, 0, 1<<20, 1<<8).pad(32).zeros(256), eof,
			"tensor[0].offset"},
		{"alignment 0", aligned(KindUint32, raw{}.u32(0), 0), ErrAlignment, "kv[0].value"},
		{"alignment 4", aligned(KindUint32, raw{}.u32(4), 0), ErrAlignment, "kv[0].value"},
		{"alignment 24", aligned(KindUint32, raw{}.u32(24), 0), ErrAlignment, "kv[0].value"},
		{"alignment 2²⁵", aligned(KindUint32, raw{}.u32(1<<25), 0), ErrAlignment, "kv[0].value"},
		{"alignment -32", aligned(KindInt32, raw{}.u32(math.MaxUint32-31), 0), ErrAlignment, "kv[0].value"},
		{"alignment is text", aligned(KindString, raw{}.str("32"), 0), te, "kv[0].value"},
		{"alignment past the end", aligned(KindUint32, raw{}.u32(1<<20), 0), eof, "tensor[0].offset"},
		{"offset against a larger alignment", aligned(KindUint32, raw{}.u32(64), 32), ErrAlignment, "tensor[0].offset"},
		{"part of a split file", header(0, 3).pair(splitCount, KindUint16).u16(2).pair(splitNo, KindUint16).u16(0).
			pair(splitTensors, KindInt32).u32(1), ErrSplit, splitCount},
	}
}

// TestHostile: each file is refused with its cause, at a field that exists, quickly and without much memory.
func TestHostile(t *testing.T) {
	names := make(map[string]bool)
	for _, h := range hostileFiles() {
		t.Run(h.name, func(t *testing.T) {
			require.False(t, names[h.name])
			names[h.name] = true
			start, before := cputime.Used(), allocated()
			f, err := Parse(h.b)
			mem, took := allocated()-before, cputime.Used()-start
			require.Nil(t, f)
			var fe *FormatError
			require.IsType(t, fe, err)
			require.ErrorAs(t, err, &fe)
			require.True(t, fe.Offset >= 0 && fe.Offset <= int64(len(h.b)), "%v", err)
			require.Contains(t, fe.Field, h.field, "%v", err)
			requireOffset(t, h.b, fe)
			if strings.Contains(fe.Field, "[") {
				require.GreaterOrEqual(t, fe.Offset, int64(len(header(0, 0))), "%v: lists come after the header", err)
			}
			if te, ok := h.want.(*TypeError); ok {
				require.ErrorAs(t, err, &te)
			} else if h.want != nil {
				require.ErrorIs(t, err, h.want)
			}
			require.Less(t, mem, uint64(64<<10+20*len(h.b)))
			require.Less(t, took, time.Second)
			_, err = Open(save(t, held.TempDir(t), "hostile.gguf", h.b))
			require.IsType(t, fe, err)
			require.ErrorAs(t, err, &fe)
			require.Contains(t, fe.Path, "hostile.gguf")
		})
	}
	t.Log(len(names), "files")
}

// requireOffset checks that the offset of an error about a count, a version, an alignment or a place is that of this
// number, which is in the message.
func requireOffset(t *testing.T, b raw, fe *FormatError) {
	if !errors.Is(fe, ErrTooLong) && !errors.Is(fe, ErrVersion) && !errors.Is(fe, ErrAlignment) &&
		(!strings.HasSuffix(fe.Field, "].offset") || len(b) < int(fe.Offset)+8) {
		return
	}
	said := regexp.MustCompile(`-?[0-9]+`).FindAllString(fe.Err.Error(), -1)
	rest := append(raw(nil), b[fe.Offset:]...).zeros(8)
	here := []string{fmt.Sprint(int32(binary.LittleEndian.Uint32(rest))),
		fmt.Sprint(binary.LittleEndian.Uint32(rest)), fmt.Sprint(binary.LittleEndian.Uint64(rest))}
	require.True(t, slices.ContainsFunc(said, func(n string) bool { return slices.Contains(here, n) }),
		"%v: %v", fe, here)
}

// allocated returns the number of bytes that the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestStrange: unusual but valid files.
func TestStrange(t *testing.T) {
	for name, b := range map[string]raw{
		"good":                  good(),
		"nothing at all":        header(0, 0),
		"version 2":             raw("GGUF").u32(2).u64(0).u64(0),
		"bytes after the end":   append(good(), "garbage"...),
		"data without end pad":  header(1, 0).tensor("a", F32, 0, 1).pad(32).zeros(4),
		"tensors out of order":  header(2, 0).tensor("a", F32, 32, 1).tensor("b", F32, 0, 1).pad(32).zeros(36),
		"a gap between tensors": header(2, 0).tensor("a", F32, 0, 1).tensor("b", F32, 320, 1).pad(32).zeros(324),
		"name of 64 bytes":      header(1, 0).tensor(strings.Repeat("n", 64), F32, 0, 1).pad(32).zeros(4),
		"key of 65,535 bytes":   header(0, 1).pair(strings.Repeat("k", maxKeyLen), KindUint8).u8(0),
		"arrays 8 deep": header(0, 1).array("a", KindArray, 1).u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).
			u32(9).u64(1).u32(9).u64(1).u32(9).u64(1).u32(0).u64(0),
		"empty array of arrays": header(0, 1).array("a", KindArray, 0),
		"alignment 8": header(1, 1).pair(alignmentKey, KindUint32).u32(8).tensor("a", F32, 8, 1).pad(8).
			zeros(12),
		"alignment as uint64": header(1, 1).pair(alignmentKey, KindUint64).u64(64).tensor("a", F32, 64, 1).pad(64).
			zeros(68),
		"the largest alignment": header(0, 1).pair(alignmentKey, KindUint32).u32(1 << 24),
		"alignment, no tensors": header(0, 1).pair(alignmentKey, KindUint32).u32(1 << 20),
		"split of one part":     header(0, 1).pair(splitCount, KindUint16).u16(1),
		"split of no part":      header(0, 1).pair(splitCount, KindUint16).u16(0),
		"NaN and infinity": header(0, 2).pair("a", KindFloat32).u32(0x7fc00000).pair("b", KindFloat64).
			u64(0x7ff0000000000000),
		"a name with a zero":     header(1, 0).tensor("a\x00b", F32, 0, 1).pad(32).zeros(4),
		"a type of four sizes 1": header(1, 0).tensor("a", F32, 0, 1, 1, 1, 1).pad(32).zeros(4),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(b)
			require.NoError(t, err)
			use(t, f)
		})
	}
}

// TestTruncated: no proper prefix of a file is valid, up to the end of the last tensor.
func TestTruncated(t *testing.T) {
	whole := written(t, func(w *Writer) {
		everyKind(w)
		w.Declare("a", Q8_0, 32, 2)
		w.Declare("b", F32, 4)
		_, err := w.Write(make([]byte, 68+16))
		require.NoError(t, err)
	})
	end := len(whole) - 16 // padding after the last tensor may be missing
	for n := range end {
		_, err := Parse(whole[:n:n])
		var fe *FormatError
		require.ErrorAs(t, err, &fe, n)
		require.LessOrEqual(t, fe.Offset, int64(n))
	}
	for n := end; n <= len(whole); n++ {
		_, err := Parse(whole[:n:n])
		require.NoError(t, err, n)
	}
}
