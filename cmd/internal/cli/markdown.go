package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// markdownStyler finds the style of Markdown that streams in, line by line. Its marks stay and are dim: nothing has to
// be known in advance, a mark that was none loses no text, and copied text is what the model wrote. Headings and strong
// text are bold, emphasis is italic, code is plain. No style is a colour, since colours say who chose a token.
type markdownStyler struct {
	fence    string // that began the present block of code
	fenced   bool   // the line begins or ends one
	table    bool   // the line belongs to a table
	heading  bool   // the line is a heading
	mark     bool   // the word is a mark
	strength int    // of the emphasis: the number of asterisks around it
	code     string // that began the present code within the line
	before   rune   // the last character
}

func (m *markdownStyler) isVerbatim() bool { return m.fence != "" || m.fenced || m.table }

// beginLine takes the first word of a line, the blanks after it, and the text from there on, and reports whether the
// word is the mark of a list entry or of a quote.
func (m *markdownStyler) beginLine(word, blanks, text string) (entry bool) {
	run := leadingRun(word)
	only := run == word && blanks != ""
	number := strings.TrimLeft(word, "0123456789")
	line, _, _ := strings.Cut(text, "\n")
	switch {
	case m.fence != "":
		if m.fenced = run == word && strings.HasPrefix(run, m.fence); m.fenced {
			m.fence = ""
		}
	case (run[0] == '`' || run[0] == '~') && len(run) >= 3 && !strings.Contains(line[len(run):], "`"):
		m.fence, m.fenced = run, true
	case run[0] == '|':
		m.table = true
	case only && run[0] == '#' && len(run) <= 6:
		m.mark, m.heading = true, true
	case only && len(run) == 1 && strings.Contains("-*+>", run),
		number != word && (number == "." || number == ")") && blanks != "":
		m.mark = true
		return true
	}
	return false
}

// endWord is called for blanks, and endLine for a line end.
func (m *markdownStyler) endWord() { m.mark, m.before = false, 0 }
func (m *markdownStyler) endLine() { *m = markdownStyler{fence: m.fence} }

func leadingRun(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	return text[:len(text)-len(strings.TrimLeft(text, string(first)))]
}

// nextStyledPart returns the first part of a word that blanks follow, a run of marks or one character, and its style.
func (m *markdownStyler) nextStyledPart(word, blanks string) (part, style string) {
	part, _, _, _ = uniseg.FirstGraphemeClusterInString(word, -1)
	mark := m.mark || m.fenced
	if !mark && !m.isVerbatim() && strings.Contains("*_`", part) {
		part = leadingRun(word)
		mark = m.toggleStyle(part, word[len(part):], blanks)
	}
	m.before, _ = utf8.DecodeLastRuneInString(part)
	if mark {
		return part, dim
	}
	strength := m.strength
	if m.code != "" {
		strength = 0
	}
	if m.heading {
		strength |= 2
	}
	return part, [...]string{"", "\x1b[3m", "\x1b[1m", "\x1b[1;3m"}[strength]
}

// toggleStyle begins or ends emphasis or code, and reports whether run does. Marks within words, and those with blanks
// on the wrong side, are text.
func (m *markdownStyler) toggleStyle(run, after, blanks string) bool {
	n := len(run)
	next, _ := utf8.DecodeRuneInString(after)
	ends := m.before != 0 && (run[0] == '*' || !isWordRune(next))
	begins := (after != "" || blanks == "") && (m.before > unicode.MaxASCII || !isWordRune(m.before) && m.before != ')')
	switch {
	case m.before == '\\' && m.code == "":
		return false
	case run[0] == '`' && m.code == "":
		m.code = run
	case m.code != "":
		if m.code != run {
			return false
		}
		m.code = ""
	case n <= 3 && ends && m.strength&n == n:
		m.strength &^= n
	case n <= 3 && begins && m.strength&n == 0:
		m.strength |= n
	default:
		return false
	}
	return true
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
