package tokenizer

import "sort"

//go:generate go run gen_class.go

// class is what the splitter asks of a character.
type class uint8

const (
	other  class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	blank               // \s, the Unicode property White_Space
)

// classes has the class of each ASCII character.
var classes = [utf8Self]class{
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

// utf8Self is the first character that takes more than one byte.
const utf8Self = 0x80

// classOf returns the class of r as of Unicode 15.1, which is what llama.cpp knows. The tables of package unicode are of
// another version with each Go, and the ids must not change with the compiler.
func classOf(r rune) class {
	if r < utf8Self {
		return classes[r]
	}
	i := sort.Search(len(classRuns), func(i int) bool { return rune(classRuns[i]>>2) > r })
	return class(classRuns[i-1] & 3)
}
