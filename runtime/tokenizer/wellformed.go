package tokenizer

import "unicode/utf8"

// wellFormed returns text as llama.cpp reads it if it is not UTF-8: a byte that begins no character, or one with too few
// bytes after it, becomes U+FFFD; a character that takes more bytes than it needs is rewritten with as few as it needs;
// a surrogate stays, as three bytes. (From U+110000 on, where llama.cpp gives up, the first byte becomes U+FFFD.)
func wellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/2)
	for i := 0; i < len(text); {
		n := followers(text[i])
		r, ok := assemble(text[i:], n)
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

// followers returns how many bytes follow the first byte of a character, or -1 if b is no first byte.
func followers(b byte) int {
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

// assemble returns the character of the first byte of s and the n bytes after it, or false if they form none.
func assemble(s string, n int) (rune, bool) {
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
