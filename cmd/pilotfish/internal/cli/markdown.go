package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// markdown finds the style of Markdown that streams in, line by line. Its marks stay and are dim: nothing has to be
// known in advance, a mark that was none loses no text, and copied text is what the model wrote. Headings and strong
// text are bold, emphasis is italic, code is plain. No style is a colour, since colours say who chose a token.
type markdown struct {
	fence    string // that began the present block of code
	fenced   bool   // the line begins or ends one
	table    bool   // the line belongs to a table
	heading  bool   // the line is a heading
	mark     bool   // the word is a mark
	strength int    // of the emphasis: the number of asterisks around it
	code     string // that began the present code within the line
	before   rune   // the last character
}

// verbatim reports whether the line is not wrapped.
func (m *markdown) verbatim() bool { return m.fence != "" || m.fenced || m.table }

// beginLine takes the first word of a line, the blanks after it, and the text from there on, and reports whether the
// word is the mark of a list entry or of a quote.
func (m *markdown) beginLine(word, blanks, text string) (entry bool) {
	run := markRun(word)
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
func (m *markdown) endWord() { m.mark, m.before = false, 0 }
func (m *markdown) endLine() { *m = markdown{fence: m.fence} }

// markRun returns the characters at the beginning of a text that are the same.
func markRun(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	return text[:len(text)-len(strings.TrimLeft(text, string(first)))]
}

// next returns the first part of a word that blanks follow, a run of marks or one character, and its style.
func (m *markdown) next(word, blanks string) (part, style string) {
	part, _, _, _ = uniseg.FirstGraphemeClusterInString(word, -1)
	mark := m.mark || m.fenced
	if !mark && !m.verbatim() && strings.Contains("*_`", part) {
		part = markRun(word)
		mark = m.toggle(part, word[len(part):], blanks)
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

// toggle begins or ends emphasis or code, and reports whether run does. Marks within words, and those with blanks on
// the wrong side, are text.
func (m *markdown) toggle(run, after, blanks string) bool {
	n := len(run)
	next, _ := utf8.DecodeRuneInString(after)
	ends := m.before != 0 && (run[0] == '*' || !inWord(next))
	begins := (after != "" || blanks == "") && (m.before > unicode.MaxASCII || !inWord(m.before) && m.before != ')')
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

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
