// Package transformer is the language models Qwen2, Qwen2.5, Qwen3 and Qwen3.5 (dense, text): configuration and weights
// from a GGUF file, the forward pass, and the KV cache with the slots of a draft tree.
//
// Architectures: "Qwen2 Technical Report", arXiv 2407.10671; "Qwen3 Technical Report", arXiv 2505.09388; "Gated Delta
// Networks", arXiv 2412.06464, for the recurrent layers of Qwen3.5. This package reads models without experts. Names of
// metadata and tensors: the GGUF conventions for architectures "qwen2", "qwen3" and "qwen35". [Arch] has all in which
// they differ.
package transformer

import (
	"errors"
	"fmt"
	"math"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Config is the shape of a model. Every value comes from the file.
type Config struct {
	Arch     Arch
	Layers   int     // transformer blocks, without those of multi-token prediction
	Dim      int     // D, width of the residual stream
	FFN      int     // F, width inside the feed-forward blocks
	Heads    int     // query heads
	KVHeads  int     // key and value heads; divides Heads
	HeadSize int     // Dh, even
	Context  int     // longest context the model was made for, in tokens
	Vocab    int     // rows of the embedding
	Rotated  int     // elements of a head that are rotated, even; all but in Qwen3.5
	RopeBase float64 // base of the rotary frequencies
	Epsilon  float32 // of RMSNorm

	Recurrent []bool              // by layer; nil if all have attention
	Delta     backend.DeltaConfig // of the recurrent layers
	Extra     int                 // blocks of multi-token prediction after the layers, which are not used
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
	m := metadataReader{f: f, prefix: arch.Name + "."}
	m.refuseScaling()
	c := Config{
		Arch:     arch,
		Layers:   m.readCount("block_count", maxLayers),
		Dim:      m.readCount("embedding_length", maxWidth),
		FFN:      m.readCount("feed_forward_length", maxWidth),
		Heads:    m.readCount("attention.head_count", maxHeads),
		Context:  m.readCount("context_length", math.MaxInt32),
		Epsilon:  float32(m.readPositive("attention.layer_norm_rms_epsilon")),
		RopeBase: m.readPositiveOr("rope.freq_base", 10000),
	}
	c.KVHeads = m.readCountOr("attention.head_count_kv", c.Heads, maxHeads)
	if m.err == nil && arch.Recurrent {
		m.readRecurrent(&c)
	}
	if m.err != nil {
		return Config{}, m.err
	}
	return c, c.deriveShape(f, m)
}

// deriveShape sets HeadSize and Vocab and checks the shape as a whole.
func (c *Config) deriveShape(f *gguf.File, m metadataReader) error {
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%s: %d query heads are no multiple of %d key and value heads",
			m.keyName("attention.head_count_kv"), c.Heads, c.KVHeads)
	}
	c.HeadSize = m.readCountOr("attention.key_length", c.Dim/c.Heads, maxWidth)
	value := m.readCountOr("attention.value_length", c.HeadSize, maxWidth)
	c.Rotated = m.readCountOr("rope.dimension_count", c.HeadSize, maxWidth)
	switch {
	case m.err != nil:
		return m.err
	case !m.hasKey("attention.key_length") && c.Dim%c.Heads != 0:
		return fmt.Errorf("%s: width %d is no multiple of %d heads", m.keyName("attention.head_count"), c.Dim, c.Heads)
	case c.HeadSize%2 != 0:
		return fmt.Errorf("%s: head size %d is odd, rotation needs pairs",
			m.keyName("attention.head_count"), c.HeadSize)
	case value != c.HeadSize:
		return fmt.Errorf("%s: %d differs from the key length %d",
			m.keyName("attention.value_length"), value, c.HeadSize)
	case c.Rotated != c.HeadSize && !c.Arch.Recurrent:
		return fmt.Errorf("%s: %d differs from the head size %d",
			m.keyName("rope.dimension_count"), c.Rotated, c.HeadSize)
	case c.Rotated%2 != 0 || c.Rotated > c.HeadSize:
		return fmt.Errorf("%s: %d of %d elements of a head: an even number is possible, at most all",
			m.keyName("rope.dimension_count"), c.Rotated, c.HeadSize)
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
func (m *metadataReader) refuseScaling() {
	kind, err := m.f.String(m.keyName("rope.scaling.type"))
	switch {
	case errors.Is(err, gguf.ErrAbsent):
	case err != nil:
		m.keepFirstError(err)
	case kind != "none":
		m.keepFirstError(fmt.Errorf("%s: %s is not supported; use a file without rope scaling",
			m.keyName("rope.scaling.type"), errs.Quote(kind)))
	}
}

// metadataReader reads values of the architecture and keeps the first error.
type metadataReader struct {
	f      *gguf.File
	prefix string // of its keys
	err    error
}

func (m *metadataReader) keyName(name string) string { return m.prefix + name }

func (m *metadataReader) keepFirstError(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *metadataReader) hasKey(name string) bool {
	_, err := m.f.Int(m.keyName(name))
	return !errors.Is(err, gguf.ErrAbsent)
}

// readCount reads an integer from 1 to limit.
func (m *metadataReader) readCount(name string, limit int64) int {
	n, err := m.f.Int(m.keyName(name))
	if err != nil {
		m.keepFirstError(err)
	} else if n < 1 || n > limit {
		m.keepFirstError(fmt.Errorf("%s: %d is not within 1 to %d", m.keyName(name), n, limit))
	}
	return int(n)
}

func (m *metadataReader) readCountOr(name string, otherwise int, limit int64) int {
	if !m.hasKey(name) {
		return otherwise
	}
	return m.readCount(name, limit)
}

// readPositive reads a finite number above zero.
func (m *metadataReader) readPositive(name string) float64 {
	x, err := m.f.Float(m.keyName(name))
	if err != nil {
		m.keepFirstError(err)
	} else if !(x > 0) || math.IsInf(x, 1) {
		m.keepFirstError(fmt.Errorf("%s: %v is not a positive number", m.keyName(name), x))
	}
	return x
}

func (m *metadataReader) readPositiveOr(name string, otherwise float64) float64 {
	if _, err := m.f.Float(m.keyName(name)); errors.Is(err, gguf.ErrAbsent) {
		return otherwise
	}
	return m.readPositive(name)
}
