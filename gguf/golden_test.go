package gguf

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/testdata"
)

// floats returns the elements of a tensor.
func floats(t Tensor) []float32 {
	x := make([]float32, t.Elems())
	t.Type.Dequantize(x, t.Data)
	return x
}

// relErr returns ‖x-ref‖/‖ref‖.
func relErr(x, ref []float32) float64 {
	var diff, sum float64
	for i, r := range ref {
		d := float64(x[i]) - float64(r)
		diff += d * d
		sum += float64(r) * float64(r)
	}
	return math.Sqrt(diff / sum)
}

// goldenErr is the relative error of normal deviates in each type, as the files that llama.cpp quantised show it.
func goldenErr() map[Type][2]float64 { // least, most
	return map[Type][2]float64{}
}

// TestGolden: the files of a set hold the same weights in different types, so that a tensor must come near the
// float one of its set, as near as its type allows and, unless it is a float itself, no nearer.
func TestGolden(t *testing.T) {
	dir := testdata.Shared(t, "golden")
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	require.NoError(t, err)
	for _, path := range files {
		f, err := Open(path)
		require.NoError(t, err)
		ref := "a-tied-f16.gguf"
		if strings.Contains(path, "1layer") {
			ref = "a-1layer-tied-f32.gguf"
		}
		g, err := Open(filepath.Join(dir, ref))
		require.NoError(t, err)
		for _, a := range f.Tensors() {
			b, ok := g.Tensor(a.Name)
			if !ok {
				t.Log(path, a.Name, "absent")
				continue
			}
			e := relErr(floats(a), floats(b))
			if a.Type != F32 {
				t.Log(filepath.Base(path), a.Type, a.Name, e)
			}
		}
		require.NoError(t, f.Close())
		require.NoError(t, g.Close())
	}
}
