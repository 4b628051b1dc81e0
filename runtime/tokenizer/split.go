package tokenizer

import "sort"

// A pre-tokenizer cuts a text into the matches, one after the other, of an expression. That of Qwen2 is
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)       contraction
//	|[^\r\n\p{L}\p{N}]?\p{L}+          word, with at most one character before it
//	|\p{N}                             digit
//	| ?[^\s\p{L}\p{N}]+[\r\n]*         symbols
//	|\s*[\r\n]+|\s+(?!\S)|\s+          blanks: to the last line end, or all but the last, or all
//
// where the case of a contraction is that of ASCII alone. That of Qwen3.5 differs in two parts, in which a combining
// mark is a letter:
//
//	|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+    word
//	| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*     symbols

// preTokenizer says which expression cuts texts.
type preTokenizer struct {
	name  string    // in hashes
	marks charClass // of combining marks: letter or other
}

// preTokenizers are the values of tokenizer.ggml.pre that are supported.
var preTokenizers = map[string]preTokenizer{
	"qwen2":            {"qwen2", other},
	"deepseek-r1-qwen": {"qwen2", other},
	"qwen35":           {"qwen35", letter},
}

// pieceLen returns the length of the first piece of s, which is well-formed and not empty. Cutting a text into all its
// pieces takes linear time.
func (p preTokenizer) pieceLen(s string) int {
	if n := contractionLen(s); n > 0 {
		return n
	}
	c, size := p.classAt(s, 0)
	if c == letter {
		return p.skipClass(s, size, letter)
	}
	if c == number {
		return size
	}
	next, nextSize := p.classAt(s, size)
	if next == letter && s[0] != '\r' && s[0] != '\n' {
		return p.skipClass(s, size+nextSize, letter)
	}
	if c == other {
		return skipLineEnds(s, p.skipClass(s, size, other))
	}
	if s[0] == ' ' && next == other && size < len(s) {
		return skipLineEnds(s, p.skipClass(s, size+nextSize, other))
	}
	return p.whitespaceLen(s)
}

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

// whitespaceLen returns the length of the first piece of s, which begins with a blank.
func (p preTokenizer) whitespaceLen(s string) int {
	line, last, stop := 0, 0, 0 // after the last line end, before the last blank, after it
	for stop < len(s) {
		c, size := p.classAt(s, stop)
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

// skipClass returns the end of the run of class c that begins at s[i] or before.
func (p preTokenizer) skipClass(s string, i int, c charClass) int {
	for i < len(s) {
		k, size := p.classAt(s, i)
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

// classAt returns (other, 0) at the end of s. Bytes that form no character are of class other: s contains them only
// where [maxPiece] has split one.
func (p preTokenizer) classAt(s string, i int) (charClass, int) {
	if i >= len(s) {
		return other, 0
	}
	if s[i] < utf8Self {
		return classes[s[i]], 1
	}
	n := continuationCount(s[i])
	r, ok := assembleRune(s[i:], n)
	if !ok {
		return other, 1
	}
	c := classOf(r)
	if c == mark {
		c = p.marks
	}
	return c, 1 + n
}

//go:generate go run gen_class.go

// charClass is the class of a character for splitting.
type charClass uint8

const (
	other  charClass = iota // [^\s\p{L}\p{M}\p{N}]
	letter                  // \p{L}
	number                  // \p{N}
	blank                   // \s, the Unicode property White_Space
	mark                    // \p{M}, which counts as preTokenizer.marks
)

// classes has the class of each ASCII character.
var classes = [utf8Self]charClass{
	'\t': blank, '\n': blank, '\v': blank, '\f': blank, '\r': blank, ' ': blank,
	'0': number, '1': number, '2': number, '3': number, '4': number,
	'5': number, '6': number, '7': number, '8': number, '9': number,
	'a': letter, 'b': letter, 'c': letter, 'd': letter, 'e': letter, 'f': letter, 'g': letter, 'h': letter, 'i': letter,
	'j': letter, 'k': letter, 'l': letter, 'm': letter, 'n': letter, 'o': letter, 'p': letter, 'q': letter, 'r': letter,
	's': letter, 't': letter, 'u': letter, 'v': letter, 'w': letter, 'x': letter, 'y': letter, 'z': letter,
	'A': letter, 'B': letter, 'C': letter, 'D': letter, 'E': letter, 'F': letter, 'G': letter, 'H': letter, 'I': letter,
	'J': letter, 'K': letter, 'L': letter, 'M': letter, 'N': letter, 'O': letter, 'P': letter, 'Q': letter, 'R': letter,
	'S': letter, 'T': letter, 'U': letter, 'V': letter, 'W': letter, 'X': letter, 'Y': letter, 'Z': letter,
}

// utf8Self is the first character with more than one byte.
const utf8Self = 0x80

// classOf returns the class of r in Unicode 15.1, the version of llama.cpp. The tables of package unicode have another
// version in each Go release, and the ids must not change with the compiler.
func classOf(r rune) charClass {
	if r < utf8Self {
		return classes[r]
	}
	i := sort.Search(len(classRuns), func(i int) bool { return rune(classRuns[i]>>3) > r })
	return charClass(classRuns[i-1] & 7)
}
