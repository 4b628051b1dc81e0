// Package synth writes Qwen2, Qwen3 and Qwen3.5 models with random weights: complete files of any shape and type, for
// tests and for measuring speed without a real model. The same specification gives the same bytes. The output of such a
// model is meaningless.
package synth

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// Spec is the shape of a model, its types and its seed.
type Spec struct {
	Name     string
	Qwen3    bool   // norms of the heads of q and k in place of biases
	Linear   Linear // of a Qwen3.5
	Layers   int
	Dim      int // width of the residual stream
	FFN      int // width inside the feed-forward blocks
	Heads    int
	KVHeads  int
	HeadSize int // 0: Dim/Heads
	Context  int
	Vocab    int // tokens; at least 256 bytes, the 3 special ones, and with Thinks the 2 marks
	RopeBase float32
	Epsilon  float32
	Tied     bool   // the embedding is also the output matrix
	Thinks   bool   // the vocabulary has marks for thoughts, and the template lets the model think or not
	Recipe   Recipe // types of the tensors
	Seed     uint64
}

// Tiny is a model for tests: it has all parts, and a pass takes well under a millisecond.
func Tiny(r Recipe, seed uint64) Spec {
	return Spec{
		Name: "tiny", Layers: 2, Dim: 256, FFN: 512, Heads: 4, KVHeads: 2, Context: 512, Vocab: 512,
		RopeBase: 1e6, Epsilon: 1e-6, Tied: true, Recipe: r, Seed: seed,
	}
}

// Half is a model of the shape of Qwen2.5-0.5B: 494 million weights.
func Half(r Recipe, seed uint64) Spec {
	return Spec{
		Name: "0.5b", Layers: 24, Dim: 896, FFN: 4864, Heads: 14, KVHeads: 2, Context: 32768, Vocab: 151936,
		RopeBase: 1e6, Epsilon: 1e-6, Tied: true, Recipe: r, Seed: seed,
	}
}

// Shape returns the shape with a name: "tiny" as [Tiny], "tiny3" as [Tiny3], "tiny35" as [Tiny35], "0.5b" as [Half];
// "1.5b" as the Qwen2.5, "0.6b", "1.7b" and "4b" as the Qwen3, "0.8b" and "2b" as the Qwen3.5 of that size.
func Shape(name string, r Recipe, seed uint64) (Spec, error) {
	larger := Half(r, seed)
	larger.Name, larger.Layers, larger.Dim, larger.FFN, larger.Heads = "1.5b", 28, 1536, 8960, 12
	for _, s := range []Spec{Tiny(r, seed), Tiny3(r, seed), Tiny35(r, seed), Half(r, seed), larger,
		denseQwen3("0.6b", 28, 1024, 3072, 16), denseQwen3("1.7b", 28, 2048, 6144, 16),
		denseQwen3("4b", 36, 2560, 9728, 32), smallQwen35("0.8b", 1024, 3584), smallQwen35("2b", 2048, 6144)} {
		if s.Name == name {
			s.Recipe, s.Seed = r, seed
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf(
		"%.40q is not a shape: choose tiny, tiny3, tiny35, 0.5b, 0.6b, 0.8b, 1.5b, 1.7b, 2b or 4b", name)
}

// Tiny3 is a model for tests like [Tiny], as a Qwen3: its queries are twice as wide as the model.
func Tiny3(r Recipe, seed uint64) Spec {
	s := Tiny(r, seed)
	s.Name, s.Qwen3, s.HeadSize = "tiny3", true, 128
	return s
}

// denseQwen3 is a dense Qwen3 with 8 key and value heads of 128, by the config.json of its release.
func denseQwen3(name string, layers, dim, ffn, heads int) Spec {
	return Spec{
		Name: name, Qwen3: true, Layers: layers, Dim: dim, FFN: ffn, Heads: heads, KVHeads: 8, HeadSize: 128,
		Context: 40960, Vocab: 151936, RopeBase: 1e6, Epsilon: 1e-6, Tied: true,
	}
}

func (s Spec) headSize() int {
	if s.HeadSize > 0 {
		return s.HeadSize
	}
	return s.Dim / s.Heads
}

// arch returns the name of the architecture in a file.
func (s Spec) arch() string {
	switch {
	case s.Linear != Linear{}:
		return "qwen35"
	case s.Qwen3:
		return "qwen3"
	}
	return "qwen2"
}

// tensor is one tensor to write: normal deviates around mean, or the negative exponentials of such ones.
type tensor struct {
	name      string
	t         gguf.Type
	shape     []int
	mean, std float64
	negExp    bool
	repeated  int // number of first rows that as many rows after them repeat, except for every fourth element or block
}

func (t tensor) elementCount() int64 {
	n := int64(1)
	for _, d := range t.shape {
		n *= int64(d)
	}
	return n
}

// Write writes the model. progress, if set, is called with the number of weights written so far, and of all.
func (s Spec) Write(out io.Writer, progress func(done, total int64)) error {
	if err := s.checkShape(); err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, 1<<20)
	w := gguf.NewWriter(buffered)
	s.putShape(w)
	s.putVocabulary(w)
	all := s.listTensors()
	total, done := int64(0), int64(0)
	for _, t := range all {
		w.Declare(t.name, t.t, t.shape...)
		total += t.elementCount()
	}
	for _, t := range all {
		if err := s.writeTensor(w, t); err != nil {
			return fmt.Errorf("write %s: %w", t.name, err)
		}
		if done += t.elementCount(); progress != nil {
			progress(done, total)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

func (s Spec) checkShape() error {
	least := 256 + len(specials)
	if s.Thinks {
		least += len(marks)
	}
	switch {
	case s.Layers < 1 || s.Dim < 1 || s.FFN < 1 || s.Heads < 1 || s.KVHeads < 1 || s.Context < 1:
		return fmt.Errorf("synth: every size must be positive: %+v", s)
	case s.HeadSize == 0 && s.Dim%s.Heads != 0 || s.headSize()%2 != 0 || s.Heads%s.KVHeads != 0:
		return fmt.Errorf("synth: width %d, %d heads, %d key and value heads do not fit together", s.Dim,
			s.Heads, s.KVHeads)
	case s.Vocab < least:
		return fmt.Errorf("synth: a vocabulary of %d has no room for the bytes and the special tokens", s.Vocab)
	}
	return s.checkLinear()
}

func (s Spec) putShape(w *gguf.Writer) {
	arch := s.arch()
	gguf.Put(w, "general.architecture", arch)
	gguf.Put(w, "general.name", "random weights, "+s.Name)
	gguf.Put(w, arch+".block_count", uint32(s.Layers+s.Linear.Predictors))
	gguf.Put(w, arch+".context_length", uint32(s.Context))
	gguf.Put(w, arch+".embedding_length", uint32(s.Dim))
	gguf.Put(w, arch+".feed_forward_length", uint32(s.FFN))
	gguf.Put(w, arch+".attention.head_count", uint32(s.Heads))
	gguf.Put(w, arch+".attention.head_count_kv", uint32(s.KVHeads))
	gguf.Put(w, arch+".rope.freq_base", s.RopeBase)
	gguf.Put(w, arch+".attention.layer_norm_rms_epsilon", s.Epsilon)
	if s.HeadSize > 0 {
		gguf.Put(w, arch+".attention.key_length", uint32(s.HeadSize))
		gguf.Put(w, arch+".attention.value_length", uint32(s.HeadSize))
	}
	if arch == "qwen35" {
		s.putLinear(w)
	}
}

func (s Spec) listTensors() []tensor {
	l := &tensorList{s: s}
	l.addMatrix("token_embd", s.Dim, s.Vocab)
	for l.layer = range s.Layers {
		if s.isLinear(l.layer) {
			l.addLinear()
		} else {
			l.addAttention()
		}
		l.addFeedForward()
	}
	for l.layer = s.Layers; l.layer < s.Layers+s.Linear.Predictors; l.layer++ {
		l.addAttention()
		l.addFeedForward()
		l.addPredictor()
	}
	l.addVector("output_norm.weight", s.Dim, 1, 0.1)
	if !s.Tied {
		l.addMatrix("output", s.Dim, s.Vocab)
	}
	return l.all
}

// tensorList collects the tensors of a file.
type tensorList struct {
	s     Spec
	layer int
	all   []tensor
}

// nameOf returns the name of a tensor of the layer.
func (l *tensorList) nameOf(name string) string { return fmt.Sprintf("blk.%d.%s", l.layer, name) }

func (l *tensorList) addMatrix(name string, in, out int) {
	t := l.s.Recipe.tensorType(name, l.layer, l.s.Layers, in)
	std := 1 / math.Sqrt(float64(in))
	l.all = append(l.all, tensor{name: name + ".weight", t: t, shape: []int{in, out}, std: std})
}

func (l *tensorList) addVector(name string, n int, mean, std float64) {
	l.all = append(l.all, tensor{name: name, t: gguf.F32, shape: []int{n}, mean: mean, std: std})
}

func (l *tensorList) addAttention() {
	s := l.s
	query, kv := s.Heads*s.headSize(), s.KVHeads*s.headSize()
	outputs := []int{query, kv, kv}
	if s.arch() == "qwen35" {
		outputs[0] *= 2 // q and the gate of each head
	}
	l.addVector(l.nameOf("attn_norm.weight"), s.Dim, 1, 0.1)
	for i, name := range []string{"attn_q", "attn_k", "attn_v"} {
		l.addMatrix(l.nameOf(name), s.Dim, outputs[i])
		if s.arch() == "qwen2" {
			l.addVector(l.nameOf(name)+".bias", outputs[i], 0, 0.3)
		}
	}
	if s.arch() != "qwen2" {
		l.addVector(l.nameOf("attn_q_norm.weight"), s.headSize(), 1, 0.3)
		l.addVector(l.nameOf("attn_k_norm.weight"), s.headSize(), 1, 0.3)
	}
	l.addMatrix(l.nameOf("attn_output"), query, s.Dim)
}

func (l *tensorList) addFeedForward() {
	norm := "ffn_norm.weight"
	if l.s.arch() == "qwen35" {
		norm = "post_attention_norm.weight"
	}
	l.addVector(l.nameOf(norm), l.s.Dim, 1, 0.1)
	l.addMatrix(l.nameOf("ffn_gate"), l.s.Dim, l.s.FFN)
	l.addMatrix(l.nameOf("ffn_up"), l.s.Dim, l.s.FFN)
	l.addMatrix(l.nameOf("ffn_down"), l.s.FFN, l.s.Dim)
}

// writeTensor writes one tensor row by row. Its numbers depend only on the seed and its name, so that files of several
// types have the same weights.
func (s Spec) writeTensor(w *gguf.Writer, t tensor) error {
	h := fnv.New64a()
	h.Write([]byte(t.name))
	r := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	cols := t.shape[0]
	if !canQuantize(t.t) {
		_, err := w.Write(randomBlocks(r, t))
		return err
	}
	row := make([]float32, cols)
	var first [][]float32
	for n := range int(t.elementCount()) / cols {
		for i := range row {
			x := t.mean + float64(t.std*r.NormFloat64()) // not one fma: the same on all CPUs
			if t.negExp {
				x = -math.Exp(x)
			}
			if row[i] = float32(x); n >= t.repeated && n < 2*t.repeated && i%4 != 3 {
				row[i] = first[n-t.repeated][i]
			}
		}
		if n < t.repeated {
			first = append(first, slices.Clone(row))
		}
		if err := w.WriteFloats(row); err != nil {
			return err
		}
	}
	return nil
}
