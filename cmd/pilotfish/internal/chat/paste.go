package chat

// What a terminal puts around text that is pasted, where it is asked to.
const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// pasteFilter makes one line of text that is pasted: its line ends and tabs become characters that stand for them, its
// other control characters, which would be commands to the editor, go. What is typed passes as it is.
type pasteFilter struct {
	pasting bool
	matched int  // bytes of the next mark that have come
	lines   int  // line ends that have come in a paste, and count if something follows
	cr      bool // the last one was a carriage return
}

// filter returns what an editor is given for b, which is the next part of what comes from the terminal.
func (p *pasteFilter) filter(b []byte) (out []byte) {
	for _, c := range b {
		if p.pasting {
			out = p.pasted(out, c)
			continue
		}
		if p.matched > 0 && c != pasteBegin[p.matched] {
			p.matched = 0
		}
		if c != pasteBegin[p.matched] {
			out = append(out, c)
			continue
		}
		out = append(out, c) // at once: a part of a mark is a key as well
		if p.matched++; p.matched == len(pasteBegin) {
			out = out[:max(0, len(out)-len(pasteBegin))]
			*p = pasteFilter{pasting: true}
		}
	}
	return out
}

// pasted adds a byte of a paste.
func (p *pasteFilter) pasted(out []byte, c byte) []byte {
	if c == pasteEnd[p.matched] {
		if p.matched++; p.matched == len(pasteEnd) {
			*p = pasteFilter{}
		}
		return out
	}
	for _, lost := range []byte(pasteEnd[1:max(p.matched, 1)]) { // an escape that was no mark goes, what follows stays
		out = p.text(out, lost)
	}
	if p.matched = 0; c == pasteEnd[0] {
		p.matched = 1
		return out
	}
	return p.text(out, c)
}

// text adds a byte of pasted text. Line ends at its end do not count.
func (p *pasteFilter) text(out []byte, c byte) []byte {
	if c == '\n' && p.cr {
		p.cr = false
		return out
	}
	p.cr = c == '\r'
	switch {
	case c == '\r', c == '\n':
		p.lines++
		return out
	case c < ' ' && c != '\t', c == 0x7f:
		return out
	}
	for ; p.lines > 0; p.lines-- {
		out = append(out, string(shownLineEnd)...)
	}
	if c == '\t' {
		return append(out, string(shownTab)...)
	}
	return append(out, c)
}
