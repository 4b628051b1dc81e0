package main

import "github.com/pilotfish-ai/pilotfish/runtime/qwen"

// config is config.json. Names and meanings are those of Qwen2Config and Qwen3Config of the library transformers.
type config struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`
	Type          string   `json:"dtype"`
	OldType       string   `json:"torch_dtype"` // the name of dtype before transformers 5
	Vocab         int      `json:"vocab_size"`
	Dim           int      `json:"hidden_size"`
	FFN           int      `json:"intermediate_size"`
	Layers        int      `json:"num_hidden_layers"`
	Heads         int      `json:"num_attention_heads"`
	KVHeads       int      `json:"num_key_value_heads"`
	HeadSize      int      `json:"head_dim"`
	Context       int      `json:"max_position_embeddings"`
	Activation    string   `json:"hidden_act"`
	Epsilon       float32  `json:"rms_norm_eps"`
	RopeBase      float64  `json:"rope_theta"`
	Sliding       bool     `json:"use_sliding_window"`
	Tied          bool     `json:"tie_word_embeddings"`
	BOS           *int     `json:"bos_token_id"`
	EOS           *int     `json:"eos_token_id"`
}

func newConfig(c qwen.Config, v vocabulary, tied bool) config {
	return config{
		Architectures: []string{c.Arch.Title + "ForCausalLM"}, ModelType: c.Arch.Name,
		Type: "float32", OldType: "float32", Vocab: c.Vocab, Dim: c.Dim, FFN: c.FFN, Layers: c.Layers,
		Heads: c.Heads, KVHeads: c.KVHeads, HeadSize: c.HeadSize, Context: c.Context, Activation: "silu",
		Epsilon: c.Epsilon, RopeBase: c.RopeBase, Tied: tied, BOS: v.bos, EOS: v.eos,
	}
}
