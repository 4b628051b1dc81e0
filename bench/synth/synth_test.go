package synth

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
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

// TestThinks: with marks for thoughts the vocabulary has as many tokens, each mark is one of them, and every merge has
// a token, as the tokenizer requires.
func TestThinks(t *testing.T) {
	for _, thinks := range []bool{false, true} {
		s := Tiny(Recipe{"f32", gguf.F32}, 1)
		s.Thinks = thinks
		var b bytes.Buffer
		require.NoError(t, s.Write(&b, nil))
		f, err := gguf.Parse(b.Bytes())
		require.NoError(t, err)
		tok, err := tokenizer.FromGGUF(f)
		require.NoError(t, err)
		assert.Equal(t, s.Vocab, tok.Size())
		assert.Equal(t, thinks, tok.Thinks())
		assert.Equal(t, thinks, len(tok.Encode("<think></think>", false)) == 2)
		for text, id := range map[string]func() (int32, bool){"<|im_end|>": tok.EOS, "<|endoftext|>": tok.BOS} {
			special, ok := id()
			assert.True(t, ok)
			assert.Equal(t, []int32{special}, tok.Encode(text, true))
		}
	}
}

// checkConfig compares what is read from a file with the shape that was written.
func checkConfig(t *testing.T, s Spec, c transformer.Config) {
	t.Helper()
	assert.Equal(t, s.arch(), c.Arch.Name)
	c.Arch = transformer.Arch{}
	want := transformer.Config{
		Layers: s.Layers, Dim: s.Dim, FFN: s.FFN, Heads: s.Heads, KVHeads: s.KVHeads, HeadSize: s.headSize(),
		Rotated: s.headSize(), Context: s.Context, Vocab: s.Vocab, RopeBase: float64(s.RopeBase), Epsilon: 1e-6,
	}
	if l := s.Linear; l != (Linear{}) {
		want.Rotated, want.Recurrent = l.Rotated, make([]bool, s.Layers)
		for i := range want.Recurrent {
			want.Recurrent[i] = s.isLinear(i)
		}
		want.Delta = backend.DeltaConfig{
			Layers: s.Layers - s.Layers/l.Interval, KeyHeads: l.KeyHeads, ValueHeads: l.ValueHeads,
			KeySize: l.KeySize, ValueSize: l.ValueSize, Kernel: l.Kernel, Epsilon: 1e-6,
		}
	}
	assert.Equal(t, want, c)
}

// TestShapes: the shapes have as many weights as the models that they are named after, and are read as they were
// written. (The reports of Qwen2.5 and Qwen3 state the numbers of weights, rounded.)
func TestShapes(t *testing.T) {
	r := Recipe{"q8_0", gguf.Q8_0}
	for name, weights := range map[string]int64{
		"tiny": 0, "tiny3": 0, "0.5b": 494_032_768, "0.6b": 596_049_920, "1.5b": 1_543_714_304,
		"1.7b": 1_720_574_976, "4b": 4_022_468_096, "tiny35": 0, "0.8b": 752_393_024, "2b": 1_881_825_088,
	} {
		s, err := Shape(name, r, 7)
		require.NoError(t, err)
		assert.Equal(t, r, s.Recipe)
		assert.EqualValues(t, 7, s.Seed)
		blank, err := s.Blank()
		require.NoError(t, err)
		f, err := gguf.Parse(blank)
		require.NoError(t, err)
		sum, all := int64(0), s.listTensors()
		for _, x := range all {
			sum += x.elementCount()
		}
		assert.True(t, sum == weights || weights == 0, "%s: %d", name, sum)
		c, err := transformer.ReadConfig(f)
		require.NoError(t, err)
		checkConfig(t, s, c)
		title, err := f.String("general.name")
		require.NoError(t, err)
		assert.Equal(t, "random weights, "+name, title)
		s.Tied = false
		assert.Equal(t, []int{s.Dim, s.Vocab}, s.listTensors()[len(all)].shape, "its own output matrix")
	}
	assert.Equal(t, []int{32768, 40960}, []int{Half(r, 1).Context, denseQwen3("x", 1, 1, 1, 1).Context})
	_, err := Shape("7b", r, 1)
	assert.ErrorContains(t, err, "choose tiny, tiny3, tiny35, 0.5b")
}

// TestSameWeights: files of several types have the same weights, apart from rounding, and other seeds give others.
func TestSameWeights(t *testing.T) {
	weights := func(recipe string, seed uint64) []float32 {
		r, err := ParseRecipe(recipe)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, Tiny(r, seed).Write(&b, nil))
		f, err := gguf.Parse(b.Bytes())
		require.NoError(t, err)
		up, ok := f.Tensor("blk.1.ffn_up.weight")
		require.True(t, ok)
		all := make([]float32, up.Elems())
		up.Type.Dequantize(all, up.Data)
		return all
	}
	want := weights("f32", 1)
	assert.InDeltaSlice(t, want, weights("q8_0", 1), 2e-3)
	assert.NotEqual(t, want, weights("f32", 2))
}

// TestEmbedding: only the usual mixtures have another type in the embedding.
func TestEmbedding(t *testing.T) {
	other := map[string]gguf.Type{"q4_0": gguf.Q8_0, "q4_k_m": gguf.Q6_K}
	for _, r := range allRecipes() {
		want := cmp.Or(other[r.name], r.most)
		assert.Equal(t, []gguf.Type{want, want, r.most}, []gguf.Type{r.tensorType("token_embd", 0, 2, 256),
			r.tensorType("output", 0, 2, 256), r.tensorType("blk.0.ffn_up", 0, 2, 256)}, r.name)
	}
}

// TestSubstitutes: a matrix with rows that are no whole number of blocks of 256 weights has the usual type with blocks
// of 32, and F16 if they are no whole number of those either.
func TestSubstitutes(t *testing.T) {
	other := map[gguf.Type]gguf.Type{gguf.Q2_K: gguf.Q4_0, gguf.Q3_K: gguf.Q4_0, gguf.Q4_K: gguf.Q5_0,
		gguf.Q5_K: gguf.Q5_1, gguf.Q6_K: gguf.Q8_0, gguf.IQ4_XS: gguf.IQ4_NL}
	for _, r := range allRecipes() {
		assert.Equal(t, r.most, r.tensorType("blk.0.ffn_up", 0, 2, 512), r.name)
		assert.Equal(t, cmp.Or(other[r.most], r.most), r.tensorType("blk.0.ffn_up", 0, 2, 896), r.name)
		want := gguf.F16
		if elems, _ := r.most.Block(); elems == 1 {
			want = r.most
		}
		assert.Equal(t, want, r.tensorType("blk.0.ffn_up", 0, 2, 100), r.name)
	}
}

// TestRefusals: sizes must be positive and fit together.
func TestRefusals(t *testing.T) {
	_, err := ParseRecipe("q9")
	assert.ErrorContains(t, err, "q4_k_m")
	for i, spoil := range []func(*Spec){
		func(s *Spec) { s.Layers = 0 }, func(s *Spec) { s.Dim = 0 }, func(s *Spec) { s.FFN = 0 },
		func(s *Spec) { s.Heads = 0 }, func(s *Spec) { s.KVHeads = 0 }, func(s *Spec) { s.Context = 0 },
		func(s *Spec) { s.Heads, s.KVHeads = 3, 3 }, func(s *Spec) { s.KVHeads = 3 }, func(s *Spec) { s.HeadSize = 3 },
		func(s *Spec) { s.Dim, s.Heads, s.KVHeads = 6, 2, 1 }, func(s *Spec) { s.Vocab = 258 },
		func(s *Spec) { s.Vocab, s.Thinks = 260, true }, func(s *Spec) { s.Dim = 258 },
	} {
		s := Tiny(Recipe{"f32", gguf.F32}, 1)
		require.NoError(t, s.checkShape())
		spoil(&s)
		assert.Error(t, s.Write(&bytes.Buffer{}, nil), i)
	}
	s := Spec{Layers: 1, Dim: 2, FFN: 1, Heads: 1, KVHeads: 1, Context: 1, Vocab: 259}
	assert.NoError(t, s.Write(&bytes.Buffer{}, nil), "the smallest")
	tokens, _ := s.buildTokens()
	assert.Len(t, tokens, 256)
	s.Vocab, s.Thinks = 261, true
	assert.NoError(t, s.Write(&bytes.Buffer{}, nil), "and with marks for thoughts")
}

// TestHalfRecipe: the shares of a 0.5B "Q4_K_M" are those of common files: its rows of 896 are not a multiple of 256,
// so most tensors are Q5_0 and Q8_0.
func TestHalfRecipe(t *testing.T) {
	r, err := ParseRecipe("q4_k_m")
	require.NoError(t, err)
	megabytes := map[gguf.Type]float64{}
	for _, x := range Half(r, 1).listTensors() {
		elems, bytes := x.t.Block()
		megabytes[x.t] += float64(x.elementCount()/int64(elems)*int64(bytes)) / 1e6
	}
	for kind, want := range map[gguf.Type]float64{gguf.Q5_0: 173, gguf.Q8_0: 146, gguf.Q6_K: 43, gguf.Q4_K: 29} {
		assert.InDelta(t, want, megabytes[kind], 0.6, kind)
	}
}
