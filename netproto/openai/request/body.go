package request

import (
	"bytes"
	"unicode/utf8"
)

// parseBody reads the object that a request is.
func parseBody(body []byte) *fields {
	f := new(fields)
	switch at := invalidUTF8(body); {
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		f.fail("", "the request has no content: give a JSON object")
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		f.fail("", "the request begins with a byte order mark, which is not JSON: leave it out")
	case at >= 0:
		f.fail("", "the request is not UTF-8 from byte %d on: send JSON in UTF-8", at)
	default:
		return parseFields("", body)
	}
	return f
}

// invalidUTF8 returns where the first byte is that cannot stand in UTF-8; -1 where there is none.
func invalidUTF8(b []byte) int {
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}
