package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// tensor is a tensor as it is read from a safetensors file.
type tensor struct {
	shape []int
	bits  []uint32 // of float32
}

// readWeights reads a safetensors file. It checks the header and that the data have no gaps and fill the file.
func readWeights(t *testing.T, path string) map[string]tensor {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
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
		var e entry
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

// made converts a model into a temporary folder.
func made(t *testing.T, model string) string {
	t.Helper()
	folder := filepath.Join(held.TempDir(t), "new", "folder")
	require.NoError(t, convert(model, folder))
	return folder
}

func TestWeightsHaveTheValuesOfTheModelUnderTheNamesOfTransformers(t *testing.T) {
	for _, model := range []string{
		"../demo/large.gguf", "../demo/small.gguf", small().write(t), random(t, "tiny", "q4_k_m", false),
		random(t, "tiny", "q8_0", true), random(t, "tiny3", "q8_0", true),
	} {
		f, err := gguf.Open(model)
		require.NoError(t, err)
		defer f.Close()
		got := readWeights(t, filepath.Join(made(t, model), "model.safetensors"))
		assert.Len(t, got, len(f.Tensors()), model)
		for _, from := range f.Tensors() {
			name := nameOf(t, from.Name)
			to, ok := got[name]
			require.True(t, ok, "%s of %s", name, model)
			shape := slices.Clone(from.Shape)
			slices.Reverse(shape)
			require.Equal(t, shape, to.shape, name)
			values := make([]float32, from.Elems())
			from.Type.Dequantize(values, from.Data)
			for i, v := range values {
				if math.Float32bits(v) != to.bits[i] {
					require.Failf(t, "a different value", "%s[%d]: %v, not %v", name, i,
						math.Float32frombits(to.bits[i]), v)
				}
			}
		}
	}
}

// random writes a model of random weights and returns its path.
func random(t *testing.T, shape, recipe string, tied bool) string {
	t.Helper()
	r, err := synth.ParseRecipe(recipe)
	require.NoError(t, err)
	spec, err := synth.Shape(shape, r, 1)
	require.NoError(t, err)
	spec.Tied = tied
	path := filepath.Join(held.TempDir(t), "random.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, spec.Write(out, nil))
	require.NoError(t, out.Close())
	return path
}

func TestConfigTellsTheShape(t *testing.T) {
	assert.JSONEq(t,
		`{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","dtype":"float32","torch_dtype":"float32",
		"vocab_size":6,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":1,"num_attention_heads":2,
		"num_key_value_heads":1,"head_dim":16,"max_position_embeddings":64,"hidden_act":"silu","rms_norm_eps":1e-5,
		"rope_theta":500000,"use_sliding_window":false,"tie_word_embeddings":false,`+
			`"bos_token_id":null,"eos_token_id":3}`,
		read(t, made(t, small().write(t)), "config.json"))
	tied := read(t, made(t, "../demo/large.gguf"), "config.json")
	assert.Contains(t, tied, `"tie_word_embeddings": true`)
	assert.Contains(t, tied, `"bos_token_id": 765`)
	qwen3 := read(t, made(t, random(t, "tiny3", "q8_0", false)), "config.json")
	for _, want := range []string{"Qwen3ForCausalLM", `"model_type": "qwen3"`, `"head_dim": 128`} {
		assert.Contains(t, qwen3, want)
	}
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return string(b)
}

func TestTokenizerHasTheVocabularyTheMergesAndTheSpecialTokens(t *testing.T) {
	folder := made(t, small().write(t))
	text := read(t, folder, "tokenizer.json")
	const letters = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}`
	const flags = `"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":`
	regex, err := json.Marshal(
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
			`\s*[\r\n]+|\s+(?!\S)|\s+`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[
			{"id":3,"content":"<|end|>",`+flags+`true},
			{"id":4,"content":"<tool>",`+flags+`false}],
		"normalizer":{"type":"NFC"},
		"pre_tokenizer":{"type":"Sequence","pretokenizers":[
			{"type":"Split","pattern":{"Regex":`+string(regex)+`},"behavior":"Isolated","invert":false},`+letters+`]},
		"post_processor":`+letters+`,"decoder":`+letters+`,
		"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"","end_of_word_suffix":"",
			"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
			"vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}`, text)
	assert.Contains(t, text, `"<|end|>"`, "no escapes in readable text")
}

func TestTokenizerConfigNamesSpecialTokensAndTemplate(t *testing.T) {
	token := func(content, special string) string {
		return `{"content":"` + content + `","special":` + special +
			`,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}`
	}
	assert.JSONEq(t, `{"tokenizer_class":"PreTrainedTokenizerFast","added_tokens_decoder":{"3":`+
		token("<|end|>", "true")+
		`,"4":`+token("<tool>", "false")+`},"add_prefix_space":false,"clean_up_tokenization_spaces":false,
		"model_max_length":64,"bos_token":null,"unk_token":null,"eos_token":"<|end|>","pad_token":"<|end|>",
		"chat_template":"{{ '<|end|>' }}"}`,
		read(t, made(t, small().write(t)), "tokenizer_config.json"))
	p := small()
	delete(p.meta, "tokenizer.ggml.eos_token_id")
	delete(p.meta, "tokenizer.chat_template")
	got := read(t, made(t, p.write(t)), "tokenizer_config.json")
	assert.NotContains(t, got, "eos_token")
	assert.NotContains(t, got, "chat_template")
}

func TestTheSameModelMakesTheSameBytes(t *testing.T) {
	first, second := made(t, "../demo/large.gguf"), made(t, "../demo/large.gguf")
	files, err := os.ReadDir(first)
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, f := range files {
		assert.True(t, read(t, first, f.Name()) == read(t, second, f.Name()), f.Name())
	}
}

func TestAModelThatCannotBeWrittenIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p parts)
		want   string
	}{
		"architecture":        {set("general.architecture", "llama"), `"llama" is not supported`},
		"tokenizer":           {set("tokenizer.ggml.model", "llama"), `ggml.model: "llama", only "gpt2" is supported`},
		"splitting":           {set("tokenizer.ggml.pre", "default"), `ggml.pre: "default", only "qwen2" is supported`},
		"BOS":                 {set("tokenizer.ggml.add_bos_token", true), "tokenizer.ggml.add_bos_token: true"},
		"BOS of another type": {set("tokenizer.ggml.add_bos_token", "yes"), "tokenizer.ggml.add_bos_token"},
		"id of EOS":           {set("tokenizer.ggml.eos_token_id", uint32(6)), "ggml.eos_token_id: 6, with 6 tokens"},
		"negative id of EOS":  {set("tokenizer.ggml.eos_token_id", int32(-1)), "ggml.eos_token_id: -1, with 6 tokens"},
		"type of EOS":         {set("tokenizer.ggml.eos_token_id", "x"), "tokenizer.ggml.eos_token_id"},
		"id of BOS":           {set("tokenizer.ggml.bos_token_id", uint32(9)), "tokenizer.ggml.bos_token_id: 9"},
		"template":            {set("tokenizer.chat_template", uint32(1)), "tokenizer.chat_template"},
		"no types":            {remove("tokenizer.ggml.token_type"), "tokenizer.ggml.token_type"},
		"fewer types":         {set("tokenizer.ggml.token_type", []int32{1, 1}), "6 tokens, 2 types, 6 rows"},
		"unknown type":        {set("tokenizer.ggml.token_type", []int32{1, 1, 1, 3, 4, 6}), "token 5: type 6"},
		"a token twice": {set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "c", "b", "d"},
			"tokenizer.ggml.token_type", []int32{1, 1, 1, 1, 1, 1}), `token 4: "b" is token 1 too`},
		"not UTF-8": {set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "\xff", "<tool>", "x"}),
			`token 3: "\xff" is not valid UTF-8`},
		"more tokens than rows": {set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "c", "d", "e", "f"},
			"tokenizer.ggml.token_type", []int32{1, 1, 1, 1, 1, 1, 1}), "7 tokens, 7 types, 6 rows"},
		"a merge of one":        {set("tokenizer.ggml.merges", []string{"ab"}), `merge 0: "ab" are not two tokens`},
		"a merge of nothing":    {set("tokenizer.ggml.merges", []string{"a b", "a "}), `merge 1: "" is not a token`},
		"a merge of a stranger": {set("tokenizer.ggml.merges", []string{"a c"}), `merge 0: "c" is not a token`},
		"a merge into no token": {set("tokenizer.ggml.merges", []string{"b a"}), `merge 0: "ba" is not a token`},
		"a missing tensor": {func(p parts) { delete(p.tensors, "blk.0.attn_k.bias") },
			`tensor "blk.0.attn_k.bias": missing`},
		"a tensor of other size": {func(p parts) { p.tensors["blk.0.ffn_up.weight"] = []int{48, 32} },
			`tensor "blk.0.ffn_up.weight": sizes [32 48], expected [48 32]`},
		"a strange tensor": {func(p parts) { p.tensors["blk.0.attn_q_norm.weight"] = []int{16} },
			`tensor "blk.0.attn_q_norm.weight": not part of a Qwen2 model`},
	} {
		t.Run(name, func(t *testing.T) {
			p := small()
			c.change(p)
			model := p.write(t)
			folder := filepath.Join(held.TempDir(t), "folder")
			err := convert(model, folder)
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, model, "the error names the file")
			assert.NoDirExists(t, folder, "nothing is written before the checks")
		})
	}
}

// set replaces metadata: key, value, key, value.
func set(pairs ...any) func(p parts) {
	return func(p parts) {
		for i := 0; i < len(pairs); i += 2 {
			p.meta[pairs[i].(string)] = pairs[i+1]
		}
	}
}

func remove(key string) func(p parts) { return func(p parts) { delete(p.meta, key) } }

// full is a writer with room for some bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

var errFull = errors.New("no room")

func TestAFullDiskIsAnErrorWhereverItEnds(t *testing.T) {
	f, err := gguf.Open(small().write(t))
	require.NoError(t, err)
	defer f.Close()
	files, err := describe(f)
	require.NoError(t, err)
	for _, file := range files {
		var whole bytes.Buffer
		require.NoError(t, file.write(&whole))
		for room := 0; room < whole.Len(); room += 1 + room/20 {
			require.ErrorIs(t, file.write(&full{room}), errFull, "%s: %d bytes", file.name, room)
		}
		assert.NoError(t, file.write(&full{whole.Len()}))
		path := filepath.Join(held.TempDir(t), file.name)
		err := create(path, func(io.Writer) error { return errFull })
		require.ErrorIs(t, err, errFull)
		assert.ErrorContains(t, err, path)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		assert.ErrorIs(t, create("/dev/full", files[0].write), syscall.ENOSPC)
	}
}

func TestUsage(t *testing.T) {
	model := small().write(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-m", model}, 2, "give the model with -m and the folder with -o"},
		{[]string{"-o", held.TempDir(t)}, 2, "give the model with -m and the folder with -o"},
		{[]string{"-m", model, "-o", held.TempDir(t), "more"}, 2, "and nothing else"},
		{[]string{"-x"}, 2, "-x"},
		{[]string{"-m", filepath.Join(held.TempDir(t), "none.gguf"), "-o", t.TempDir()}, 1, "none.gguf"},
		{[]string{"-m", model, "-o", model}, 1, "mkdir "},
		{[]string{"-m", model, "-o", held.TempDir(t)}, 0, ""},
	} {
		var stderr strings.Builder
		assert.Equal(t, c.code, run(c.args, &stderr), c.args)
		assert.Contains(t, stderr.String(), c.want)
	}
}
