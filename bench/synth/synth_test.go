package synth

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// TestWrite: every recipe makes a valid file, the same one each time.
func TestWrite(t *testing.T) {
	names := RecipeNames()
	if testing.Short() {
		names = []string{"q8_0", "q4_k_m"}
	}
	for _, name := range names {
		r, err := ParseRecipe(name)
		require.NoError(t, err)
		var one, two bytes.Buffer
		last := int64(0)
		require.NoError(t, Tiny(r, 5).Write(&one, func(done, total int64) {
			assert.Greater(t, done, last)
			last = done
			assert.LessOrEqual(t, done, total)
		}))
		require.NoError(t, Tiny(r, 5).Write(&two, nil))
		require.Equal(t, one.Bytes(), two.Bytes(), name)
		f, err := gguf.Parse(one.Bytes())
		require.NoError(t, err)
		gate, ok := f.Tensor("blk.0.ffn_gate.weight")
		require.True(t, ok)
		assert.Equal(t, r.most, gate.Type, name)
		weights := make([]float32, gate.Elems())
		gate.Type.Dequantize(weights, gate.Data)
		sum := 0.0
		for _, w := range weights {
			sum += float64(w) * float64(w)
		}
		assert.InEpsilon(t, 1.0/256, sum/float64(len(weights)), 0.6, "%s: weights have the variance 1/in", name)
	}
}

// TestVocabulary: words are tokenized and decoded, and a chat can be written.
func TestVocabulary(t *testing.T) {
	r, err := ParseRecipe("q8_0")
	require.NoError(t, err)
	s := Tiny(r, 6)
	s.Vocab = 5000
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	assert.Equal(t, 5000, tok.Size())
	text := "as the waters cover the sea: ½ ÿ\n"
	ids := tok.Encode(text, false)
	assert.Equal(t, text, tok.Decode(ids))
	assert.Less(t, len(ids), len(text), "some merges apply")
	_, err = tok.Chat([]tokenizer.Message{{Role: "user", Content: "hi"}}, nil)
	assert.NoError(t, err)
}

func TestRefusals(t *testing.T) {
	_, err := ParseRecipe("q9")
	assert.ErrorContains(t, err, "q4_k_m")
	s := Tiny(Recipe{"f32", gguf.F32}, 1)
	s.Heads = 3
	assert.Error(t, s.Write(&bytes.Buffer{}, nil))
	s = Tiny(Recipe{"f32", gguf.F32}, 1)
	s.Vocab = 100
	assert.Error(t, s.Write(&bytes.Buffer{}, nil))
}

// TestHalfRecipe: the shares of a 0.5B "Q4_K_M" are those of common files: its rows of 896 are not a multiple of 256,
// so most tensors are Q5_0 and Q8_0.
func TestHalfRecipe(t *testing.T) {
	r, err := ParseRecipe("q4_k_m")
	require.NoError(t, err)
	megabytes := map[gguf.Type]float64{}
	for _, x := range Half(r, 1).tensors() {
		elems, bytes := x.t.Block()
		megabytes[x.t] += float64(x.elems()/int64(elems)*int64(bytes)) / 1e6
	}
	for kind, want := range map[gguf.Type]float64{gguf.Q5_0: 173, gguf.Q8_0: 146, gguf.Q6_K: 43, gguf.Q4_K: 29} {
		assert.InDelta(t, want, megabytes[kind], 0.6, kind)
	}
}
