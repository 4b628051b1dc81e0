package tokenizer

import (
	"strconv"
	"unicode/utf8"
)

// Text returns the file's spelling of token id, for display: "Ġthe" for " the"; it includes control tokens. It is empty
// for an id outside the vocabulary.
func (t *Tokenizer) Text(id int32) string {
	if id < 0 || int(id) >= t.vocab.tokenCount() {
		return ""
	}
	return string(t.vocab.tokenSpelling(id))
}

// Bytes returns the bytes of token id in a text, as a new slice. They are often only a part of a character: use a
// [Decoder] for the text of several tokens. Control and unused tokens, and ids outside the vocabulary, have no bytes.
func (t *Tokenizer) Bytes(id int32) []byte { return t.appendTokenBytes(nil, id) }

func (t *Tokenizer) appendTokenBytes(dst []byte, id int32) []byte {
	switch v := &t.vocab; {
	case v.hasKind(id, control|unknown):
		return dst
	case v.hasKind(id, normal):
		return appendSpelledBytes(dst, v.tokenSpelling(id))
	case v.hasKind(id, userDefined):
		return append(dst, v.tokenSpelling(id)...)
	case v.hasKind(id, rawByte):
		return appendRawByte(dst, string(v.tokenSpelling(id)))
	}
	return dst
}

// appendRawByte appends the byte that is spelled <0xNN>, or the spelling itself if it has another form.
func appendRawByte(dst []byte, text string) []byte {
	if len(text) == 6 && text[:3] == "<0x" && text[5] == '>' {
		if b, err := strconv.ParseUint(text[3:5], 16, 8); err == nil {
			return append(dst, byte(b))
		}
	}
	return append(dst, text...)
}

// Decode returns the text of ids. Bytes that are not UTF-8 become U+FFFD, as with a [Decoder]. Valid UTF-8 is
// preserved: Decode(Encode(text, false)) is text.
func (t *Tokenizer) Decode(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = t.appendTokenBytes(b, id)
	}
	out, rest := appendValidUTF8(make([]byte, 0, len(b)), b)
	if len(rest) > 0 {
		out = append(out, replacement...)
	}
	return string(out)
}

// replacement replaces bytes that are not UTF-8.
const replacement = string(utf8.RuneError)

// Decoder converts tokens to text one by one. It returns whole characters only, and in total exactly the result of
// [Tokenizer.Decode] for all the tokens. One goroutine may use it.
type Decoder struct {
	t       *Tokenizer
	pending []byte // the beginning of a character, at most 3 bytes
}

// NewDecoder returns a decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Push adds a token and returns the characters that are now complete, often none.
func (d *Decoder) Push(id int32) string {
	d.pending = d.t.appendTokenBytes(d.pending, id)
	out, rest := appendValidUTF8(nil, d.pending)
	d.pending = append(d.pending[:0], rest...)
	return string(out)
}

// Flush returns the rest at the end of a text: U+FFFD if a character is incomplete. The decoder then starts a new text.
func (d *Decoder) Flush() string {
	if len(d.pending) == 0 {
		return ""
	}
	d.pending = d.pending[:0]
	return replacement
}

// appendValidUTF8 appends b to dst as UTF-8, with U+FFFD for each longest run of bytes that begins a character without
// finishing it and for each other misplaced byte. It returns an unfinished character at the end of b as rest.
func appendValidUTF8(dst, b []byte) (out, rest []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n != 1 {
			dst = append(dst, b[:n]...)
			b = b[n:]
			continue
		}
		if !utf8.FullRune(b) {
			return dst, b
		}
		for n < len(b) && !utf8.FullRune(b[:n+1]) {
			n++
		}
		dst = append(dst, replacement...)
		b = b[n:]
	}
	return dst, nil
}

// The tokens of a file are written in an alphabet that has a printable character for each byte: the printable ones of
// Latin-1 stand for themselves, the 68 others take U+0100 to U+0143 in ascending order. A space is U+0120.
const (
	firstStandIn = 0x100               // for byte 0x00
	standInDEL   = firstStandIn + 0x21 // for byte 0x7F, after 0x00 to 0x20
	standInSHY   = standInDEL + 0x22   // for byte 0xAD, after 0x7F to 0xA0
)

func byteToRune(b byte) rune {
	switch {
	case b <= 0x20:
		return firstStandIn + rune(b)
	case b >= 0x7F && b <= 0xA0:
		return standInDEL + rune(b-0x7F)
	case b == 0xAD:
		return standInSHY
	}
	return rune(b)
}

// runeToByte returns the byte of character r, or false if r is not in the alphabet.
func runeToByte(r rune) (byte, bool) {
	switch {
	case r >= firstStandIn && r < standInDEL:
		return byte(r - firstStandIn), true
	case r >= standInDEL && r < standInSHY:
		return byte(r-standInDEL) + 0x7F, true
	case r == standInSHY:
		return 0xAD, true
	}
	return byte(r), r >= 0 && r <= 0xFF && byteToRune(byte(r)) == r
}

// appendSpelledBytes appends the bytes of a token that is spelled text. A character outside the alphabet, which no
// merge can produce, stands for itself.
func appendSpelledBytes(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if b, ok := runeToByte(r); ok {
			dst = append(dst, b)
		} else {
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}
