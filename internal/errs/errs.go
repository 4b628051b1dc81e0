// Package errs formats foreign text for errors, such as the strings of a file (in quotes, escaped, and shortened), and
// adds to errors how their context ended.
package errs

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Most is the maximum number of bytes of foreign text in an error.
const Most = 100

// Quote returns s in double quotes, as the verb %q does. It shortens a longer text to at most [Most] bytes that end
// with a whole character, followed by "…" and the length: "aaa…" (900000 bytes).
func Quote[T string | []byte](s T) string {
	if len(s) <= Most {
		return strconv.Quote(string(s))
	}
	shown := strconv.Quote(string(Start(s, Most)))
	return fmt.Sprintf("%s…\" (%d bytes)", shown[:len(shown)-1], len(s))
}

// Start returns the start of s, of at most most bytes. It ends with a whole character.
func Start[T string | []byte](s T, most int) T {
	if len(s) <= most {
		return s
	}
	for n := most; n > max(most-utf8.UTFMax, 0); n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:most] // not UTF-8
}
