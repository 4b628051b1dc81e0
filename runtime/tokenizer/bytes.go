package tokenizer

import "strconv"

// Text returns how the file spells token id, for people to read: "Ġthe" for " the", and control tokens too. It is empty
// for an id outside the vocabulary.
func (t *Tokenizer) Text(id int32) string {
	if id < 0 || int(id) >= t.vocab.size() {
		return ""
	}
	return string(t.vocab.spelling(id))
}

// Bytes returns what token id stands for in a text, as a new slice: often a part of a character only, so that it takes
// a [Decoder] to make text of several. Control and unused tokens, and ids outside the vocabulary, stand for nothing.
func (t *Tokenizer) Bytes(id int32) []byte { return t.appendBytes(nil, id) }

func (t *Tokenizer) appendBytes(dst []byte, id int32) []byte {
	switch v := &t.vocab; {
	case v.has(id, control|unknown):
		return dst
	case v.has(id, normal):
		return appendUnspelled(dst, v.spelling(id))
	case v.has(id, userDefined):
		return append(dst, v.spelling(id)...)
	case v.has(id, rawByte):
		return appendRawByte(dst, string(v.spelling(id)))
	}
	return dst
}

// appendRawByte appends the byte that is spelled <0xNN>, or the spelling if it is another.
func appendRawByte(dst []byte, text string) []byte {
	if len(text) == 6 && text[:3] == "<0x" && text[5] == '>' {
		if b, err := strconv.ParseUint(text[3:5], 16, 8); err == nil {
			return append(dst, byte(b))
		}
	}
	return append(dst, text...)
}

// Decode returns the text of ids. Bytes that are not UTF-8 become U+FFFD, as with a [Decoder]. Valid UTF-8 comes back as
// it was encoded: Decode(Encode(text, false)) is text.
func (t *Tokenizer) Decode(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = t.appendBytes(b, id)
	}
	out, rest := appendValid(make([]byte, 0, len(b)), b)
	if len(rest) > 0 {
		out = append(out, replacement...)
	}
	return string(out)
}
