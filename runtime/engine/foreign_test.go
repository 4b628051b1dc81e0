package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// edited copies the model at path without key, which put writes instead.
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

// TestForeignText: an error about text in a file shows at most 100 bytes of it, its length, and the name of the file.
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
		"a key": func(w *gguf.Writer) {
			gguf.Put(w, "k", uint8(1))
			gguf.Put(w, "tokenizer.ggml.add_bos_token", long)
		},
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

// TestBeginToken: a raw prompt starts with a begin token if the file asks for it.
func TestBeginToken(t *testing.T) {
	path := model(t, nil)
	begins := open(t, edited(t, path, "tokenizer.ggml.add_bos_token", func(w *gguf.Writer) {
		gguf.Put(w, "tokenizer.ggml.add_bos_token", true)
	}), engine.Options{})
	plain := open(t, path, engine.Options{})
	ids, err := plain.RawPrompt("a<|im_end|>b")
	require.NoError(t, err)
	tok, err := plain.Tokenizer()
	require.NoError(t, err)
	assert.True(t, tok.IsEnd(ids[len(ids)-2]), "special tokens are recognised")
	bos, ok := tok.BOS()
	require.True(t, ok)
	with, err := begins.RawPrompt("a<|im_end|>b")
	require.NoError(t, err)
	assert.Equal(t, append([]int32{bos}, ids...), with)
}

// TestTemplateOfFile: a file may lack a chat template, but not have another type of value there.
func TestTemplateOfFile(t *testing.T) {
	path := model(t, nil)
	id, err := open(t, path, engine.Options{}).Identity()
	require.NoError(t, err)
	assert.NotZero(t, id.Template)
	bare := open(t, edited(t, path, "tokenizer.chat_template", func(*gguf.Writer) {}), engine.Options{})
	id, err = bare.Identity()
	require.NoError(t, err)
	assert.Zero(t, id.Template, "no template")
	odd := open(t, edited(t, path, "tokenizer.chat_template", func(w *gguf.Writer) {
		gguf.Put(w, "tokenizer.chat_template", uint32(5))
	}), engine.Options{})
	_, err = odd.Identity()
	assert.ErrorContains(t, err, "tokenizer.chat_template")
}

// wordsOf returns the tokens of a file.
func wordsOf(t *testing.T, path string) (all []string) {
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	words, err := f.Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	for _, w := range words.All() {
		all = append(all, string(w))
	}
	return all
}

// TestPaddedVocabulary: tokens at the end that are only padding do not count.
func TestPaddedVocabulary(t *testing.T) {
	path := model(t, nil)
	all := wordsOf(t, path)
	padded := edited(t, path, "tokenizer.ggml.tokens", func(w *gguf.Writer) {
		gguf.PutArray(w, "tokenizer.ggml.tokens", slices.Concat(all[:995], all[997:], all[995:997]))
	})
	padded = edited(t, padded, "tokenizer.ggml.token_type", func(w *gguf.Writer) {
		types := slices.Concat(slices.Repeat([]int32{1}, 995), []int32{3, 3, 3, 5, 5})
		types[5] = 5
		gguf.PutArray(w, "tokenizer.ggml.token_type", types)
	})
	for key, id := range map[string]uint32{"tokenizer.ggml.bos_token_id": 995, "tokenizer.ggml.eos_token_id": 997} {
		padded = edited(t, padded, key, func(w *gguf.Writer) { gguf.Put(w, key, id) })
	}
	id, err := open(t, padded, engine.Options{}).Identity()
	require.NoError(t, err)
	assert.Equal(t, 998, id.Vocab)
}

// TestVocabularyTooLarge: a vocabulary that does not fit the embedding is refused where the tokenizer is needed.
func TestVocabularyTooLarge(t *testing.T) {
	path := model(t, nil)
	plain := open(t, path, engine.Options{})
	larger := edited(t, path, "tokenizer.ggml.tokens", func(w *gguf.Writer) {
		gguf.PutArray(w, "tokenizer.ggml.tokens", append(wordsOf(t, path), "one more"))
	})
	more := open(t, edited(t, larger, "tokenizer.ggml.token_type", func(w *gguf.Writer) {
		gguf.PutArray(w, "tokenizer.ggml.token_type", slices.Repeat([]int32{1}, 1001))
	}), engine.Options{})
	s := session(t, more)
	for name, call := range map[string]func() error{
		"Tokenizer": func() error { _, err := more.Tokenizer(); return err },
		"Chat":      func() error { _, err := more.Chat(); return err },
		"RawPrompt": func() error { _, err := more.RawPrompt("a"); return err },
		"Identity":  func() error { _, err := more.Identity(); return err },
		"Dial":      func() error { _, err := more.Dial(t.Context(), "127.0.0.1:1", engine.DialOptions{}); return err },
		"Generate":  func() error { _, err := last(s, t.Context(), engine.Route{}); return err },
		"Fit":       func() error { return more.Fit(plain) },
		"Fit for":   func() error { return plain.Fit(more) },
		"Check": func() error {
			_, err := more.Check(t.Context(), engine.Route{Settings: terms.Settings{JSON: true}})
			return err
		},
	} {
		assert.ErrorContains(t, call(), "tokenizer.ggml.tokens has 1001 tokens, but the embedding has 1000", name)
	}
	_, _, err := more.Logits(t.Context(), []int32{1}, 1)
	assert.NoError(t, err, "ids need no tokenizer")
	_, err = more.Check(t.Context(), engine.Route{})
	assert.NoError(t, err, "only JSON needs the tokenizer")
}
