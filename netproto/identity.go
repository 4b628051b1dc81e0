package netproto

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest parses what [Digest.String] writes. It ignores colons between bytes, which other programs print in
// fingerprints.
func ParseDigest(s string) (d Digest, err error) {
	plain := make([]byte, 0, 2*len(d))
	for i := range len(s) {
		if s[i] != ':' {
			plain = append(plain, s[i])
		}
	}
	if len(plain) != 2*len(d) {
		return d, fmt.Errorf("fingerprint %q: %d hexadecimal digits instead of %d", s, len(plain), 2*len(d))
	}
	if _, err := hex.Decode(d[:], plain); err != nil {
		return Digest{}, fmt.Errorf("fingerprint %q: %w", s, err)
	}
	return d, nil
}

// Identity describes the meaning of a model's tokens and its chat format.
type Identity struct {
	Tokenizer Digest // of vocabulary and merges
	Vocab     int    // ids of the tokenizer; a model's embedding may have more rows
	// of the output of the chat template for ordinary chats, not of its text, so that equivalent templates agree. Zero
	// without a template
	Template Digest
}

// Compare compares the identity of a large model with that of a small one. The error is [WrongTokenizer] if ids mean
// different tokens: the models cannot work together. If only the templates differ, they can: the small model's template
// writes the prompt, and the large model reads a chat format that it was not trained on. A zero digest of the large
// model is not compared, nor is a missing template of the small one.
func (id Identity) Compare(small Identity) (otherTemplate bool, err error) {
	none := Digest{}
	if id.Tokenizer != none && id.Tokenizer != small.Tokenizer || id.Vocab != small.Vocab {
		return false, WrongTokenizer
	}
	return id.Template != none && small.Template != none && id.Template != small.Template, nil
}

func (id Identity) appendTo(b []byte) []byte {
	b = append(b, id.Tokenizer[:]...)
	b = appendUvarint(b, id.Vocab)
	return append(b, id.Template[:]...)
}

func (p *parser) readIdentity() (id Identity) {
	copy(id.Tokenizer[:], p.readBytes("tokenizer", len(id.Tokenizer)))
	id.Vocab = int(p.readUvarint("vocab", MaxVocab))
	copy(id.Template[:], p.readBytes("template", len(id.Template)))
	return id
}

// MaxVocab is the maximum number of ids of a tokenizer.
const MaxVocab = 1 << 24
