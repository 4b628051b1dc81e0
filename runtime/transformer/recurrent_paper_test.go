package transformer_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// newSheet35 returns the model of [newSheet3] as a Qwen3.5: one recurrent layer, with two key heads and four value
// heads, and one with attention. Two of the six elements of a head are rotated.
func newSheet35() *sheet {
	s := newSheet3()
	for key, v := range maps.Clone(s.values) {
		if name, ok := strings.CutPrefix(key, "qwen3."); ok {
			delete(s.values, key)
			s.values["qwen35."+name] = v
		}
	}
	for key, n := range map[string]uint32{
		"rope.dimension_count": 2, "full_attention_interval": 2, "ssm.conv_kernel": 3, "ssm.state_size": 4,
		"ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 20,
	} {
		s.values["qwen35."+key] = n
	}
	s.values["general.architecture"] = "qwen35"
	s.values["qwen35.rope.dimension_sections"] = []int32{1, 0, 0, 0}
	for name := range maps.Clone(s.tensors) {
		if strings.HasPrefix(name, "blk.0.attn_") {
			delete(s.tensors, name)
		}
	}
	for i := range 2 {
		p := fmt.Sprintf("blk.%d.", i)
		s.tensors[p+"post_attention_norm.weight"] = []int{12}
		delete(s.tensors, p+"ffn_norm.weight")
	}
	s.tensors["blk.1.attn_q.weight"] = []int{12, 36}
	for name, shape := range map[string][]int{
		"attn_norm.weight": {12}, "attn_qkv.weight": {12, 36}, "attn_gate.weight": {12, 20},
		"ssm_beta.weight": {12, 4}, "ssm_alpha.weight": {12, 4}, "ssm_conv1d.weight": {3, 36}, "ssm_a": {4},
		"ssm_dt.bias": {4}, "ssm_norm.weight": {5}, "ssm_out.weight": {20, 12},
	} {
		s.tensors["blk.0."+name] = shape
	}
	return s
}

// TestRecurrentOnPaper: the operations of both kinds of layers, with their weights, and the widths of activations.
// Blocks of multi-token prediction are left out.
func TestRecurrentOnPaper(t *testing.T) {
	s := newSheet35()
	s.values["qwen35.block_count"], s.values["qwen35.nextn_predict_layers"] = uint32(3), uint32(1)
	s.tensors["blk.2.attn_q.weight"], s.tensors["blk.2.nextn.eh_proj.weight"] = []int{12, 36}, []int{24, 12}
	s.tensors["v.patch_embd.weight"], s.tensors["mm.0.weight"] = []int{4}, []int{5}
	assert.ElementsMatch(t, []string{
		"blk.2.attn_q.weight", "blk.2.nextn.eh_proj.weight", "v.patch_embd.weight", "mm.0.weight",
	}, transformer.LeftOut(s.file(t)))
	d := &paper{}
	m := s.model(t, d)
	assert.Equal(t, [][2]int{{128, 12}, {128, 18}, {128, 36}, {128, 6}, {128, 6}, {128, 20}, {128, 16}}, d.tensors)
	kv, err := m.NewKV(5, gguf.F32)
	require.NoError(t, err)
	c := backend.DeltaConfig{
		Layers: 1, KeyHeads: 2, ValueHeads: 4, KeySize: 4, ValueSize: 5, Kernel: 3, Epsilon: 0.5,
	}
	assert.Equal(t, backend.KVConfig{
		Layers: 1, Slots: 5, Heads: 3, KVHeads: 1, HeadSize: 6, Rotated: 2, Gated: true, RopeBase: 10000,
		Type: gguf.F32, Delta: c,
	}, kv.Config())
	rows := []backend.Row{{See: []backend.Span{{From: 0, To: 1}}}}
	require.NoError(t, m.Forward(t.Context(), kv, rows, make([]backend.Output, 1), backend.Want{Rows: []int{0}, K: 3}))
	assert.Equal(t, []string{
		"begin 1 rows from 0, token 0", "embed token_embd",
		"delta 0, blk.0.attn_norm blk.0.attn_qkv blk.0.attn_gate blk.0.ssm_beta blk.0.ssm_alpha " +
			"blk.0.ssm_conv1d.weight blk.0.ssm_a blk.0.ssm_dt.bias blk.0.ssm_norm.weight",
		"add blk.0.ssm_out",
		"gate blk.0.post_attention_norm blk.0.ffn_gate blk.0.ffn_up", "add blk.0.ffn_down",
		"project blk.1.attn_norm blk.1.attn_q blk.1.attn_k blk.1.attn_v",
		"attend 0, blk.1.attn_q_norm blk.1.attn_k_norm", "add blk.1.attn_output",
		"gate blk.1.post_attention_norm blk.1.ffn_gate blk.1.ffn_up", "add blk.1.ffn_down",
		"head output_norm output of [0], 3 best",
	}, d.log)
}

// TestRecurrentRows: a row that does not see its whole text is refused, as its state would be that of another one.
func TestRecurrentRows(t *testing.T) {
	m := newSheet35().model(t, &paper{})
	kv, err := m.NewKV(5, gguf.F32)
	require.NoError(t, err)
	rows := []backend.Row{{Pos: 3, Slot: 1, See: []backend.Span{{From: 0, To: 2}}}}
	err = m.Forward(t.Context(), kv, rows, nil, backend.Want{})
	assert.EqualError(t, err,
		"row 0 at position 3: it sees 2 tokens, and recurrent layers take the whole text")
}

// TestRecurrentLayers: the list of layers comes before the interval, which is four if it is missing.
func TestRecurrentLayers(t *testing.T) {
	s := newSheet35()
	s.values["qwen35.attention.recurrent_layers"] = []bool{false, true}
	c, err := transformer.ReadConfig(s.file(t))
	require.NoError(t, err)
	assert.Equal(t, []bool{false, true}, c.Recurrent)
	delete(s.values, "qwen35.attention.recurrent_layers")
	delete(s.values, "qwen35.full_attention_interval")
	s.values["qwen35.block_count"] = uint32(9)
	c, err = transformer.ReadConfig(s.file(t))
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, true, false, true, true, true, false, true}, c.Recurrent)
	assert.Equal(t, 7, c.Delta.Layers)
}

func TestRecurrentRefused(t *testing.T) {
	for _, c := range []refusedConfig{
		{"qwen35.ssm.conv_kernel", nil, "qwen35.ssm.conv_kernel"},
		{"qwen35.ssm.conv_kernel", uint32(17), "qwen35.ssm.conv_kernel: 17 is not within 1 to 16"},
		{"qwen35.ssm.state_size", uint32(0), "qwen35.ssm.state_size: 0 is not within"},
		{"qwen35.ssm.state_size", uint32(1 << 20), "qwen35.ssm.state_size: 2 key heads of 1048576"},
		{"qwen35.ssm.state_size", uint32(1 << 19), "2 key heads of 524288, for values of 20"},
		{"qwen35.ssm.group_count", uint32(3), "4 value heads are no multiple of 3 key heads"},
		{"qwen35.ssm.inner_size", uint32(21), "qwen35.ssm.inner_size: 21 is no multiple of 4 value heads"},
		{"qwen35.rope.dimension_count", uint32(8), "qwen35.rope.dimension_count: 8 of 6 elements of a head"},
		{"qwen35.rope.dimension_count", uint32(3), "an even number is possible"},
		{"qwen35.rope.dimension_sections", []int32{1}, "1 sections, at least 3 are needed"},
		{"qwen35.rope.dimension_sections", []int32{-1, 1, 1}, "a section of -1"},
		{"qwen35.rope.dimension_sections", []int32{0, 2, 0, 0}, "[0 2 0 0] leave pair 0 without a position"},
		{"qwen35.rope.dimension_sections", "time", "qwen35.rope.dimension_sections"},
		{"qwen35.full_attention_interval", uint32(3), "qwen35.full_attention_interval: no layer has attention"},
		{"qwen35.attention.recurrent_layers", []bool{true}, "expected a bool for each of 2 layers"},
		{"qwen35.attention.recurrent_layers", uint32(1), "expected a bool for each of 2 layers"},
		{"qwen35.nextn_predict_layers", uint32(2), "qwen35.nextn_predict_layers: 2 of 2 blocks"},
	} {
		t.Run(fmt.Sprintf("%s %v", c.key, c.value), func(t *testing.T) {
			s := newSheet35()
			if s.values[c.key] = c.value; c.value == nil {
				delete(s.values, c.key)
			}
			_, err := transformer.ReadConfig(s.file(t))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestRecurrentTensorsRefused: as [TestTensorsRefused], for the tensors of recurrent layers.
func TestRecurrentTensorsRefused(t *testing.T) {
	for name, shape := range newSheet35().tensors {
		if !strings.HasPrefix(name, "blk.0.") {
			continue
		}
		s := newSheet35()
		delete(s.tensors, name)
		_, err := transformer.Load(s.file(t), &paper{})
		assert.ErrorContains(t, err, fmt.Sprintf("tensor %q: missing", name))
		s.tensors[name] = append([]int{shape[0] + 1}, shape[1:]...)
		_, err = transformer.Load(s.file(t), &paper{})
		assert.ErrorContains(t, err, fmt.Sprintf("tensor %q: shape", name))
	}
	_, err := transformer.Load(newSheet35().file(t), &paper{refuse: "blk.0.ssm_a"})
	assert.ErrorIs(t, err, errPaper)
	s := newSheet35()
	s.tensors["blk.2.attn_norm.weight"] = []int{12}
	_, err = transformer.Load(s.file(t), &paper{})
	assert.ErrorContains(t, err, "a qwen35 model of 2 layers has no such tensor")
}
