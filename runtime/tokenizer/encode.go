package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"
)

// maxPiece is the maximum length of a piece in bytes: longer pieces (2 GiB) are split, because positions have 32 bits.
const maxPiece = math.MaxInt32

// Encode returns the ids of text. It adds no BOS. If parseSpecial is set, control tokens such as <|im_start|> are
// recognised in text; otherwise their spelling is ordinary text. Always encode a user's text without parseSpecial.
// User-defined tokens such as <tool_call> are recognised either way.
//
// Any text has ids, even if it is not UTF-8: invalid bytes are encoded as U+FFFD. The time is O(n log n) for any text
// of n bytes.
func (t *Tokenizer) Encode(text string, parseSpecial bool) []int32 {
	if text == "" {
		return nil
	}
	m := merger{t: t}
	ids := make([]int32, 0, len(text)/4+8)
	for _, part := range t.splitAtSpecials(text, parseSpecial) {
		if part.id >= 0 {
			ids = append(ids, part.id)
			continue
		}
		for rest := wellFormedUTF8(part.text); rest != ""; {
			n := min(t.pre.pieceLen(rest), maxPiece)
			ids = m.mergePiece(ids, rest[:n])
			rest = rest[n:]
		}
	}
	return ids
}

// specialToken is a token that is recognised as a whole in a text, before the text is split.
type specialToken struct {
	id   int32
	text string
}

// fragment is a part of a text: a special token, or text between special tokens.
type fragment struct {
	id   int32 // -1: text
	text string
}

// splitAtSpecials splits text at special tokens: first at all occurrences of the longest, from the left, then at those
// of the next in the remaining text, and so on.
func (t *Tokenizer) splitAtSpecials(text string, parseSpecial bool) []fragment {
	specials := t.always
	if parseSpecial {
		specials = t.parsed
	}
	parts := []fragment{{-1, text}}
	for _, s := range specials {
		parts = s.splitFragments(parts)
	}
	return parts
}

func (s specialToken) splitFragments(parts []fragment) []fragment {
	var out []fragment
	for i, part := range parts {
		at := -1
		if part.id < 0 {
			at = strings.Index(part.text, s.text)
		}
		switch {
		case at < 0 && out == nil:
			continue
		case at < 0:
			out = append(out, part)
			continue
		case out == nil:
			out = append(make([]fragment, 0, len(parts)+2), parts[:i]...)
		}
		rest := part.text
		for ; at >= 0; at = strings.Index(rest, s.text) {
			if at > 0 {
				out = append(out, fragment{-1, rest[:at]})
			}
			out = append(out, fragment(s))
			rest = rest[at+len(s.text):]
		}
		if rest != "" {
			out = append(out, fragment{-1, rest})
		}
	}
	if out == nil {
		return parts
	}
	return out
}

// wellFormedUTF8 returns text that is not UTF-8 in the form that llama.cpp reads: a byte that begins no character, or
// one with too few bytes after it, becomes U+FFFD; a character with more bytes than necessary is rewritten in its
// shortest form; a surrogate stays, as three bytes. (From U+110000 on, where llama.cpp gives up, the first byte becomes
// U+FFFD.)
func wellFormedUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/2)
	for i := 0; i < len(text); {
		n := continuationCount(text[i])
		r, ok := assembleRune(text[i:], n)
		switch {
		case !ok:
			out = utf8.AppendRune(out, utf8.RuneError)
			n = 0
		case r >= 0xD800 && r <= 0xDFFF:
			out = append(out, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
		default:
			out = utf8.AppendRune(out, r)
		}
		i += 1 + n
	}
	return string(out)
}

// continuationCount returns the number of bytes after the first byte b of a character, or -1 if b is not a first byte.
func continuationCount(b byte) int {
	switch {
	case b < 0x80:
		return 0
	case b >= 0xC0 && b < 0xE0:
		return 1
	case b >= 0xE0 && b < 0xF0:
		return 2
	case b >= 0xF0 && b < 0xF8:
		return 3
	}
	return -1
}

// assembleRune returns the character of the first byte of s and the n bytes after it, or false if they form none.
func assembleRune(s string, n int) (rune, bool) {
	if n < 0 || n >= len(s) {
		return 0, false
	}
	if n == 0 {
		return rune(s[0]), true
	}
	r := rune(s[0]) & (0x3F >> n)
	for i := 1; i <= n; i++ {
		if s[i]&0xC0 != 0x80 {
			return 0, false
		}
		r = r<<6 | rune(s[i]&0x3F)
	}
	return r, r <= utf8.MaxRune
}
