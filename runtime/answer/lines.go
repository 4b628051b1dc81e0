package answer

import (
	"time"
)

// Lines ends the infilling of a gap at the end of a line.
type Lines struct {
	Indent int           // minimum indentation of each line after the first one
	Time   time.Duration // since the first token, if there is a second line; 0: no limit

	begun  time.Time
	second bool // there is a line after the first
	blanks int  // of the last line
}

// Take returns the part of a piece of text that is kept, and whether the answer ends with it.
func (l *Lines) Take(text string) (kept string, over bool) {
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n':
			l.second, l.blanks = true, 0
		case c == ' ' || c == '\t':
			l.blanks++
		case l.second && l.blanks < l.Indent: // no other character comes before it in this line
			return text[:i], true
		}
	}
	return text, l.second && l.Time > 0 && time.Since(l.begun) > l.Time
}
