package regular

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Characters of JavaScript's classes (ECMA-262) as parts of a class of Go: blanks (WhiteSpace and LineTerminator), all
// others, and those that a dot matches, all but line ends. Blanks of Go are in ASCII, and have no vertical tab.
const (
	blanks = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	others = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
	inLine   = `\x00-\t\x0b\x0c\x0e-\x{2027}\x{202a}-\x{10ffff}`
	anything = `\x00-\x{10ffff}`
)

// translateJSPattern returns a regular expression of JavaScript, in Unicode mode, in the spelling of Go.
func translateJSPattern(pattern string) (string, error) {
	var b strings.Builder
	class := false // i is in one
	for i := 0; i < len(pattern); i++ {
		part, n, err := "", 1, error(nil)
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			part, n, err = translateEscape(pattern[i:], class)
		case class && c == ']':
			class, part = false, "]"
		case !class && strings.HasPrefix(pattern[i:], "[]"):
			part, n = "[^"+anything+"]", 2
		case !class && strings.HasPrefix(pattern[i:], "[^]"):
			part, n = "["+anything+"]", 3
		case !class && c == '.':
			part = "[" + inLine + "]"
		default:
			class, part = class || c == '[', pattern[i:i+1]
		}
		if err != nil {
			return "", err
		}
		b.WriteString(part)
		i += n - 1
	}
	return b.String(), nil
}

var (
	codePoint = regexp.MustCompile(`^\\u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]+)\})`)
	property  = regexp.MustCompile(`^(\\[pP]\{)(?:Script|sc|General_Category|gc)=([A-Za-z_]+\})`)
)

func translateEscape(p string, class bool) (part string, n int, err error) {
	part, n = p[:2], 2
	set := map[byte]string{'s': blanks, 'S': others}[p[1]]
	switch {
	case set != "" && class:
		return set, n, nil
	case set != "":
		return "[" + set + "]", n, nil
	case p[1] == 'b' && class:
		return `\x08`, n, nil
	case p[1] == 'c' && len(p) > 2 && (p[2]|0x20) >= 'a' && (p[2]|0x20) <= 'z':
		return fmt.Sprintf(`\x%02x`, p[2]&0x1f), 3, nil
	case p[1] == 'u':
		return translateUnicodeEscape(p)
	}
	if m := property.FindStringSubmatch(p); m != nil {
		return m[1] + m[2], len(m[0]), nil
	}
	return part, n, nil
}

func translateUnicodeEscape(p string) (part string, n int, err error) {
	code := func(p string) (rune, int) {
		m := codePoint.FindStringSubmatch(p)
		if m == nil {
			return -1, 0
		}
		r, err := strconv.ParseUint(m[1]+m[2], 16, 21)
		if err != nil {
			return -1, 0
		}
		return rune(r), len(m[0])
	}
	r, n := code(p)
	if utf16.IsSurrogate(r) {
		low, more := code(p[n:])
		r, n = utf16.DecodeRune(r, low), n+more
		if r == '\ufffd' {
			return "", 0, errors.New(`half of a pair such as \ud83d\udc1f is no character`)
		}
	}
	if r < 0 || r > '\U0010ffff' {
		return "", 0, errors.New(`\u needs the number of a character: four digits, or more in { }`)
	}
	return fmt.Sprintf(`\x{%x}`, r), n, nil
}
