package gguf

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// floats returns the elements of a tensor.
func floats(t Tensor) []float32 {
	x := make([]float32, t.Elems())
	t.Type.Dequantize(x, t.Data)
	return x
}

func openGolden(t *testing.T, name string) *File {
	return opened(t, filepath.Join(sharedtest.Shared(t, "golden"), name))
}

// TestGolden: the files of a set contain the same weights in different types: the error of a tensor relative to the
// float version must be that of its type, not less either.
func TestGolden(t *testing.T) {
	racing.Spare(t)
	files, err := filepath.Glob(filepath.Join(sharedtest.Shared(t, "golden"), "*.gguf"))
	require.NoError(t, err)
	seen := make(map[Type]bool)
	for _, path := range files {
		f := openGolden(t, filepath.Base(path))
		ref := openGolden(t, "a-tied-f16.gguf")
		if strings.Contains(path, "1layer") {
			ref = openGolden(t, "a-1layer-tied-f32.gguf")
		}
		require.Equal(t, uint32(3), f.Version())
		for _, a := range f.Tensors() {
			seen[a.Type] = true
			b, ok := ref.Tensor(a.Name)
			if !ok {
				require.Equal(t, "output.weight", a.Name)
				continue
			}
			require.Equal(t, b.Shape, a.Shape)
			want := blocktest.TypeErr(a.Type)
			got := blocktest.RelErr(floats(a), floats(b))
			require.InDelta(t, want, got, 0.03*want, "%s %s %s", path, a.Type, a.Name)
		}
	}
	for _, typ := range append(writable(), readable()...) {
		require.True(t, seen[typ], typ)
	}
}

// TestQuantizeAsLlamaCpp: if the golden files contain the floats that llama.cpp quantised, the bytes are equal.
func TestQuantizeAsLlamaCpp(t *testing.T) {
	src := openGolden(t, "a-1layer-tied-f32.gguf")
	for name, typ := range map[string]Type{"bf16": BF16, "q4_1": Q4_1, "q5_0": Q5_0, "q5_1": Q5_1} {
		matrices := 0
		for _, want := range openGolden(t, "a-1layer-tied-"+name+".gguf").Tensors() {
			if want.Type != typ {
				continue
			}
			x, ok := src.Tensor(want.Name)
			require.True(t, ok)
			got := blocktest.Quantized(t, typ, floats(x))
			require.True(t, bytes.Equal(got, want.Data), "%s %s", name, want.Name)
			matrices++
		}
		require.Equal(t, 8, matrices)
	}
}

// TestQuantizeErrorAsLlamaCpp: for floats known only as float16, the error is at most that of llama.cpp's file.
func TestQuantizeErrorAsLlamaCpp(t *testing.T) {
	racing.Spare(t)
	src := openGolden(t, "a-tied-f16.gguf")
	for name, typ := range map[string]Type{"q4_k": Q4_K, "q6_k": Q6_K, "q4_0": Q4_0, "q8_0": Q8_0} {
		for _, theirs := range openGolden(t, "a-tied-"+name+".gguf").Tensors() {
			if theirs.Type != typ {
				continue
			}
			x, ok := src.Tensor(theirs.Name)
			require.True(t, ok)
			ref := floats(x)
			want := blocktest.RelErr(floats(theirs), ref)
			require.LessOrEqual(t, blocktest.Loss(t, typ, ref), 1.001*want,
				"%s %s", typ, theirs.Name)
		}
	}
}

// TestRealVocabulary: opening the vocabulary of Qwen2.5 allocates neither its strings nor anything in proportion to
// their number.
func TestRealVocabulary(t *testing.T) {
	racing.Spare(t)
	path := sharedtest.Shared(t, "data", "qwen2-vocab.gguf")
	allocs := testing.AllocsPerRun(5, func() {
		f := opened(t, path)
		tokens, err := f.Strings("tokenizer.ggml.tokens")
		require.NoError(t, err)
		require.Equal(t, 151936, tokens.Len())
		merges, err := f.Strings("tokenizer.ggml.merges")
		require.NoError(t, err)
		require.Equal(t, 151387, merges.Len())
		n := 0
		for i, b := range tokens.All() {
			require.True(t, i == n && len(b) > 0)
			n++
		}
		require.Equal(t, 151936, n)
		require.NoError(t, f.Close())
	})
	require.Less(t, allocs, 500.0)
}
