// Package quote formats foreign text for errors, such as the strings of a file: in quotes, escaped, and shortened.
package quote

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Most is the maximum number of bytes of foreign text in an error.
const Most = 100

// Text returns s in double quotes, as the verb %q does. It shortens a longer text to at most [Most] bytes that end with
// a whole character, followed by "…" and the length: "aaa…" (900000 bytes).
func Text[T string | []byte](s T) string {
	if len(s) <= Most {
		return strconv.Quote(string(s))
	}
	n := Most
	for n > Most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	if !utf8.RuneStart(s[n]) { // not UTF-8
		n = Most
	}
	shown := strconv.Quote(string(s[:n]))
	return fmt.Sprintf("%s…\" (%d bytes)", shown[:len(shown)-1], len(s))
}
