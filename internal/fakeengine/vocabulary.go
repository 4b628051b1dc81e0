package fakeengine

import (
	"bytes"
	"slices"
)

// Vocabulary is a list of tokens with a tokenizer.
type Vocabulary struct {
	pieces  [][]byte
	special int32                     // tokens from here on are special
	encode  func(text string) []int32 // nil: repeatedly take the longest matching token
}

// VocabularyOf returns the vocabulary of a model: the bytes of its tokens, the last of which are special, and its
// tokenizer.
func VocabularyOf(pieces [][]byte, special int32, encode func(text string) []int32) *Vocabulary {
	return &Vocabulary{pieces, special, encode}
}

// NewVocabulary returns a vocabulary of 300 tokens: all bytes, some words, and two special tokens at its end.
func NewVocabulary() *Vocabulary {
	v := &Vocabulary{}
	for i := range 256 {
		v.pieces = append(v.pieces, []byte{byte(i)})
	}
	for _, word := range []string{" the", " a", "Hello", " world", "don", "'t", "ing", "  ", "\n\n", "你", "好", "é",
		"ab", "abc"} {
		v.pieces = append(v.pieces, []byte(word))
	}
	for i := range 28 {
		v.pieces = append(v.pieces, []byte{' ', 'w', byte('a' + i%26), byte('a' + i/26)})
	}
	v.pieces = append(v.pieces, []byte("<|endoftext|>"), []byte("<|im_end|>"))
	v.special = int32(len(v.pieces) - 2)
	return v
}

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return len(v.pieces) }

// Special returns the id of the first special token.
func (v *Vocabulary) Special() int32 { return v.special }

// Piece returns the bytes of a token.
func (v *Vocabulary) Piece(id int32) []byte { return v.pieces[id] }

// Encode returns the tokens of a text.
func (v *Vocabulary) Encode(text string) (ids []int32) {
	if v.encode != nil {
		return v.encode(text)
	}
	for b := []byte(text); len(b) > 0; {
		best := int32(b[0])
		for id, p := range v.pieces {
			if len(p) > len(v.pieces[best]) && bytes.HasPrefix(b, p) {
				best = int32(id)
			}
		}
		ids = append(ids, best)
		b = b[len(v.pieces[best]):]
	}
	return ids
}

// Swapped returns the same vocabulary with two tokens exchanged.
func (v *Vocabulary) Swapped(a, b int32) *Vocabulary {
	w := &Vocabulary{slices.Clone(v.pieces), v.special, v.encode}
	w.pieces[a], w.pieces[b] = w.pieces[b], w.pieces[a]
	return w
}

// decodeText returns the text of tokens, with U+FFFD for each invalid byte.
func (v *Vocabulary) decodeText(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, v.pieces[id]...)
	}
	return string([]rune(string(b)))
}
