package translate

import (
	"strconv"
	"strings"
)

// location is a line of the caller's text, according to #line directives.
type location struct {
	file string
	line int
}

// String returns the location in the format of compilers.
func (l location) String() string { return l.file + ":" + strconv.Itoa(l.line) }

type tokenKind byte

const (
	none      tokenKind = iota // after the end
	word                       // identifier or keyword
	number                     // with its suffix
	quoted                     // string or character
	mark                       // operator or bracket
	directive                  // a whole line that begins with #
)

// token is a token of preprocessed source: text[start:end].
type token struct {
	text       string
	kind       tokenKind
	start, end int
	at         location
}

func (t token) isText(text string) bool { return t.text == text && (t.kind == word || t.kind == mark) }

func (t token) isAny(texts ...string) bool {
	for _, s := range texts {
		if t.isText(s) {
			return true
		}
	}
	return false
}

// lexer splits preprocessed C++ into tokens. Any text gives tokens that lie inside it, in order: clang reports its
// errors.
type lexer struct {
	text string
	i    int
	at   location
	out  []token
}

// lex returns the tokens of text. Closing angle brackets stay single, so that they can end template arguments.
func lex(text, file string) []token {
	l := lexer{text: text, at: location{file, 1}}
	fresh := true // nothing but blanks on this line yet
	for l.i < len(text) {
		switch c := text[l.i]; {
		case c == '\n':
			l.i, l.at.line, fresh = l.i+1, l.at.line+1, true
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			l.i++
			continue
		case c == '#' && fresh:
			l.lexDirective()
		case isLetter(c):
			l.emitToken(word, l.scanWhile(l.i, func(c byte) bool { return isLetter(c) || isDigit(c) }))
		case isDigit(c) || c == '.' && isDigit(l.peek(1)):
			l.emitToken(number, l.numberEnd())
		case c == '"' || c == '\'':
			l.emitToken(quoted, l.quotedEnd(c))
		default:
			l.emitToken(mark, l.i+l.markLength())
		}
		fresh = false
	}
	return l.out
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func (l *lexer) peek(n int) byte {
	if l.i+n < len(l.text) {
		return l.text[l.i+n]
	}
	return 0
}

func (l *lexer) scanWhile(i int, ok func(byte) bool) int {
	for i < len(l.text) && ok(l.text[i]) {
		i++
	}
	return i
}

func (l *lexer) emitToken(kind tokenKind, end int) {
	end = min(end, len(l.text))
	l.out = append(l.out, token{l.text[l.i:end], kind, l.i, end, l.at})
	l.at.line += strings.Count(l.text[l.i:end], "\n")
	l.i = end
}

func (l *lexer) numberEnd() int {
	previous := byte(0)
	return l.scanWhile(l.i, func(c byte) bool {
		ok := isLetter(c) || isDigit(c) || c == '.' || c == '\'' ||
			(c == '+' || c == '-') && (previous|0x20 == 'e' || previous|0x20 == 'p')
		previous = c
		return ok
	})
}

func (l *lexer) quotedEnd(quote byte) int {
	for i := l.i + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		}
	}
	return len(l.text)
}

func (l *lexer) markLength() int {
	for _, m := range [...]string{"<<=", "[[", "]]", "::", "->", "<<", "&&", "||", "==", "!=", "<=", ">=",
		"+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "++", "--"} {
		if strings.HasPrefix(l.text[l.i:], m) && !(m == "]]" && l.inIndex()) {
			return len(m)
		}
	}
	return 1
}

// inIndex reports whether "]]" ends two indices, as in a[b[0]], and no attribute.
func (l *lexer) inIndex() bool {
	depth := 0
	for i := len(l.out) - 1; i >= 0; i-- {
		switch {
		case l.out[i].isText("]"):
			depth++
		case l.out[i].isText("["):
			if depth == 0 {
				return true
			}
			depth--
		case l.out[i].isAny("[[", ";", "{", "}"):
			return false
		}
	}
	return false
}

// lexDirective takes a line that begins with #. A line marker, # 12 "file", moves the location.
func (l *lexer) lexDirective() {
	end := l.scanWhile(l.i, func(c byte) bool { return c != '\n' })
	line := l.text[l.i:end]
	l.emitToken(directive, end)
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "#"), "line"))
	n, file, _ := strings.Cut(rest, " ")
	if number, err := strconv.Atoi(n); err == nil && number > 0 {
		l.at.line = number - 1
		if s := strings.TrimSpace(file); strings.HasPrefix(s, `"`) {
			if end := strings.LastIndexByte(s, '"'); end > 0 {
				if name, err := strconv.Unquote(s[:end+1]); err == nil {
					l.at.file = name
				}
			}
		}
	}
}
