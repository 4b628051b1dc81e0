//go:build clients

package hf

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
)

// TestConvert: the weights have the values of the model, to the last bit, under the names of transformers; the files
// beside them have its shape, its vocabulary and its special tokens. The same model gives the same bytes.
func TestConvert(t *testing.T) {
	convert := converter(t)
	for _, model := range []string{
		"../demo/small.gguf", random(t, "tiny", "q4_k_m", false), random(t, "tiny3", "q8_0", true),
	} {
		folder, again := convert(model), convert(model)
		for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
			assert.True(t, read(t, folder, name) == read(t, again, name), name)
		}
		f, err := gguf.Open(model)
		require.NoError(t, err)
		defer f.Close()
		got := readWeights(t, read(t, folder, "model.safetensors"))
		assert.Len(t, got, len(f.Tensors()), model)
		for _, from := range f.Tensors() {
			to, ok := got[nameOf(t, from.Name)]
			require.True(t, ok, "%s of %s", from.Name, model)
			shape := slices.Clone(from.Shape)
			slices.Reverse(shape)
			require.Equal(t, shape, to.shape, from.Name)
			values := make([]float32, from.Elems())
			from.Type.Dequantize(values, from.Data)
			for i, v := range values {
				require.Equal(t, math.Float32bits(v), to.bits[i], "%s[%d]", from.Name, i)
			}
		}
		_, untied := f.Tensor("output.weight")
		assert.Contains(t, read(t, folder, "config.json"), `"tie_word_embeddings": `+map[bool]string{true: "false",
			false: "true"}[untied])
	}
	folder := convert("../demo/small.gguf")
	assert.JSONEq(t, `{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","dtype":"float32",
		"torch_dtype":"float32","vocab_size":768,"hidden_size":128,"intermediate_size":384,"num_hidden_layers":3,
		"num_attention_heads":2,"num_key_value_heads":1,"head_dim":64,"max_position_embeddings":512,
		"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":10000,"use_sliding_window":false,
		"tie_word_embeddings":true,"bos_token_id":765,"eos_token_id":767}`, read(t, folder, "config.json"))
	var tokenizer struct {
		Added []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, folder, "tokenizer.json")), &tokenizer))
	assert.Equal(t, 768, len(tokenizer.Model.Vocab)+len(tokenizer.Added))
	assert.Equal(t, [2]string{"t", "h"}, tokenizer.Model.Merges[0])
	assert.Equal(t, "<|im_end|>", tokenizer.Added[767-len(tokenizer.Model.Vocab)].Content)
	assert.Contains(t, read(t, folder, "tokenizer_config.json"), `"eos_token": "<|im_end|>"`)
	assert.Contains(t, read(t, folder, "tokenizer_config.json"), `"chat_template": "{% for message in messages %}`)
}

// converter returns a function that runs convert.py on a model, and returns the folder that it made. The packages that
// the script needs are installed first; without them the test is skipped with a message.
func converter(t *testing.T) func(model string) string {
	venv := filepath.Join(t.TempDir(), "venv")
	python := filepath.Join(venv, "bin", "python")
	for _, c := range [][]string{{"python3", "-m", "venv", venv}, {python, "-m", "pip", "install", "-q", "gguf"}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("*** LEFT OUT: convert.py: %s: %v: %s ***", c, err, out)
		}
	}
	return func(model string) string {
		folder := filepath.Join(t.TempDir(), "new", "folder")
		out, err := exec.Command(python, "convert.py", model, folder).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return folder
	}
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return string(b)
}

// random writes a model of random weights and returns its path.
func random(t *testing.T, shape, recipe string, tied bool) string {
	t.Helper()
	r, err := synth.ParseRecipe(recipe)
	require.NoError(t, err)
	spec, err := synth.Shape(shape, r, 1)
	require.NoError(t, err)
	spec.Tied = tied
	path := filepath.Join(t.TempDir(), "random.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, spec.Write(out, nil))
	require.NoError(t, out.Close())
	return path
}

// tensor is a tensor as it is read from a safetensors file.
type tensor struct {
	shape []int
	bits  []uint32 // of float32
}

// readWeights reads a safetensors file. It checks the header and that the data have no gaps and fill the file.
func readWeights(t *testing.T, file string) map[string]tensor {
	t.Helper()
	b := []byte(file)
	n := binary.LittleEndian.Uint64(b)
	require.Zero(t, n%8, "the data are aligned to 8 bytes")
	var header map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b[8:8+n], &header))
	require.JSONEq(t, `{"format":"pt"}`, string(header["__metadata__"]))
	delete(header, "__metadata__")
	data := b[8+n:]
	read := map[string]tensor{}
	ends := map[int64]int64{} // end by begin of a tensor
	for name, raw := range header {
		var e struct {
			Type    string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"` // bytes after the header: begin, end
		}
		require.NoError(t, json.Unmarshal(raw, &e))
		require.Equal(t, "F32", e.Type)
		size := int64(4)
		for _, d := range e.Shape {
			size *= int64(d)
		}
		require.Equal(t, size, e.Offsets[1]-e.Offsets[0], name)
		require.NotContains(t, ends, e.Offsets[0], "two tensors in one place")
		ends[e.Offsets[0]] = e.Offsets[1]
		bits := make([]uint32, size/4)
		for i := range bits {
			bits[i] = binary.LittleEndian.Uint32(data[e.Offsets[0]+4*int64(i):])
		}
		read[name] = tensor{e.Shape, bits}
	}
	at := int64(0)
	for range header {
		require.Contains(t, ends, at, "a gap or an overlap")
		at = ends[at]
	}
	require.EqualValues(t, len(data), at, "bytes outside all tensors")
	return read
}

// nameOf returns the name that transformers uses for a GGUF tensor.
func nameOf(t *testing.T, name string) string {
	t.Helper()
	table := map[string]string{
		"token_embd.weight": "model.embed_tokens.weight",
		"output.weight":     "lm_head.weight", "output_norm.weight": "model.norm.weight",
		"attn_norm.weight": "input_layernorm.weight", "ffn_norm.weight": "post_attention_layernorm.weight",
		"attn_q.weight": "self_attn.q_proj.weight", "attn_q.bias": "self_attn.q_proj.bias",
		"attn_k.weight": "self_attn.k_proj.weight", "attn_k.bias": "self_attn.k_proj.bias",
		"attn_v.weight": "self_attn.v_proj.weight", "attn_v.bias": "self_attn.v_proj.bias",
		"attn_output.weight": "self_attn.o_proj.weight",
		"ffn_gate.weight":    "mlp.gate_proj.weight", "ffn_up.weight": "mlp.up_proj.weight",
		"ffn_down.weight":    "mlp.down_proj.weight",
		"attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight",
	}
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		layer, part, _ := strings.Cut(rest, ".")
		require.Contains(t, table, part)
		return "model.layers." + layer + "." + table[part]
	}
	require.Contains(t, table, name)
	return table[name]
}
