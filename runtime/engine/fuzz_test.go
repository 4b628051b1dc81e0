package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// FuzzOpen opens damaged models: opening the model and its tokenizer and one forward pass give a result or an error,
// never a panic.
func FuzzOpen(f *testing.F) {
	for _, recipe := range []string{"f32", "q8_0", "q4_0"} {
		r, err := synth.ParseRecipe(recipe)
		require.NoError(f, err)
		s := synth.Tiny(r, 1)
		s.Layers, s.Dim, s.FFN, s.Heads, s.KVHeads, s.Vocab, s.Context = 1, 32, 32, 2, 1, 260, 16
		var b bytes.Buffer
		require.NoError(f, s.Write(&b, nil))
		f.Add(b.Bytes(), uint16(0), byte(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint16, with byte) {
		if int(at) < len(b) {
			b = bytes.Clone(b)
			b[at] ^= with
		}
		path := filepath.Join(t.TempDir(), "f.gguf")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		e, err := engine.Open(path, engine.Options{Threads: 1})
		if err != nil {
			return
		}
		defer e.Close()
		_, _ = e.Tokenizer()
		_, _, _ = e.Logits(t.Context(), []int32{1, 2, 3}, 2)
	})
}
