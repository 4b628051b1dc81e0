package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// edited copies the model at path, without what put writes itself under key.
func edited(t *testing.T, path, key string, put func(w *gguf.Writer)) string {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	to := filepath.Join(t.TempDir(), "edited.gguf")
	out, err := os.Create(to)
	require.NoError(t, err)
	defer out.Close()
	w := gguf.NewWriter(out)
	for k, v := range f.Metadata() {
		if k != key {
			w.PutValue(k, v)
		}
	}
	put(w)
	for _, x := range f.Tensors() {
		w.Declare(x.Name, x.Type, x.Shape...)
	}
	for _, x := range f.Tensors() {
		_, err := w.Write(x.Data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return to
}

// TestForeignText: whatever text of a file an error is about, it shows at most 100 bytes of it, says how long it is,
// and names the file.
func TestForeignText(t *testing.T) {
	path, long := model(t, nil), strings.Repeat("ab", 450_000)
	put := func(key string) func(w *gguf.Writer) { return func(w *gguf.Writer) { gguf.Put(w, key, long) } }
	list := func(key string, all ...string) func(w *gguf.Writer) {
		return func(w *gguf.Writer) { gguf.PutArray(w, key, all) }
	}
	for key, put := range map[string]func(w *gguf.Writer){
		"general.architecture":    put("general.architecture"),
		"qwen2.rope.scaling.type": put("qwen2.rope.scaling.type"),
		"tokenizer.ggml.model":    put("tokenizer.ggml.model"),
		"tokenizer.ggml.pre":      put("tokenizer.ggml.pre"),
		"tokenizer.chat_template": put("tokenizer.chat_template"),
		"tokenizer.ggml.tokens":   list("tokenizer.ggml.tokens", long, long),
		"tokenizer.ggml.merges":   list("tokenizer.ggml.merges", long),
		"merges of no tokens":     list("tokenizer.ggml.merges", long+" "+long),
		"a key":                   func(w *gguf.Writer) { gguf.Put(w, "k", uint8(1)); gguf.Put(w, "tokenizer.ggml.add_bos_token", long) },
	} {
		t.Run(key, func(t *testing.T) {
			old, _, _ := strings.Cut(strings.Replace(key, "merges of no tokens", "tokenizer.ggml.merges", 1), " ")
			if key == "a key" {
				old = "tokenizer.ggml.add_bos_token"
			}
			to := edited(t, path, old, put)
			e, err := engine.Open(to, engine.Options{})
			if err == nil {
				defer e.Close()
				_, err = e.Chat()
			}
			require.Error(t, err)
			assert.Less(t, len(err.Error()), len(to)+350)
			assert.Contains(t, err.Error(), to)
			assert.NotContains(t, err.Error(), long[:101])
			if strings.Contains(err.Error(), long[:10]) {
				assert.Contains(t, err.Error(), " bytes)")
			}
		})
	}
}
