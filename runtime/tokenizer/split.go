package tokenizer

// The pre-tokenizer of Qwen2 cuts a text into the matches, one after the other, of
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)       contraction
//	|[^\r\n\p{L}\p{N}]?\p{L}+          word, with at most one character before it
//	|\p{N}                             digit
//	| ?[^\s\p{L}\p{N}]+[\r\n]*         symbols
//	|\s*[\r\n]+|\s+(?!\S)|\s+          blanks: to the last line end, or all but the last, or all
//
// where the case of a contraction is that of ASCII alone.

// pieceLen returns the length of the first piece of s, which is well-formed and not empty. Cutting a text into all its
// pieces takes linear time.
func pieceLen(s string) int {
	if n := contractionLen(s); n > 0 {
		return n
	}
	c, size := classAt(s, 0)
	if c == letter {
		return skip(s, size, letter)
	}
	if c == number {
		return size
	}
	next, nextSize := classAt(s, size)
	if next == letter && s[0] != '\r' && s[0] != '\n' {
		return skip(s, size+nextSize, letter)
	}
	if c == other {
		return skipLineEnds(s, skip(s, size, other))
	}
	if s[0] == ' ' && next == other && size < len(s) {
		return skipLineEnds(s, skip(s, size+nextSize, other))
	}
	return blanksLen(s)
}

// contractionLen returns the length of the contraction that s begins with, or 0.
func contractionLen(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{s[1] | 0x20, s[2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	return 0
}

// blanksLen returns the length of the first piece of s, which begins with a blank.
func blanksLen(s string) int {
	line, last, stop := 0, 0, 0 // after the last line end, before the last blank, after it
	for stop < len(s) {
		c, size := classAt(s, stop)
		if c != blank {
			break
		}
		last = stop
		stop += size
		if s[last] == '\r' || s[last] == '\n' {
			line = stop
		}
	}
	switch {
	case line > 0:
		return line
	case stop < len(s) && last > 0:
		return last
	}
	return stop
}

// skip returns where the run of class c that begins at s[i] or before ends.
func skip(s string, i int, c class) int {
	for i < len(s) {
		k, size := classAt(s, i)
		if k != c {
			break
		}
		i += size
	}
	return i
}

func skipLineEnds(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// classAt returns class and length of the character at s[i], or (other, 0) at the end of s. Bytes that form no character
// are others: s has them only where [maxPiece] has cut one.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return other, 0
	}
	if s[i] < utf8Self {
		return classes[s[i]], 1
	}
	n := followers(s[i])
	r, ok := assemble(s[i:], n)
	if !ok {
		return other, 1
	}
	return classOf(r), 1 + n
}
