// Package qwen is the language models Qwen2, Qwen2.5 and Qwen3 (dense): configuration and weights from a GGUF file, the
// forward pass, and the KV cache with the slots of a draft tree.
//
// Architectures: "Qwen2 Technical Report", arXiv 2407.10671; "Qwen3 Technical Report", arXiv 2505.09388, of which this
// package reads models without experts. Names of metadata and tensors: the GGUF conventions for architectures "qwen2"
// and "qwen3". [Arch] has all in which they differ.
package qwen

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
)

// Config is the shape of a model. Every value comes from the file.
type Config struct {
	Arch     Arch
	Layers   int     // transformer blocks
	Dim      int     // D, width of the residual stream
	FFN      int     // F, width inside the feed-forward blocks
	Heads    int     // query heads
	KVHeads  int     // key and value heads; divides Heads
	HeadSize int     // Dh, even
	Context  int     // longest context the model was made for, in tokens
	Vocab    int     // rows of the embedding
	RopeBase float64 // base of the rotary frequencies
	Epsilon  float32 // of RMSNorm
}

// Limits that keep every product of two shape values within an int32. No real model is near them.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxHeads  = 1 << 12
)

// ReadConfig reads the shape from the metadata of f and checks that its parts are consistent. The size of the
// vocabulary is that of the embedding tensor.
func ReadConfig(f *gguf.File) (Config, error) {
	arch, err := readArch(f)
	if err != nil {
		return Config{}, err
	}
	m := metadata{f: f, prefix: arch.Name + "."}
	m.refuseScaling()
	c := Config{
		Arch:     arch,
		Layers:   m.count("block_count", maxLayers),
		Dim:      m.count("embedding_length", maxWidth),
		FFN:      m.count("feed_forward_length", maxWidth),
		Heads:    m.count("attention.head_count", maxHeads),
		Context:  m.count("context_length", math.MaxInt32),
		Epsilon:  float32(m.positive("attention.layer_norm_rms_epsilon")),
		RopeBase: m.positiveOr("rope.freq_base", 10000),
	}
	c.KVHeads = m.countOr("attention.head_count_kv", c.Heads, maxHeads)
	if m.err != nil {
		return Config{}, m.err
	}
	return c, c.derive(f, m)
}

// derive sets HeadSize and Vocab and checks the shape as a whole.
func (c *Config) derive(f *gguf.File, m metadata) error {
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%s: %d query heads are no multiple of %d key and value heads",
			m.key("attention.head_count_kv"), c.Heads, c.KVHeads)
	}
	c.HeadSize = m.countOr("attention.key_length", c.Dim/c.Heads, maxWidth)
	value := m.countOr("attention.value_length", c.HeadSize, maxWidth)
	turned := m.countOr("rope.dimension_count", c.HeadSize, maxWidth)
	switch {
	case m.err != nil:
		return m.err
	case !m.has("attention.key_length") && c.Dim%c.Heads != 0:
		return fmt.Errorf("%s: width %d is no multiple of %d heads", m.key("attention.head_count"), c.Dim, c.Heads)
	case c.HeadSize%2 != 0:
		return fmt.Errorf("%s: head size %d is odd, rotation needs pairs", m.key("attention.head_count"), c.HeadSize)
	case value != c.HeadSize:
		return fmt.Errorf("%s: %d differs from the key length %d", m.key("attention.value_length"), value, c.HeadSize)
	case turned != c.HeadSize:
		return fmt.Errorf("%s: %d differs from the head size %d", m.key("rope.dimension_count"), turned, c.HeadSize)
	}
	embedding, ok := f.Tensor("token_embd.weight")
	if !ok {
		return fmt.Errorf("tensor %q: missing", "token_embd.weight")
	}
	if len(embedding.Shape) != 2 || embedding.Shape[0] != c.Dim {
		return fmt.Errorf("tensor %q: shape %v, expected [%d vocabulary]", embedding.Name, embedding.Shape, c.Dim)
	}
	if embedding.Shape[1] > math.MaxInt32 {
		return fmt.Errorf("tensor %q: a vocabulary of %d", embedding.Name, embedding.Shape[1])
	}
	c.Vocab = embedding.Shape[1]
	return nil
}

// refuseScaling refuses files that require scaled positions: running them without would be silently wrong.
func (m *metadata) refuseScaling() {
	kind, err := m.f.String(m.key("rope.scaling.type"))
	switch {
	case errors.Is(err, gguf.ErrAbsent):
	case err != nil:
		m.fail(err)
	case kind != "none":
		m.fail(fmt.Errorf("%s: %s is not supported; use a file without rope scaling",
			m.key("rope.scaling.type"), errs.Quote(kind)))
	}
}

// metadata reads values of the architecture and keeps the first error.
type metadata struct {
	f      *gguf.File
	prefix string // of its keys
	err    error
}

func (m *metadata) key(name string) string { return m.prefix + name }

func (m *metadata) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *metadata) has(name string) bool {
	_, err := m.f.Int(m.key(name))
	return !errors.Is(err, gguf.ErrAbsent)
}

// count reads an integer from 1 to limit.
func (m *metadata) count(name string, limit int64) int {
	n, err := m.f.Int(m.key(name))
	if err != nil {
		m.fail(err)
	} else if n < 1 || n > limit {
		m.fail(fmt.Errorf("%s: %d is not within 1 to %d", m.key(name), n, limit))
	}
	return int(n)
}

// countOr is count, or otherwise if the key is absent.
func (m *metadata) countOr(name string, otherwise int, limit int64) int {
	if !m.has(name) {
		return otherwise
	}
	return m.count(name, limit)
}

// positive reads a finite number above zero.
func (m *metadata) positive(name string) float64 {
	x, err := m.f.Float(m.key(name))
	if err != nil {
		m.fail(err)
	} else if !(x > 0) || math.IsInf(x, 1) {
		m.fail(fmt.Errorf("%s: %v is not a positive number", m.key(name), x))
	}
	return x
}

// positiveOr is positive, or otherwise if the key is absent.
func (m *metadata) positiveOr(name string, otherwise float64) float64 {
	if _, err := m.f.Float(m.key(name)); errors.Is(err, gguf.ErrAbsent) {
		return otherwise
	}
	return m.positive(name)
}
