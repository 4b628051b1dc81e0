package chat

// Marks that a terminal adds before and after pasted text, if this is turned on.
const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// pastedEnd is before the end of a pasted line that another one follows: an invisible character without width. The
// editor shows each line by itself, and does not take the first one for the whole text.
const pastedEnd = "\u2063"

// pasteFilter marks the ends of pasted lines, replaces tabs, and removes other control characters, which would be
// commands to the editor. It does not change typed text.
type pasteFilter struct {
	pasting bool
	matched int  // number of bytes of the next mark that have arrived
	lines   int  // line ends at the end of the paste so far, which count only if text follows
	cr      bool // the last byte was a carriage return
}

func (p *pasteFilter) filterBytes(b []byte) (out []byte) {
	for _, c := range b {
		if p.pasting {
			out = p.filterPasted(out, c)
			continue
		}
		if p.matched > 0 && c != pasteBegin[p.matched] {
			p.matched = 0
		}
		if c != pasteBegin[p.matched] {
			out = append(out, c)
			continue
		}
		out = append(out, c) // without delay: a part of a mark can also be a key
		if p.matched++; p.matched == len(pasteBegin) {
			out = out[:max(0, len(out)-len(pasteBegin))]
			*p = pasteFilter{pasting: true}
		}
	}
	return out
}

func (p *pasteFilter) filterPasted(out []byte, c byte) []byte {
	if c == pasteEnd[p.matched] {
		if p.matched++; p.matched == len(pasteEnd) {
			*p = pasteFilter{}
		}
		return out
	}
	for _, lost := range []byte(pasteEnd[1:max(p.matched, 1)]) { // the escape is dropped, the rest is text
		out = p.appendPasted(out, lost)
	}
	if p.matched = 0; c == pasteEnd[0] {
		p.matched = 1
		return out
	}
	return p.appendPasted(out, c)
}

// appendPasted adds a byte of pasted text. Line ends at its end do not count.
func (p *pasteFilter) appendPasted(out []byte, c byte) []byte {
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
		out = append(out, pastedEnd+"\r"...)
	}
	if c == '\t' {
		return append(out, string(shownTab)...)
	}
	return append(out, c)
}
