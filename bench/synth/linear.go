package synth

import (
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Linear is the shape of all that only a Qwen3.5 has: layers of linear attention (Gated DeltaNet), heads that rotate in
// part, and blocks that predict further tokens. The zero value is another model.
type Linear struct {
	KeyHeads   int // heads of q and k
	ValueHeads int // heads of v, each with a state; a multiple of KeyHeads
	KeySize    int // of each head of q and k; rows of a state
	ValueSize  int // of each head of v; columns of a state
	Kernel     int // taps of the convolution
	Interval   int // every layer of a multiple of this number, from 1, has full attention instead
	Rotated    int // leading elements of the heads of full attention that rotate; even
	Predictors int // blocks after the layers that predict the tokens after the next one (MTP), which texts do not need
}

// Tiny35 is a model for tests like [Tiny], as a Qwen3.5: three layers of linear attention, one of full attention.
func Tiny35(r Recipe, seed uint64) Spec {
	s := Tiny(r, seed)
	s.Name, s.Layers, s.HeadSize = "tiny35", 4, 64
	s.Linear = Linear{
		KeyHeads: 2, ValueHeads: 4, KeySize: 32, ValueSize: 32, Kernel: 4, Interval: 4, Rotated: 16,
	}
	return s
}

// smallQwen35 is a dense Qwen3.5 of 24 layers, without its block that predicts further tokens, by the metadata of its
// release.
func smallQwen35(name string, dim, ffn int) Spec {
	return Spec{
		Name: name, Layers: 24, Dim: dim, FFN: ffn, Heads: 8, KVHeads: 2, HeadSize: 256, Context: 262144,
		Vocab: 248320, RopeBase: 1e7, Epsilon: 1e-6, Tied: true,
		Linear: Linear{
			KeyHeads: 16, ValueHeads: 16, KeySize: 128, ValueSize: 128, Kernel: 4, Interval: 4, Rotated: 64,
		},
	}
}

func (s Spec) isLinear(layer int) bool {
	return s.Linear != Linear{} && (layer+1)%s.Linear.Interval != 0
}

func (s Spec) checkLinear() error {
	l := s.Linear
	switch {
	case l == Linear{}:
		return nil
	case l.KeyHeads < 1 || l.ValueHeads < 1 || l.KeySize < 1 || l.ValueSize < 1 || l.Kernel < 1 || l.Interval < 1:
		return fmt.Errorf("synth: every size of linear attention must be positive: %+v", l)
	case l.ValueHeads%l.KeyHeads != 0:
		return fmt.Errorf("synth: %d heads of values are no multiple of %d heads of keys", l.ValueHeads, l.KeyHeads)
	case l.Rotated < 2 || l.Rotated%2 != 0 || l.Rotated > s.headSize():
		return fmt.Errorf("synth: %d elements of heads of %d cannot rotate", l.Rotated, s.headSize())
	case l.Predictors < 0 || s.Qwen3:
		return fmt.Errorf("synth: a Qwen3.5 is no Qwen3, and has at least no predictors: %+v", s)
	}
	return nil
}

// putLinear writes the metadata that only a Qwen3.5 has. The sections of the rotation are for images: they assign the
// pairs in turn to time, height and width, which are equal in texts.
func (s Spec) putLinear(w *gguf.Writer) {
	l, pairs := s.Linear, s.Linear.Rotated/2
	put := func(key string, n int) { gguf.Put(w, "qwen35."+key, uint32(n)) }
	put("rope.dimension_count", l.Rotated)
	gguf.PutArray(w, "qwen35.rope.dimension_sections",
		[]int32{int32(pairs+2) / 3, int32(pairs+1) / 3, int32(pairs) / 3, 0})
	put("full_attention_interval", l.Interval)
	put("ssm.conv_kernel", l.Kernel)
	put("ssm.group_count", l.KeyHeads)
	put("ssm.time_step_rank", l.ValueHeads)
	put("ssm.state_size", l.KeySize)
	put("ssm.inner_size", l.ValueHeads*l.ValueSize)
	if l.Predictors > 0 {
		put("nextn_predict_layers", l.Predictors)
	}
}

// addLinear adds a layer of linear attention, except for its feed-forward block. The decays per token, the exponentials
// of ssm_a·softplus(ssm_alpha·x + ssm_dt), spread over 0.3 to 0.999. A key resembles its query: where their product is
// almost zero, the norm of the result turns any rounding error into a large one, above all after the first tokens.
func (t *tensorList) addLinear() {
	l, dim := t.s.Linear, t.s.Dim
	values := l.ValueHeads * l.ValueSize
	channels := 2*l.KeyHeads*l.KeySize + values
	t.addVector(t.nameOf("attn_norm.weight"), dim, 1, 0.1)
	t.addMatrix(t.nameOf("attn_qkv"), dim, channels)
	t.all[len(t.all)-1].repeated = l.KeyHeads * l.KeySize
	t.addMatrix(t.nameOf("attn_gate"), dim, values)
	t.all = append(t.all,
		tensor{name: t.nameOf("ssm_conv1d.weight"), t: gguf.F32, shape: []int{l.Kernel, channels},
			mean: 1 / math.Sqrt(float64(l.Kernel)), std: 0.3},
		tensor{name: t.nameOf("ssm_a"), t: gguf.F32, shape: []int{l.ValueHeads}, mean: -1, std: 0.6, negExp: true})
	t.addVector(t.nameOf("ssm_dt.bias"), l.ValueHeads, -1.5, 1)
	t.addMatrix(t.nameOf("ssm_alpha"), dim, l.ValueHeads)
	t.addMatrix(t.nameOf("ssm_beta"), dim, l.ValueHeads)
	t.addVector(t.nameOf("ssm_norm.weight"), l.ValueSize, 1, 0.3)
	t.addMatrix(t.nameOf("ssm_out"), values, dim)
}

// addPredictor adds what a block that predicts further tokens has besides a layer of full attention.
func (t *tensorList) addPredictor() {
	t.addMatrix(t.nameOf("nextn.eh_proj"), 2*t.s.Dim, t.s.Dim)
	for _, name := range []string{"enorm", "hnorm", "shared_head_norm"} {
		t.addVector(t.nameOf("nextn."+name+".weight"), t.s.Dim, 1, 0.1)
	}
}
