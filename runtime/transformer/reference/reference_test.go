package reference_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer/reference"
)

var models = flag.String("models", "", "the folder into which the models of testdata/llama.mjs are written")

// small returns a Qwen3.5 of random weights in F32.
func small(t *testing.T) synth.Spec {
	t.Helper()
	f32, err := synth.ParseRecipe("f32")
	require.NoError(t, err)
	s := synth.Tiny35(f32, 7)
	s.Dim, s.FFN, s.HeadSize, s.Vocab = 64, 96, 32, 300
	s.Linear.KeySize, s.Linear.ValueSize, s.Linear.Rotated = 16, 16, 8
	return s
}

// cases returns what the models of testdata/llama.json have that others have not.
func cases() map[string]func(*synth.Spec) {
	return map[string]func(*synth.Spec){
		"plain":        func(*synth.Spec) {},
		"equal heads":  func(s *synth.Spec) { s.Linear.KeyHeads = 4 },
		"one key head": func(s *synth.Spec) { s.Linear.KeyHeads, s.Linear.ValueHeads = 1, 3 },
		"every second": func(s *synth.Spec) {
			s.Linear = synth.Linear{
				KeyHeads: 2, ValueHeads: 6, KeySize: 12, ValueSize: 12, Kernel: 3, Interval: 2, Rotated: 6,
			}
		},
		"every third":    func(s *synth.Spec) { s.Linear.Interval, s.Linear.Kernel = 3, 2 },
		"rotated heads":  func(s *synth.Spec) { s.HeadSize, s.Linear.Rotated, s.RopeBase = 20, 20, 500 },
		"untied":         func(s *synth.Spec) { s.Tied = false },
		"predicts ahead": func(s *synth.Spec) { s.Linear.Predictors = 1 },
		"odd widths":     func(s *synth.Spec) { s.Dim, s.FFN, s.Heads, s.Vocab = 50, 70, 6, 301 },
	}
}

func write(t *testing.T, s synth.Spec) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	return b.Bytes()
}

func load(t *testing.T, s synth.Spec) *reference.Model {
	t.Helper()
	f, err := gguf.Parse(write(t, s))
	require.NoError(t, err)
	m, err := reference.Load(f)
	require.NoError(t, err)
	return m
}

// TestLlama compares with llama.cpp. Both have the same weights, and llama.cpp computes in float32. A change of the
// weights of bench/synth requires testdata/llama.mjs to be run again.
func TestLlama(t *testing.T) {
	if *models != "" {
		for name, edit := range cases() {
			s := small(t)
			edit(&s)
			require.NoError(t, os.WriteFile(filepath.Join(*models, name+".gguf"), write(t, s), 0o644))
		}
		return
	}
	var want struct {
		Step   int
		Ends   []int
		Prompt []int32
		Models map[string][][]float64
	}
	b, err := os.ReadFile(filepath.Join("testdata", "llama.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &want))
	require.Len(t, want.Models, len(cases()))
	for name, edit := range cases() {
		t.Run(name, func(t *testing.T) {
			s := small(t)
			edit(&s)
			logits := load(t, s).Logits(want.Prompt)
			for i, end := range want.Ends {
				sum := 0.0
				for _, l := range logits[end-1] {
					sum += math.Exp(l)
				}
				var got []float64
				for id := 0; id < s.Vocab; id += want.Step {
					got = append(got, logits[end-1][id]-math.Log(sum))
				}
				assert.InDeltaSlice(t, want.Models[name][i], got, 3e-5, "after %d tokens", end)
			}
		})
	}
}

// TestState: the state has what each token added, and texts do not share it.
func TestState(t *testing.T) {
	s := small(t)
	s.Linear.ValueSize = 20 // llama.cpp has no such model
	m := load(t, s)
	one, other := m.Begin(), m.Begin()
	first := one.Next(5)
	other.Next(6)
	assert.Equal(t, first, m.Logits([]int32{5})[0])
	full, linear := one.State(3), one.State(1)
	assert.Nil(t, full.Memory)
	assert.Nil(t, linear.Keys)
	require.Len(t, full.Values, 1)
	assert.Len(t, full.Values[0], s.KVHeads*s.HeadSize)
	require.Len(t, linear.Inputs, s.Linear.Kernel-1)
	assert.Equal(t, make([]float64, 4*16+4*20), linear.Inputs[0], "before the text")
	assert.NotZero(t, linear.Inputs[2][0])
	require.Len(t, linear.Memory, 4)
	require.Len(t, linear.Memory[0], 16)
	memory := linear.Memory[3] // after the first token, k βᵀv
	assert.InDelta(t, memory[0][0]*memory[1][19], memory[0][19]*memory[1][0], 1e-15)
	assert.NotEqual(t, memory, other.State(1).Memory[3])
	before := memory[0][0]
	one.Next(6)
	assert.Len(t, one.State(3).Keys, 2)
	assert.NotEqual(t, before, one.State(1).Memory[3][0][0])
	assert.Equal(t, linear.Inputs[2], one.State(1).Inputs[1])
}

// TestRefusals: other models, and tensors that are missing or of another shape, cause errors that name them.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ old, new, message string }{
		"another model":   {"qwen35", "qwen34", `"qwen34" is not qwen35`},
		"no value":        {"ssm.conv_kernel", "ssm.conv_kernal", "qwen35.ssm.conv_kernel"},
		"no tensor":       {"blk.2.ssm_norm", "blk.9.ssm_norm", `"blk.2.ssm_norm.weight"`},
		"another width":   {"blk.0.ffn_down.weight", "blk.0.ffn_gate.weight", `"blk.0.ffn_gate.weight"`},
		"too many rows":   {"blk.0.attn_gate.weight", "blk.0.attn_norm.weight", `"blk.0.attn_norm.weight"`},
		"without a value": {"qwen35.rope.freq_base", "qwen35.rope.freq_bass", "qwen35.rope.freq_base"},
	} {
		t.Run(name, func(t *testing.T) {
			swapped := strings.NewReplacer(c.old, c.new, c.new, c.old).Replace(string(write(t, small(t))))
			f, err := gguf.Parse([]byte(swapped))
			require.NoError(t, err)
			_, err = reference.Load(f)
			assert.ErrorContains(t, err, c.message)
		})
	}
}
