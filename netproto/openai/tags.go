package openai

import "strings"

// The marks around a call of a tool in a text, as Qwen2.5 writes them.
const (
	callBegin = "<tool_call>"
	callEnd   = "</tool_call>"
)

// tagScanner finds where a call of a tool begins in a text that comes in pieces. It holds back what may be the
// beginning of the mark, and blanks that may stand before it: these belong to the call.
type tagScanner struct {
	pending string
	begun   bool // there was something that is neither blank nor a mark
}

// push adds a piece and returns the text that is no part of a mark. Once found, nothing more is to be pushed.
func (s *tagScanner) push(piece string) (text string, found bool) {
	all := s.pending + piece
	if at := strings.Index(all, callBegin); at >= 0 {
		s.pending = ""
		return s.tell(strings.TrimRight(all[:at], blanks)), true
	}
	keep := len(all) - partOf(all, callBegin)
	keep = len(strings.TrimRight(all[:keep], blanks))
	s.pending = all[keep:]
	return s.tell(all[:keep]), false
}

// blanks are the characters that stand between calls.
const blanks = " \t\r\n"

// tell notes that there was text.
func (s *tagScanner) tell(text string) string {
	s.begun = s.begun || text != ""
	return text
}

// flush returns what was held back, at the end of the text.
func (s *tagScanner) flush() string {
	text := s.pending
	s.pending = ""
	return text
}

// plain reports whether what has come so far cannot be the beginning of a call, blanks before it included.
func plain(text string) bool {
	text = strings.TrimLeft(text, blanks)
	return text != "" && !strings.HasPrefix(text, callBegin) && !strings.HasPrefix(callBegin, text)
}

// partOf returns the length of the longest end of text that mark begins with, shorter than mark.
func partOf(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
