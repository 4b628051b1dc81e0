package synth

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// TestQwen35Shapes: the shapes have as many weights and tensors as llama.cpp counts in the released models: 752.39 M,
// 1.88 B and 320.
func TestQwen35Shapes(t *testing.T) {
	for name, weights := range map[string]int64{"0.8b": 752_393_024, "2b": 1_881_825_088} {
		s, err := Shape(name, Recipe{"q8_0", gguf.Q8_0}, 1)
		require.NoError(t, err)
		sum := int64(0)
		for _, x := range s.listTensors() {
			sum += x.elementCount()
		}
		assert.Equal(t, weights, sum, name)
		blank, err := s.Blank()
		require.NoError(t, err)
		f, err := gguf.Parse(blank)
		require.NoError(t, err)
		assert.Len(t, f.Tensors(), 320, name)
		for key, want := range map[string]int64{
			"block_count": 24, "attention.key_length": 256, "rope.dimension_count": 64, "ssm.inner_size": 2048,
			"ssm.state_size": 128, "ssm.group_count": 16, "ssm.time_step_rank": 16, "ssm.conv_kernel": 4,
			"full_attention_interval": 4,
		} {
			got, err := f.Int("qwen35." + key)
			require.NoError(t, err)
			assert.Equal(t, want, got, key)
		}
		sections, err := f.Ints("qwen35.rope.dimension_sections")
		require.NoError(t, err)
		assert.Equal(t, []int64{11, 11, 10, 0}, sections)
	}
}

// TestQwen35Recipe: a "Q4_K_M" of 0.8B has as many tensors of each type as such files, except for Q6_K in values, which
// other programs assign by another count of layers.
func TestQwen35Recipe(t *testing.T) {
	r, err := ParseRecipe("q4_k_m")
	require.NoError(t, err)
	s, err := Shape("0.8b", r, 1)
	require.NoError(t, err)
	tensors := map[gguf.Type]int{}
	for _, x := range s.listTensors() {
		tensors[x.t]++
	}
	assert.Equal(t, map[gguf.Type]int{gguf.F32: 133, gguf.Q5_K: 18, gguf.Q6_K: 15, gguf.Q4_K: 154}, tensors)
}

// reader returns a function that returns the weights of a tensor of the written model.
func reader(t *testing.T, s Spec) func(name string) []float32 {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	f, err := gguf.Parse(b.Bytes())
	require.NoError(t, err)
	return func(name string) []float32 {
		x, ok := f.Tensor(name)
		require.True(t, ok)
		all := make([]float32, x.Elems())
		x.Type.Dequantize(all, x.Data)
		return all
	}
}

// TestKeys: in every type, the projection of a key resembles that of its query, but not that of another.
func TestKeys(t *testing.T) {
	for _, name := range RecipeNames() {
		r, err := ParseRecipe(name)
		require.NoError(t, err)
		s := Tiny35(r, 3)
		s.Layers, s.Dim = 1, 1024 // several blocks per row
		qkv, size := reader(t, s)("blk.0.attn_qkv.weight"), s.Linear.KeyHeads*s.Linear.KeySize*s.Dim
		compare := func(query, key []float32) float64 {
			product, squares := 0.0, 0.0
			for i, q := range query {
				product += float64(q) * float64(key[i])
				squares += float64(q) * float64(q)
			}
			return product / squares
		}
		assert.InDelta(t, 0.75, compare(qkv[:size], qkv[size:2*size]), 0.06, name)
		assert.InDelta(t, 0, compare(qkv[:size], qkv[2*size:3*size]), 0.06, name)
		assert.InDelta(t, 0, compare(qkv[:s.Dim], qkv[size+s.Dim:][:s.Dim]), 0.15, name)
	}
}

// TestDecays: the decays of a token spread over the range of real models: some memories are kept, some forgotten.
func TestDecays(t *testing.T) {
	s := Tiny35(Recipe{"f32", gguf.F32}, 3)
	s.Linear.ValueHeads, s.Linear.ValueSize = 200, 2
	read := reader(t, s)
	a, dt, alpha := read("blk.0.ssm_a"), read("blk.0.ssm_dt.bias"), read("blk.0.ssm_alpha.weight")
	var decays []float64
	for h := range a {
		assert.Negative(t, a[h])
		alpha := alpha[h*s.Dim:][:s.Dim]
		sum := float64(dt[h])
		for i, w := range alpha {
			sum += float64(w) * math.Sqrt2 * math.Sin(float64(3*i*i+1)) // an input with a mean square of about 1
		}
		decays = append(decays, math.Exp(float64(a[h])*math.Log1p(math.Exp(sum))))
	}
	slices.Sort(decays)
	assert.InDelta(t, 0.4, decays[len(decays)/20], 0.2)
	assert.InDelta(t, 0.94, decays[len(decays)/2], 0.05)
	assert.InDelta(t, 0.995, decays[len(decays)*19/20], 0.004)
}

// TestLinearRefusals: sizes of linear attention must be positive and fit together.
func TestLinearRefusals(t *testing.T) {
	for name, spoil := range map[string]func(*Spec){
		"heads of keys":     func(s *Spec) { s.Linear.KeyHeads = 0 },
		"heads of values":   func(s *Spec) { s.Linear.ValueHeads = 0 },
		"multiple":          func(s *Spec) { s.Linear.ValueHeads = 3 },
		"keys":              func(s *Spec) { s.Linear.KeySize = 0 },
		"values":            func(s *Spec) { s.Linear.ValueSize = 0 },
		"taps":              func(s *Spec) { s.Linear.Kernel = 0 },
		"interval":          func(s *Spec) { s.Linear.Interval = 0 },
		"odd rotation":      func(s *Spec) { s.Linear.Rotated = 3 },
		"no rotation":       func(s *Spec) { s.Linear.Rotated = 0 },
		"rotation":          func(s *Spec) { s.Linear.Rotated = 66 },
		"fewer than none":   func(s *Spec) { s.Linear.Predictors = -1 },
		"two architectures": func(s *Spec) { s.Qwen3 = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := Tiny35(Recipe{"f32", gguf.F32}, 1)
			require.NoError(t, s.checkShape())
			spoil(&s)
			assert.ErrorContains(t, s.Write(&bytes.Buffer{}, nil), "synth: ")
		})
	}
}
