package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// parts are the contents of a GGUF file, for tests to change.
type parts struct {
	meta    map[string]any
	tensors map[string][]int // sizes, fastest-varying first
}

// small returns the parts of a model with one layer: width 32, 2 heads, 1 KV head, 6 tokens.
func small() parts {
	p := parts{
		meta: map[string]any{
			"general.architecture": "qwen2", "qwen2.block_count": uint32(1), "qwen2.context_length": uint32(64),
			"qwen2.embedding_length": uint32(32), "qwen2.feed_forward_length": uint32(48),
			"qwen2.attention.head_count":    uint32(2),
			"qwen2.attention.head_count_kv": uint32(1), "qwen2.attention.layer_norm_rms_epsilon": float32(1e-5),
			"qwen2.rope.freq_base": float32(5e5), "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
			"tokenizer.ggml.tokens":       []string{"a", "b", "ab", "<|end|>", "<tool>", "[PAD5]"},
			"tokenizer.ggml.token_type":   []int32{normal, normal, normal, control, user, unused},
			"tokenizer.ggml.merges":       []string{"a b"},
			"tokenizer.ggml.eos_token_id": uint32(3), "tokenizer.chat_template": "{{ '<|end|>' }}",
		},
		tensors: map[string][]int{
			"token_embd.weight": {32, 6}, "output.weight": {32, 6}, "output_norm.weight": {32},
			"blk.0.attn_norm.weight": {32}, "blk.0.ffn_norm.weight": {32},
			"blk.0.attn_q.weight": {32, 32}, "blk.0.attn_q.bias": {32},
			"blk.0.attn_k.weight": {32, 16}, "blk.0.attn_k.bias": {16},
			"blk.0.attn_v.weight": {32, 16}, "blk.0.attn_v.bias": {16}, "blk.0.attn_output.weight": {32, 32},
			"blk.0.ffn_gate.weight": {32, 48}, "blk.0.ffn_up.weight": {32, 48}, "blk.0.ffn_down.weight": {48, 32},
		},
	}
	return p
}

// write writes the parts into a file and returns its path. The weights count up, so that each value is unique in the
// file.
func (p parts) write(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	for _, key := range slices.Sorted(maps.Keys(p.meta)) {
		put(t, w, key, p.meta[key])
	}
	names := slices.Sorted(maps.Keys(p.tensors))
	for _, name := range names {
		w.Declare(name, gguf.F32, p.tensors[name]...)
	}
	next := float32(0)
	for _, name := range names {
		n := 1
		for _, d := range p.tensors[name] {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = next
			next++
		}
		require.NoError(t, w.WriteFloats(values))
	}
	require.NoError(t, w.Close())
	path := filepath.Join(held.TempDir(t), "model.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

func put(t *testing.T, w *gguf.Writer, key string, v any) {
	t.Helper()
	switch v := v.(type) {
	case string:
		gguf.Put(w, key, v)
	case bool:
		gguf.Put(w, key, v)
	case int32:
		gguf.Put(w, key, v)
	case uint32:
		gguf.Put(w, key, v)
	case float32:
		gguf.Put(w, key, v)
	case []string:
		gguf.PutArray(w, key, v)
	case []int32:
		gguf.PutArray(w, key, v)
	default:
		t.Fatalf("%s: %T", key, v)
	}
}
