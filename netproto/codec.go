package netproto

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Coding is an encoding of token ids as bytes.
type Coding uint8

// The codings. The sender chooses the shortest.
const (
	Packed  Coding = iota // ⌈log₂ vocab⌉ bits per id
	Zstd                  // a zstd frame without its magic number, with the base as raw dictionary
	Trained               // the same, with the dictionary that Hello and Welcome chose
	codings
)

// String returns the name of a coding.
func (c Coding) String() string {
	return [...]string{"packed", "zstd", "trained", "unknown"}[min(c, codings)]
}

// Below this number of packed bytes a coding is not tried: it would not be shorter (see TestCodingSizes), or the gain
// would not be worth its cost. A raw dictionary needs its own encoder, 0.7 MB and 0.2 ms; the encoder of a trained one
// exists already.
const (
	zstdFrom    = 64
	trainedFrom = 16
)

const (
	window = 4096               // tokens of the base used as dictionary
	magic  = "\x28\xb5\x2f\xfd" // of a zstd frame: constant, so it is not sent
)

// Codec encodes and decodes deltas for one vocabulary. It is safe for concurrent use.
type Codec struct {
	vocab int
	enc   *zstd.Encoder // with a dictionary; nil without
	dec   *zstd.Decoder
}

// NewCodec returns a codec for a vocabulary of 1 to [MaxVocab] ids. The zero dictionary means none.
func NewCodec(vocab int, dict Dictionary) (*Codec, error) {
	if vocab < 1 || vocab > MaxVocab {
		return nil, fmt.Errorf("codec: vocabulary of %d: %w", vocab, ErrValue)
	}
	c := &Codec{vocab: vocab}
	if dict.ID == 0 {
		return c, nil
	}
	enc, err := newEncoder(zstd.SpeedBetterCompression, zstd.WithEncoderDict(dict.Bytes))
	if err != nil {
		return nil, fmt.Errorf("codec: dictionary %d: %w", dict.ID, err)
	}
	dec, err := newDecoder(MaxMessage, zstd.WithDecoderDicts(dict.Bytes))
	if err != nil {
		return nil, fmt.Errorf("codec: dictionary %d: %w", dict.ID, err)
	}
	c.enc, c.dec = enc, dec
	return c, nil
}

// Close releases the codec's resources.
func (c *Codec) Close() {
	if c.dec != nil {
		c.dec.Close()
	}
}

// Encode encodes the ids that follow base. An id outside the vocabulary is an error.
func (c *Codec) Encode(base, ids []int32) (Delta, error) {
	for _, id := range ids {
		if id < 0 || int(id) >= c.vocab {
			return Delta{}, fmt.Errorf("encode: id %d in a vocabulary of %d: %w", id, c.vocab, ErrValue)
		}
	}
	best := Delta{Count: len(ids), Coding: Packed, Bytes: packIDs(nil, ids, idBits(c.vocab))}
	packed := len(best.Bytes)
	for _, coding := range []Coding{Zstd, Trained} {
		if packed < trainedFrom || coding == Zstd && packed < zstdFrom {
			continue
		}
		b, err := c.compressIDs(coding, base, ids)
		if err != nil {
			return Delta{}, fmt.Errorf("encode: %s: %w", coding, err)
		}
		if b != nil && len(b) < len(best.Bytes) {
			best.Coding, best.Bytes = coding, b
		}
	}
	return best, nil
}

// compressIDs returns nil if the coding has no dictionary.
func (c *Codec) compressIDs(coding Coding, base, ids []int32) ([]byte, error) {
	enc := c.enc
	if coding == Zstd {
		raw, err := newEncoder(zstd.SpeedFastest, zstd.WithEncoderDictRaw(0, c.rawDictionary(base)))
		if err != nil {
			return nil, err
		}
		enc = raw
	}
	if enc == nil {
		return nil, nil
	}
	frame := enc.EncodeAll(appendFixedIDs(nil, ids, idBytes(c.vocab)), nil)
	b, found := bytes.CutPrefix(frame, []byte(magic))
	if !found {
		return nil, fmt.Errorf("a frame without magic number: %w", ErrValue)
	}
	return b, nil
}

// Decode decodes the ids that follow base. The caller must have checked d.Count against its limits: Decode decompresses
// no more than that.
func (c *Codec) Decode(base []int32, d Delta) ([]int32, error) {
	ids, err := c.decodeDelta(base, d)
	if err != nil {
		return nil, fmt.Errorf("decode: %s: %w", d.Coding, err)
	}
	return ids, nil
}

func (c *Codec) decodeDelta(base []int32, d Delta) ([]int32, error) {
	size := d.Count * idBytes(c.vocab)
	switch {
	case d.Count < 0 || d.Count > MaxPosition:
		return nil, fmt.Errorf("%d ids: %w", d.Count, ErrValue)
	case d.Coding == Packed:
		return unpackIDs(d.Bytes, d.Count, idBits(c.vocab), c.vocab)
	case d.Coding == Zstd:
		dec, err := newDecoder(size, zstd.WithDecoderDictRaw(0, c.rawDictionary(base)))
		if err != nil {
			return nil, err
		}
		defer dec.Close()
		return c.decompressIDs(dec, d, size)
	case d.Coding == Trained && c.dec != nil:
		return c.decompressIDs(c.dec, d, size)
	}
	return nil, fmt.Errorf("no such coding here: %w", ErrValue)
}

// decompressIDs fills a buffer of exactly size bytes and no more.
func (c *Codec) decompressIDs(dec *zstd.Decoder, d Delta, size int) ([]int32, error) {
	b, err := dec.DecodeAll(append([]byte(magic), d.Bytes...), make([]byte, 0, size))
	if err != nil {
		return nil, err
	}
	return parseFixedIDs(b, d.Count, idBytes(c.vocab), c.vocab)
}

func (c *Codec) rawDictionary(base []int32) []byte {
	return appendFixedIDs(nil, base[max(0, len(base)-window):], idBytes(c.vocab))
}

func newEncoder(level zstd.EncoderLevel, dict zstd.EOption) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, dict, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<15),
		zstd.WithEncoderLevel(level))
}

func newDecoder(size int, dict zstd.DOption) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, dict, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(size, zstd.MinWindowSize))), zstd.WithDecodeAllCapLimit(true))
}
