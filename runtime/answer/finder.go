package answer

import (
	"strings"

	"github.com/pilotfish-ai/pilotfish/runtime/grammar/schema"
)

// The marks around a tool call in a text, as Qwen2.5 writes them.
const (
	callBegin = "<tool_call>"
	callEnd   = "</tool_call>"
)

// callFinder finds the beginning of a tool call in a text that arrives in pieces: the mark, or a line that begins with
// the JSON object itself, with or without a code fence, as Qwen2.5-Coder writes it, or with the tag of a function, as
// Qwen3-Coder does. A bare object or tag is a call once it has the name of a tool. The finder holds back text that may
// be such a beginning, and the blanks before it, which belong to the call. In a fence of another language an object is
// code.
type callFinder struct {
	names   []string // of the tools
	pending string
	shown   strings.Builder // the text outside of calls
	rest    string          // once found: the text from the call on, without blanks before it
	name    string          // once found: the tool, if the beginning names it
}

// pushText adds a piece and returns the text outside of calls. It must not be called after a call was found.
func (s *callFinder) pushText(piece string) (text string, found bool) {
	all := s.pending + piece
	keep := len(all)
	for at := range all {
		is, name, may := s.matchCallStart(all, at)
		if is {
			s.pending, s.rest, s.name = "", all[at:], name
			return s.recordShown(strings.TrimRight(all[:at], blanks)), true
		}
		if may {
			keep = at
			break
		}
	}
	keep = len(strings.TrimRight(all[:keep], blanks))
	s.pending = all[keep:]
	return s.recordShown(all[:keep]), false
}

// matchCallStart reports whether a call begins at a position of a text, with the name of its tool if it begins with
// that; or whether one may begin there, depending on the characters that follow.
func (s *callFinder) matchCallStart(all string, at int) (is bool, name string, may bool) {
	rest := all[at:]
	switch {
	case strings.HasPrefix(rest, callBegin):
		return true, "", false
	case strings.HasPrefix(callBegin, rest):
		return false, "", true
	case rest[0] != '<' && rest[0] != '{' && rest[0] != '`':
		return false, "", false
	case !s.beginsLine(all[:at]):
		return false, "", false
	}
	c := textMatcher{rest: rest, ok: true}
	nameEnd := `"`
	if rest[0] == '<' {
		nameEnd = ">"
		c.expectText(schema.FunctionTag)
	} else {
		c.expectObject()
	}
	name = c.expectOneOf(s.names...)
	c.expectText(nameEnd)
	if c.ok && strings.Count(s.shown.String()+all[:at], "```")%2 == 0 {
		return true, name, false
	}
	return false, "", c.short
}

func (s *callFinder) beginsLine(before string) bool {
	newline := strings.LastIndexByte(before, '\n')
	return (newline >= 0 || !s.hasShownText()) && strings.TrimLeft(before[newline+1:], blanks) == ""
}

// textMatcher parses the beginning of a text.
type textMatcher struct {
	rest  string
	ok    bool // all expected text was found so far
	short bool // the text ended where it could still match
}

// expectObject parses an object, or a fence with one, up to its name.
func (r *textMatcher) expectObject() {
	if strings.HasPrefix(r.rest, "`") {
		r.expectText("```")
		r.expectOneOf("json", "")
	}
	r.skipBlanks()
	r.expectOneOf("{", "{{") // the template of Qwen2.5-Coder shows two
	r.expectTexts(`"name"`, ":", `"`)
}

func (r *textMatcher) expectText(text string) { r.expectOneOf(text) }

func (r *textMatcher) expectTexts(all ...string) {
	for _, text := range all {
		r.skipBlanks()
		r.expectText(text)
	}
}

func (r *textMatcher) skipBlanks() {
	if r.ok {
		r.rest = strings.TrimLeft(r.rest, blanks)
	}
}

func (r *textMatcher) expectOneOf(texts ...string) (found string) {
	if !r.ok {
		return ""
	}
	r.ok = false
	for _, text := range texts {
		switch {
		case strings.HasPrefix(r.rest, text):
			r.ok = true
			if len(text) > len(found) {
				found = text
			}
		case strings.HasPrefix(text, r.rest):
			r.short = true
		}
	}
	r.rest = r.rest[len(found):]
	return found
}

// blanks are the characters that may separate calls.
const blanks = " \t\r\n"

func (s *callFinder) recordShown(text string) string {
	s.shown.WriteString(text)
	return text
}

func (s *callFinder) hasShownText() bool { return s.shown.Len() > 0 }

func (s *callFinder) flushPending() string {
	text := s.pending
	s.pending = ""
	return text
}
