package answer

import "strings"

// The marks around a call of a tool in a text, as Qwen2.5 writes them.
const (
	callBegin = "<tool_call>"
	callEnd   = "</tool_call>"
)

// callFinder finds where a call of a tool begins in a text that comes in pieces: at its mark, or where a line begins
// with the object itself, bare or in a fence, as Qwen2.5-Coder writes it. A bare object is a call once it has the name
// of a tool. The finder holds back what may be such a beginning, and blanks that may stand before it: these belong to
// the call. In a fence of another language it is code.
type callFinder struct {
	names   []string // of the tools
	pending string
	told    strings.Builder // the text that is no part of a call
	mark    string          // once found: what the call begins with, without blanks before it
	name    string          // once found: the tool, where the beginning says it
}

// push adds a piece and returns the text that is no part of a call. Once found, nothing more is to be pushed.
func (s *callFinder) push(piece string) (text string, found bool) {
	all := s.pending + piece
	keep := len(all)
	for at := range all {
		mark, name, may := s.begins(all, at)
		if mark != "" {
			s.pending, s.mark, s.name = "", mark, name
			return s.tell(strings.TrimRight(all[:at], blanks)), true
		}
		if may {
			keep = at
			break
		}
	}
	keep = len(strings.TrimRight(all[:keep], blanks))
	s.pending = all[keep:]
	return s.tell(all[:keep]), false
}

// begins returns what a call begins with that begins at a place of a text; or reports whether one may begin there, if
// the right characters follow.
func (s *callFinder) begins(all string, at int) (mark, name string, may bool) {
	rest := all[at:]
	switch {
	case rest[0] == '<':
		if strings.HasPrefix(rest, callBegin) {
			return callBegin, "", false
		}
		return "", "", strings.HasPrefix(callBegin, rest)
	case rest[0] != '{' && rest[0] != '`':
		return "", "", false
	case !s.beginsLine(all[:at]):
		return "", "", false
	}
	c := reader{rest: rest, ok: true}
	if rest[0] == '`' {
		c.literal("```")
		c.any("json", "")
	}
	c.literals("{", `"name"`, ":", `"`)
	name = c.any(s.names...)
	c.literal(`"`)
	if c.ok && strings.Count(s.told.String()+all[:at], "```")%2 == 0 {
		return rest[:len(rest)-len(c.rest)], name, false
	}
	return "", "", c.short
}

// beginsLine reports whether a line begins after a text, besides blanks.
func (s *callFinder) beginsLine(before string) bool {
	newline := strings.LastIndexByte(before, '\n')
	return (newline >= 0 || !s.begun()) && strings.TrimLeft(before[newline+1:], blanks) == ""
}

// reader reads the beginning of a text.
type reader struct {
	rest  string
	ok    bool // all was there so far
	short bool // the text ended where the rest of what was to follow could
}

// literal reads a text.
func (r *reader) literal(text string) { r.any(text) }

// literals reads texts, with blanks before each.
func (r *reader) literals(all ...string) {
	for _, text := range all {
		r.blanks()
		r.literal(text)
	}
}

// blanks reads blanks.
func (r *reader) blanks() {
	if r.ok {
		r.rest = strings.TrimLeft(r.rest, blanks)
	}
}

// any reads the longest of some texts that is there.
func (r *reader) any(texts ...string) (found string) {
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

// blanks are the characters that stand between calls.
const blanks = " \t\r\n"

// tell counts text as shown.
func (s *callFinder) tell(text string) string {
	s.told.WriteString(text)
	return text
}

// begun reports whether there was something that is neither blank nor of a call.
func (s *callFinder) begun() bool { return s.told.Len() > 0 }

// flush returns what was held back, at the end of the text.
func (s *callFinder) flush() string {
	text := s.pending
	s.pending = ""
	return text
}
