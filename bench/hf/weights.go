package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// outputName is the output matrix; a model without it uses the embedding.
const outputName = "output.weight"

// weight is a tensor with its name in the folder, and its sizes slowest-varying first, as [out, in].
type weight struct {
	name  string
	shape []int
	from  gguf.Tensor
}

// row is a line of the table of names: a tensor of GGUF, its name in transformers, its shape.
type row struct {
	from, to string
	shape    []int
}

func layerRows(c qwen.Config) []row {
	q, kv := c.Heads*c.HeadSize, c.KVHeads*c.HeadSize
	all := []row{
		{"attn_norm.weight", "input_layernorm.weight", []int{c.Dim}},
		{"attn_q.weight", "self_attn.q_proj.weight", []int{q, c.Dim}},
		{"attn_k.weight", "self_attn.k_proj.weight", []int{kv, c.Dim}},
		{"attn_v.weight", "self_attn.v_proj.weight", []int{kv, c.Dim}},
		{"attn_output.weight", "self_attn.o_proj.weight", []int{c.Dim, q}},
		{"ffn_norm.weight", "post_attention_layernorm.weight", []int{c.Dim}},
		{"ffn_gate.weight", "mlp.gate_proj.weight", []int{c.FFN, c.Dim}},
		{"ffn_up.weight", "mlp.up_proj.weight", []int{c.FFN, c.Dim}},
		{"ffn_down.weight", "mlp.down_proj.weight", []int{c.Dim, c.FFN}},
	}
	if c.Arch.Biases {
		all = append(all, row{"attn_q.bias", "self_attn.q_proj.bias", []int{q}},
			row{"attn_k.bias", "self_attn.k_proj.bias", []int{kv}},
			row{"attn_v.bias", "self_attn.v_proj.bias", []int{kv}})
	}
	if c.Arch.HeadNorms {
		all = append(all, row{"attn_q_norm.weight", "self_attn.q_norm.weight", []int{c.HeadSize}},
			row{"attn_k_norm.weight", "self_attn.k_norm.weight", []int{c.HeadSize}})
	}
	return all
}

// rows returns the tensors of a model, in the order in which they are written. Both formats pair the halves of a head
// for the rotation, so the rows of q and k keep their order.
func rows(c qwen.Config, untied bool) []row {
	all := []row{{"token_embd.weight", "model.embed_tokens.weight", []int{c.Vocab, c.Dim}}}
	for i := range c.Layers {
		for _, r := range layerRows(c) {
			all = append(all, row{fmt.Sprintf("blk.%d.%s", i, r.from),
				fmt.Sprintf("model.layers.%d.%s", i, r.to), r.shape})
		}
	}
	all = append(all, row{"output_norm.weight", "model.norm.weight", []int{c.Dim}})
	if untied {
		all = append(all, row{outputName, "lm_head.weight", []int{c.Vocab, c.Dim}})
	}
	return all
}

// findWeights finds every tensor of a model of shape c and checks its sizes. An unknown tensor is an error, since its
// effect would be lost.
func findWeights(f *gguf.File, c qwen.Config) ([]weight, error) {
	_, untied := f.Tensor(outputName)
	var found []weight
	known := map[string]bool{}
	for _, r := range rows(c, untied) {
		t, ok := f.Tensor(r.from)
		if !ok {
			return nil, fmt.Errorf("tensor %q: missing", r.from)
		}
		shape := slices.Clone(t.Shape)
		slices.Reverse(shape)
		if !slices.Equal(shape, r.shape) {
			return nil, fmt.Errorf("tensor %q: sizes %v, expected %v", r.from, shape, r.shape)
		}
		known[r.from] = true
		found = append(found, weight{r.to, shape, t})
	}
	for _, t := range f.Tensors() {
		if !known[t.Name] {
			return nil, fmt.Errorf("tensor %s: not part of a %s model", errs.Quote(t.Name), c.Arch.Title)
		}
	}
	return found, nil
}

// entry describes a tensor in the header of a safetensors file.
type entry struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // bytes after the header: begin, end
}

// writeWeights writes a safetensors file: the length of the header as u64, little-endian; the header, JSON, padded with
// blanks to a multiple of 8 bytes; the data of the tensors without gaps.
//
// Source: https://github.com/huggingface/safetensors, "Format".
func writeWeights(w io.Writer, all []weight) error {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var end int64
	for _, t := range all {
		begin := end
		end += 4 * int64(t.from.Elems())
		header[t.name] = entry{"F32", t.shape, [2]int64{begin, end}}
	}
	b, err := json.Marshal(header) // sorted by name, so that the bytes are reproducible
	if err != nil {
		return err
	}
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(b))); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, t := range all {
		if err := writeTensor(w, t.from); err != nil {
			return err
		}
	}
	return nil
}

// writeTensor dequantises t row by row, so that it needs the memory of only one row.
func writeTensor(w io.Writer, t gguf.Tensor) error {
	values := make([]float32, t.Shape[0])
	n := len(t.Data) / (t.Elems() / len(values)) // bytes of a row, which is a whole number of blocks
	b := make([]byte, 0, 4*len(values))
	for at := 0; at < len(t.Data); at += n {
		t.Type.Dequantize(values, t.Data[at:at+n])
		b = b[:0]
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
