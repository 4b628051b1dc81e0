package tokenizer

import "unicode/utf8"

// replacement stands for bytes that are not UTF-8.
const replacement = string(utf8.RuneError)

// Decoder makes text of tokens one by one. What it returns is whole characters only, and together exactly what
// [Tokenizer.Decode] makes of all the tokens. It is for one goroutine.
type Decoder struct {
	t    *Tokenizer
	held []byte // the beginning of a character, at most 3 bytes
}

// NewDecoder returns a decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Push adds a token and returns the characters that are whole now, often none.
func (d *Decoder) Push(id int32) string {
	d.held = d.t.appendBytes(d.held, id)
	out, rest := appendValid(nil, d.held)
	d.held = append(d.held[:0], rest...)
	return string(out)
}

// Flush returns what is left at the end of a text: U+FFFD if a character has remained unfinished. The decoder is then at
// the beginning of another text.
func (d *Decoder) Flush() string {
	if len(d.held) == 0 {
		return ""
	}
	d.held = d.held[:0]
	return replacement
}

// appendValid appends b to dst as UTF-8, with U+FFFD for each longest run of bytes that begins a character without
// finishing it and for each other byte that is out of place. An unfinished character at the end of b is returned as rest.
func appendValid(dst, b []byte) (out, rest []byte) {
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
