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

// ParseDigest reads what [Digest.String] writes; colons between bytes, as other programs print fingerprints, are left
// out.
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

// Identity says what a model's tokens mean, and how it writes a chat.
type Identity struct {
	Tokenizer Digest // of vocabulary and merges
	Vocab     int    // ids that the tokenizer has; a model's table may have more rows than that
	// of what the chat template writes for ordinary chats, not of its text: templates with the same effect agree. Zero
	// where there is no template. Before [TemplateVersion] it was of the text, and is not compared
	Template Digest
}

// Compare compares the identity of a large model with that of a small one. The error is [WrongTokenizer] if ids mean
// different tokens: the models cannot work together. If only the templates write chats differently, they can: the small
// model's template writes the prompt, and the large model reads a form of chat that it was not trained on. A digest
// that the large model does not state is not compared, nor is a template that the small one does not have.
func (id Identity) Compare(small Identity) (otherTemplate bool, err error) {
	none := Digest{}
	if id.Tokenizer != none && id.Tokenizer != small.Tokenizer || id.Vocab != small.Vocab {
		return false, WrongTokenizer
	}
	return id.Template != none && small.Template != none && id.Template != small.Template, nil
}

func (id Identity) append(b []byte) []byte {
	b = append(b, id.Tokenizer[:]...)
	b = appendUvarint(b, id.Vocab)
	return append(b, id.Template[:]...)
}

func (p *parser) identity() (id Identity) {
	copy(id.Tokenizer[:], p.bytes("tokenizer", len(id.Tokenizer)))
	id.Vocab = int(p.uvarint("vocab", MaxVocab))
	copy(id.Template[:], p.bytes("template", len(id.Template)))
	return id
}

// MaxVocab is the most ids that a tokenizer may have.
const MaxVocab = 1 << 24
