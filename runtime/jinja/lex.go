package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of tokens.
const (
	tokEnd      = iota // of the source
	tokData            // text outside of tags
	tokPrint           // {{
	tokPrintEnd        // }}
	tokTag             // {%
	tokTagEnd          // %}
	tokName
	tokString
	tokNumber
	tokOperator
)

// token is a token; text is its source, or the content of a text.
type token struct {
	kind int
	text string
	line int
}

// lexer cuts a source into tokens.
type lexer struct {
	rest      string
	line      int
	inside    bool   // of a tag
	print     bool   // the tag is {{
	open      string // brackets that are open in the tag, the last one last
	lineStart bool   // only a line end, or nothing, precedes rest
	strip     bool   // the tag before removes blanks after it
}

func newLexer(source string) *lexer {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	return &lexer{rest: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
}

func (l *lexer) consumeBytes(n int) string {
	text := l.rest[:n]
	l.rest = l.rest[n:]
	l.line += strings.Count(text, "\n")
	return text
}

func (l *lexer) nextToken() token {
	if l.inside {
		return l.lexInsideTag()
	}
	for l.rest != "" {
		at := tagStart.FindStringIndex(l.rest)
		if at == nil {
			return l.lexData(len(l.rest), 0, 0)
		}
		if l.strip || at[0] > 0 {
			if t := l.lexData(at[0], l.rest[at[0]+1], l.rest[min(at[0]+2, len(l.rest)-1)]); t.text != "" {
				return t
			}
			continue // only blanks, which are left out
		}
		l.lineStart = false
		line, kind := l.line, l.rest[1]
		l.consumeBytes(2)
		if l.rest != "" && (l.rest[0] == '-' || l.rest[0] == '+') {
			l.consumeBytes(1)
		}
		switch kind {
		case '#':
			l.skipComment()
			continue
		case '{':
			l.inside, l.print = true, true
			return token{tokPrint, "{{", line}
		}
		if m := rawBlock.FindStringSubmatchIndex(l.rest); m != nil {
			return l.lexRawBlock(m)
		}
		l.inside, l.print = true, false
		return token{tokTag, "{%", line}
	}
	return token{tokEnd, "the end of the template", l.line}
}

var (
	tagStart = regexp.MustCompile(`\{[{%#]`)
	rawBlock = regexp.MustCompile(`^\s*raw\s*(-?)%\}((?s:.*?))\{%([-+]?)\s*endraw\s*([-+]?)%\}`)
	word     = regexp.MustCompile(`^[\pL_][\pL\pN_]*`)
	numeral  = regexp.MustCompile(`^\d[\d_]*(\.\d+)?([eE][-+]?\d+)?`)
	operator = regexp.MustCompile(`^(\*\*|//|==|!=|<=|>=|[-+*/%~<>=|.,:()\[\]{}])`)
)

// lexData returns the text of n bytes before a tag, of the given kind and with the given sign, without the blanks that
// the tags around it remove.
func (l *lexer) lexData(n int, kind, sign byte) token {
	line, text := l.line, l.consumeBytes(n)
	if l.strip {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	text = l.trimBeforeTag(text, kind, sign)
	l.strip, l.lineStart = false, false
	return token{tokData, text, line}
}

// trimBeforeTag removes the blanks at the end of a text that the tag after it removes.
func (l *lexer) trimBeforeTag(text string, kind, sign byte) string {
	newline := strings.LastIndexByte(text, '\n') + 1
	blank := strings.TrimSpace(text[newline:]) == "" && (newline > 0 || l.lineStart)
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, unicode.IsSpace)
	case blank && (kind == '%' || kind == '#') && sign != '+':
		return text[:newline]
	}
	return text
}

func (l *lexer) skipComment() {
	end := strings.Index(l.rest, "#}")
	if end < 0 {
		failWith("a comment has no end: write #}")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.rest[end-1]
	}
	l.consumeBytes(end + 2)
	l.applyTagEnd(sign, true)
}

// applyTagEnd applies what the end of a tag does to the text after it. A line end after {% %} is removed.
func (l *lexer) applyTagEnd(sign byte, trim bool) {
	l.strip = sign == '-'
	if trim && sign != '+' && strings.HasPrefix(l.rest, "\n") {
		l.consumeBytes(1)
		l.lineStart = true
	}
}

// lexRawBlock returns the content of a block that is not parsed; m is the match of rawBlock.
func (l *lexer) lexRawBlock(m []int) token {
	sign := func(i int) byte { // 0: none
		if m[i] == m[i+1] {
			return 0
		}
		return l.rest[m[i]]
	}
	line, content, last := l.line, l.rest[m[4]:m[5]], sign(8)
	if sign(2) == '-' {
		content = strings.TrimLeftFunc(content, unicode.IsSpace)
	}
	content = l.trimBeforeTag(content, '%', sign(6))
	l.consumeBytes(m[1])
	l.applyTagEnd(last, true)
	return token{tokData, content, line}
}

func (l *lexer) lexInsideTag() token {
	l.consumeBytes(len(l.rest) - len(strings.TrimLeftFunc(l.rest, unicode.IsSpace)))
	line := l.line
	if l.rest == "" {
		failWith("a tag has no end: write %%} or }}")
	}
	if l.open == "" {
		if t, ok := l.lexTagEnd(); ok {
			return t
		}
	}
	switch c := l.rest[0]; {
	case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return token{tokName, l.consumeBytes(len(word.FindString(l.rest))), line}
	case c == '"' || c == '\'':
		return token{tokString, l.lexQuoted(c), line}
	}
	if m := numeral.FindString(l.rest); m != "" {
		return token{tokNumber, strings.ReplaceAll(l.consumeBytes(len(m)), "_", ""), line}
	}
	m := operator.FindString(l.rest)
	if m == "" {
		r, _ := utf8.DecodeRuneInString(l.rest)
		failWith("unexpected character %q", r)
	}
	l.trackBracket(m)
	return token{tokOperator, l.consumeBytes(len(m)), line}
}

func (l *lexer) lexTagEnd() (token, bool) {
	end, kind := "%}", tokTagEnd
	if l.print {
		end, kind = "}}", tokPrintEnd
	}
	rest, sign := l.rest, byte(0)
	if rest[0] == '-' || rest[0] == '+' && !l.print {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, end) {
		return token{}, false
	}
	line := l.line
	l.consumeBytes(len(l.rest) - len(rest) + len(end))
	l.inside = false
	l.applyTagEnd(sign, !l.print)
	return token{kind, end, line}, true
}

func (l *lexer) trackBracket(op string) {
	switch op {
	case "(", "[", "{":
		l.open += op
	case ")", "]", "}":
		last := len(l.open) - 1
		if last < 0 || !strings.Contains("()[]{}", l.open[last:]+op) {
			failWith("unexpected %s", op)
		}
		l.open = l.open[:last]
	}
}

func (l *lexer) lexQuoted(quote byte) string {
	for i := 1; i < len(l.rest); i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case quote:
			inner := l.consumeBytes(i + 1)
			return unescapeString(inner[1:i])
		}
	}
	failWith("a text has no end: write %c", quote)
	return ""
}

// unescapeString replaces the escape sequences of a text, which are Python's. Unknown ones stay.
func unescapeString(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' || len(s) == 1 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
		switch {
		case s[1] == '\'' || s[1] == '"':
			b.WriteByte(s[1])
			s = s[2:]
		case s[1] == '\n':
			s = s[2:]
		case digits > 0 && len(s) >= 2+digits:
			code, err := strconv.ParseUint(s[2:2+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(code)) {
				failWith("%s is not a character", strconv.Quote(s[:2+digits]))
			}
			b.WriteRune(rune(code))
			s = s[2+digits:]
		default:
			if r, _, rest, err := strconv.UnquoteChar(s, 0); err == nil {
				b.WriteRune(r)
				s = rest
			} else {
				b.WriteString(s[:2])
				s = s[2:]
			}
		}
	}
	return b.String()
}
