package answer

import "time"

// Lines ends what fills a gap at a line.
type Lines struct {
	Indent int           // least blanks before a line, but for the first one
	Time   time.Duration // from the first token on, once there is a second line; 0: none

	begun  time.Time
	second bool // there is a line after the first
	blanks int  // before the last line
	head   bool // nothing else is in it
}

// Take returns how much of a piece of text stays, and whether the answer ends with it.
func (l *Lines) Take(text string) (kept string, over bool) {
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n':
			l.second, l.head, l.blanks = true, true, 0
		case l.head && (c == ' ' || c == '\t'):
			l.blanks++
		case l.head && l.blanks < l.Indent:
			return text[:i], true
		default:
			l.head = false
		}
	}
	return text, l.second && l.Time > 0 && time.Since(l.begun) > l.Time
}
