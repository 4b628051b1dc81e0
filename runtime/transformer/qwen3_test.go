package transformer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/host"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

var models = flag.String("models", "", "the folder into which the models of testdata/qwen3.py are written")

// qwen3Cases returns the models of testdata/qwen3.json by name: every type of weights in one shape, and other shapes.
func qwen3Cases(t *testing.T) map[string]synth.Spec {
	shape := func(recipe string, dim, heads, kvHeads, size int) synth.Spec {
		r, err := synth.ParseRecipe(recipe)
		require.NoError(t, err)
		return synth.Spec{
			Name: "golden", Qwen3: true, Layers: 2, Dim: dim, FFN: 256, Heads: heads, KVHeads: kvHeads, HeadSize: size,
			Context: 128, Vocab: 300, RopeBase: 1e6, Epsilon: 1e-6, Tied: true, Recipe: r, Seed: 3,
		}
	}
	all := map[string]synth.Spec{
		"14-of-64":   shape("q8_0", 256, 14, 2, 64),
		"5-of-64":    shape("f32", 192, 5, 1, 64),
		"15-of-128":  shape("q5_0", 160, 15, 5, 128),
		"narrow":     shape("q4_k_m", 512, 4, 4, 64), // heads that are half as wide as the model
		"7-of-32":    shape("q4_0", 96, 7, 1, 32),
		"3-of-80":    shape("f16", 100, 3, 3, 80),
		"4-of-12":    shape("f32", 30, 4, 2, 12),
		"one-layer":  shape("q8_0", 64, 2, 1, 128),
		"untied":     shape("q6_k", 256, 14, 2, 128),
		"other-eps":  shape("f32", 64, 2, 1, 64),
		"other-base": shape("f32", 64, 2, 2, 64),
	}
	for name, edit := range map[string]func(*synth.Spec){
		"one-layer":  func(s *synth.Spec) { s.Layers = 1 },
		"untied":     func(s *synth.Spec) { s.Tied = false },
		"other-eps":  func(s *synth.Spec) { s.Epsilon = 0.01 },
		"other-base": func(s *synth.Spec) { s.RopeBase = 500 },
	} {
		s := all[name]
		edit(&s)
		all[name] = s
	}
	for _, recipe := range synth.RecipeNames() {
		s := shape(recipe, 256, 6, 2, 128)
		s.Tied = false
		all[recipe] = s
	}
	return all
}

// TestQwen3Golden compares with a float64 evaluation in another language: the exact path to 1e-4 and in 64 greedy
// tokens, the fast one to the error of activations in 8 bits.
func TestQwen3Golden(t *testing.T) {
	racing.Spare(t)
	cases := qwen3Cases(t)
	if *models != "" {
		for name, s := range cases {
			require.NoError(t, os.WriteFile(filepath.Join(*models, name+".gguf"), written(t, s), 0o644))
		}
		return
	}
	b, err := os.ReadFile(filepath.Join("testdata", "qwen3.json"))
	require.NoError(t, err)
	var want map[string]struct {
		SHA256         string
		Prompt, Greedy []int32
		Logits         []float64
	}
	require.NoError(t, json.Unmarshal(b, &want))
	require.Len(t, want, len(cases))
	names := slices.Sorted(maps.Keys(cases))
	if testing.Short() {
		names = []string{"14-of-64", "q4_k_m", "4-of-12"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			g := want[name]
			f, err := gguf.Parse(written(t, cases[name]))
			require.NoError(t, err)
			sum := sha256.New()
			for _, w := range f.Tensors() {
				sum.Write(w.Data)
			}
			require.Equal(t, g.SHA256, hex.EncodeToString(sum.Sum(nil)),
				"the weights changed: run testdata/qwen3.py again")
			exact := load(t, f, host.Options{Exact: true, Threads: 2})
			for _, piece := range []int{len(g.Prompt), 3, 1} {
				c, err := exact.NewCache(len(g.Prompt)+len(g.Greedy), gguf.F32)
				require.NoError(t, err)
				out := feed(t, exact, c, g.Prompt, piece)
				require.Less(t, relativeError(out.Logits, g.Logits), 1e-5, "pieces of %d", piece)
				if piece == 1 {
					require.Equal(t, g.Greedy[0], out.Top[0].ID)
					require.Equal(t, g.Greedy[1:], follow(t, exact, c, g.Greedy[:len(g.Greedy)-1]))
				}
			}
			fast, bar := load(t, f, host.Options{Threads: 2}), 0.06
			floats := []gguf.Type{gguf.F32, gguf.F16, gguf.BF16}
			if embedding, _ := f.Tensor("token_embd.weight"); slices.Contains(floats, embedding.Type) {
				bar = 1e-5 // no matrix meets activations in 8 bits
			}
			for _, piece := range []int{len(g.Prompt), 3, 1} {
				require.Less(t, relativeError(pieces(t, fast, g.Prompt, piece), g.Logits), bar, "pieces of %d", piece)
			}
		})
	}
}

// written returns the bytes of a model.
func written(t *testing.T, s synth.Spec) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	return b.Bytes()
}

// pieces returns the logits after ids, fed piece tokens at a time.
func pieces(t *testing.T, m *transformer.Model, ids []int32, piece int) []float32 {
	t.Helper()
	c, err := m.NewCache(len(ids), gguf.F32)
	require.NoError(t, err)
	return feed(t, m, c, ids, piece).Logits
}
