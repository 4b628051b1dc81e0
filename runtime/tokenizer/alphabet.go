package tokenizer

import "unicode/utf8"

// The tokens of a file are written in an alphabet that has a printable character for each byte: the printable ones of
// Latin-1 stand for themselves, the 68 others take U+0100 to U+0143 in ascending order. A space is U+0120.
const (
	firstStandIn = 0x100               // for byte 0x00
	standInDEL   = firstStandIn + 0x21 // for byte 0x7F, after 0x00 to 0x20
	standInSHY   = standInDEL + 0x22   // for byte 0xAD, after 0x7F to 0xA0
)

// letterOf returns the character that stands for b.
func letterOf(b byte) rune {
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

// byteOf returns the byte that r stands for, or false if r is not in the alphabet.
func byteOf(r rune) (byte, bool) {
	switch {
	case r >= firstStandIn && r < standInDEL:
		return byte(r - firstStandIn), true
	case r >= standInDEL && r < standInSHY:
		return byte(r-standInDEL) + 0x7F, true
	case r == standInSHY:
		return 0xAD, true
	}
	return byte(r), r >= 0 && r <= 0xFF && letterOf(byte(r)) == r
}

// appendUnspelled appends the bytes that a token spelled text stands for. A character outside the alphabet, which no
// merge can make, stands for itself.
func appendUnspelled(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if b, ok := byteOf(r); ok {
			dst = append(dst, b)
		} else {
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}
