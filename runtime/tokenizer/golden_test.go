package tokenizer

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// open returns the tokenizer of a shared file.
func open(t testing.TB, elem ...string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(sharedtest.Shared(t, elem...))
	require.NoError(t, err)
	defer f.Close()
	tok, err := FromGGUF(f)
	require.NoError(t, err)
	return tok
}

func readJSON(t testing.TB, v any, elem ...string) {
	t.Helper()
	b, err := os.ReadFile(sharedtest.Shared(t, elem...))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

// TestGoldenTexts compares with the ids of llama.cpp.
func TestGoldenTexts(t *testing.T) {
	sets := []struct {
		name         string
		model, texts []string
	}{
		{"tiny", []string{"golden", "a-1layer-tied-f32.gguf"}, []string{"golden", "tokenizer-a.json"}},
		{"real", []string{"data", "qwen2-vocab.gguf"}, []string{"data", "qwen2-tokenizer-goldens.json"}},
	}
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			tok := open(t, set.model...)
			var golden struct {
				Cases []struct {
					Text    string
					IDs     []int32 `json:"ids"`
					Special []int32 `json:"ids_parse_special"`
				}
			}
			readJSON(t, &golden, set.texts...)
			require.NotEmpty(t, golden.Cases)
			for _, c := range golden.Cases {
				got := tok.Encode(c.Text, false)
				assert.Equal(t, c.IDs, append([]int32{}, got...), "%q", c.Text)
				assert.Equal(t, c.Special, append([]int32{}, tok.Encode(c.Text, true)...), "%q, special", c.Text)
				assert.Equal(t, c.Text, tok.Decode(got))
			}
		})
	}
}

// TestGoldenPrompts compares with the ids of models with byte tokens at the start of the vocabulary, and BOS.
func TestGoldenPrompts(t *testing.T) {
	for _, name := range []string{"stories260k", "stories-weak", "babyllama361"} {
		tok := open(t, "data", "models", name+"-qwen2-f32.gguf")
		var golden []struct {
			Prompt string
			IDs    []int32 `json:"prompt_ids"`
			Greedy []int32 `json:"greedy_ids"`
			Text   string  `json:"greedy_text"`
		}
		readJSON(t, &golden, "data", "models", name+".golden.json")
		require.NotEmpty(t, golden)
		require.True(t, tok.AddBOS())
		bos, ok := tok.BOS()
		require.True(t, ok)
		for _, c := range golden {
			assert.Equal(t, c.IDs, append([]int32{bos}, tok.Encode(c.Prompt, false)...), c.Prompt)
			assert.Equal(t, c.Text, tok.Decode(c.Greedy))
		}
	}
}
