// Package reference evaluates Qwen3.5 models (dense, text only) in float64, one token after another, by the formulas of
// their papers. Tests compare package transformer with it. It shares no arithmetic with that package: it reads a file,
// converts all weights to float64, and computes with loops.
//
// Linear attention: "Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464, in the recurrent form.
// Full attention: "Gated Attention for Large Language Models", arXiv 2505.06708. Names of metadata and tensors: the
// GGUF conventions for the architecture "qwen35".
package reference

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Model is a Qwen3.5 with weights in float64.
type Model struct {
	embedding matrix // [Vocab][D]
	layers    []layer
	norm      []float64 // [D]
	output    matrix    // [Vocab][D]

	heads, kvHeads, headSize int
	rotated                  int     // leading elements of each head of full attention that rotate
	base                     float64 // of the rotary frequencies
	epsilon                  float64 // of all norms

	keyHeads, valueHeads, keySize, valueSize int // of linear attention
	kernel                                   int // taps of its convolution
}

// layer is a transformer block: h = x + attention(norm(x)), then h + ffn(norm(h)).
type layer struct {
	attnNorm, ffnNorm []float64 // [D]
	full              *full     // nil in layers of linear attention
	linear            *linear   // nil in layers of full attention
	gate, up          matrix    // [F][D]
	down              matrix    // [D][F]
}

// full has the weights of a layer of full attention.
type full struct {
	wq           matrix    // [H·2·Dh][D]: of each head, q and the gate of its result
	wk, wv       matrix    // [Hkv·Dh][D]
	qNorm, kNorm []float64 // [Dh]
	wo           matrix    // [D][H·Dh]
}

// linear has the weights of a layer of linear attention. C is the number of channels of q, k and v in that order.
type linear struct {
	qkv         matrix    // [C][D]
	z           matrix    // [Hv·Sv][D], the gate of the result
	conv        matrix    // [C][taps], the last tap is that of the newest token
	alpha, beta matrix    // [Hv][D]
	a, dt       []float64 // [Hv]; a is negative
	norm        []float64 // [Sv]
	out         matrix    // [D][Hv·Sv]
}

// Load reads a model. A missing or unfit value or tensor causes an error that names it.
func Load(f *gguf.File) (*Model, error) {
	r := &reader{f: f}
	if arch, err := f.String("general.architecture"); err != nil || arch != "qwen35" {
		return nil, errors.Join(err, fmt.Errorf("general.architecture: %.40q is not qwen35", arch))
	}
	m := &Model{
		heads: r.readInt("attention.head_count"), kvHeads: r.readInt("attention.head_count_kv"),
		headSize: r.readInt("attention.key_length"), rotated: r.readInt("rope.dimension_count"),
		base: r.readFloat("rope.freq_base"), epsilon: r.readFloat("attention.layer_norm_rms_epsilon"),
		keyHeads: r.readInt("ssm.group_count"), valueHeads: r.readInt("ssm.time_step_rank"),
		keySize: r.readInt("ssm.state_size"), kernel: r.readInt("ssm.conv_kernel"),
	}
	dim, ffn, inner := r.readInt("embedding_length"), r.readInt("feed_forward_length"), r.readInt("ssm.inner_size")
	interval, layers := r.readInt("full_attention_interval"), r.readInt("block_count")
	if _, err := f.Int("qwen35.nextn_predict_layers"); !errors.Is(err, gguf.ErrAbsent) {
		layers -= r.readInt("nextn_predict_layers") // the last blocks predict further tokens
	}
	if r.err != nil {
		return nil, r.err
	}
	m.valueSize = inner / m.valueHeads
	m.embedding = r.readMatrix("token_embd.weight", anyNumber, dim)
	m.norm = r.readVector("output_norm.weight", dim)
	m.output = m.embedding
	if _, ok := f.Tensor("output.weight"); ok {
		m.output = r.readMatrix("output.weight", len(m.embedding), dim)
	}
	for i := range layers {
		m.layers = append(m.layers, m.readLayer(r, fmt.Sprintf("blk.%d.", i), dim, ffn, (i+1)%interval == 0))
	}
	return m, r.err
}

func (m *Model) readLayer(r *reader, at string, dim, ffn int, isFull bool) layer {
	l := layer{
		attnNorm: r.readVector(at+"attn_norm.weight", dim),
		ffnNorm:  r.readVector(at+"post_attention_norm.weight", dim),
		gate:     r.readMatrix(at+"ffn_gate.weight", ffn, dim),
		up:       r.readMatrix(at+"ffn_up.weight", ffn, dim),
		down:     r.readMatrix(at+"ffn_down.weight", dim, ffn),
	}
	if isFull {
		l.full = m.readFull(r, at, dim)
	} else {
		l.linear = m.readLinear(r, at, dim)
	}
	return l
}

func (m *Model) readFull(r *reader, at string, dim int) *full {
	query, kv := m.heads*m.headSize, m.kvHeads*m.headSize
	return &full{
		wq:    r.readMatrix(at+"attn_q.weight", 2*query, dim),
		wk:    r.readMatrix(at+"attn_k.weight", kv, dim),
		wv:    r.readMatrix(at+"attn_v.weight", kv, dim),
		qNorm: r.readVector(at+"attn_q_norm.weight", m.headSize),
		kNorm: r.readVector(at+"attn_k_norm.weight", m.headSize),
		wo:    r.readMatrix(at+"attn_output.weight", dim, query),
	}
}

func (m *Model) readLinear(r *reader, at string, dim int) *linear {
	values := m.valueHeads * m.valueSize
	channels := 2*m.keyHeads*m.keySize + values
	return &linear{
		qkv:   r.readMatrix(at+"attn_qkv.weight", channels, dim),
		z:     r.readMatrix(at+"attn_gate.weight", values, dim),
		conv:  r.readMatrix(at+"ssm_conv1d.weight", channels, m.kernel),
		alpha: r.readMatrix(at+"ssm_alpha.weight", m.valueHeads, dim),
		beta:  r.readMatrix(at+"ssm_beta.weight", m.valueHeads, dim),
		a:     r.readVector(at+"ssm_a", m.valueHeads),
		dt:    r.readVector(at+"ssm_dt.bias", m.valueHeads),
		norm:  r.readVector(at+"ssm_norm.weight", m.valueSize),
		out:   r.readMatrix(at+"ssm_out.weight", dim, values),
	}
}

// reader reads values of a file and keeps the first error.
type reader struct {
	f   *gguf.File
	err error
}

func (r *reader) keepFirstError(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) readInt(key string) int {
	n, err := r.f.Int("qwen35." + key)
	if err == nil && (n < 1 || n > 1<<20) {
		err = fmt.Errorf("qwen35.%s: %d", key, n)
	}
	r.keepFirstError(err)
	return int(n)
}

func (r *reader) readFloat(key string) float64 {
	x, err := r.f.Float("qwen35." + key)
	r.keepFirstError(err)
	return x
}

// anyNumber of rows is right.
const anyNumber = 0

// readMatrix reads a tensor as rows of a width.
func (r *reader) readMatrix(name string, rows, width int) matrix {
	t, ok := r.f.Tensor(name)
	if !ok || t.Shape[0] != width || rows != anyNumber && t.Elems() != rows*width {
		r.keepFirstError(fmt.Errorf("tensor %q: shape %v, expected %d rows of %d", name, t.Shape, rows, width))
		return nil
	}
	all := make([]float32, t.Elems())
	t.Type.Dequantize(all, t.Data)
	var m matrix
	for ; len(all) > 0; all = all[width:] {
		row := make([]float64, width)
		for i := range row {
			row[i] = float64(all[i])
		}
		m = append(m, row)
	}
	return m
}

func (r *reader) readVector(name string, n int) []float64 {
	if m := r.readMatrix(name, 1, n); m != nil {
		return m[0]
	}
	return nil
}
