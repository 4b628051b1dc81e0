package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// previewer shows text on a terminal that may be erased again. It is after the cursor, which stays at the end of the
// final text. The preview never exceeds the line, since scrolled text cannot be erased.
type previewer struct {
	out   io.Writer
	width func() int // columns of the terminal
	dim   bool
	at    int    // column of the cursor
	shown string // after the cursor

	thought bool // the last text that was printed is a thought
}

// Escape sequences of ECMA-48 and DEC.
const (
	saveCursor    = "\x1b7"
	restoreCursor = "\x1b8"
	dimmed        = "\x1b[2m"
	eraseToEnd    = "\x1b[K"
)

// newPreviewer returns a previewer on stdout, which is a terminal.
func newPreviewer(a *cli.App) *previewer {
	return &previewer{out: a.Stdout, width: func() int { return columns(a.Stdout) }, dim: a.Env("NO_COLOR") == ""}
}

// columns returns the width of a terminal; 80 if it is unknown.
func columns(w io.Writer) int {
	if o, ok := w.(*cli.Output); ok {
		w = o.W
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 80
}

// show replaces the preview by another text: its first line, as far as there is room.
func (p *previewer) show(text string) error {
	text, _, _ = strings.Cut(text, "\n")
	var fits strings.Builder
	// one column stays free: the behaviour of the cursor in the last column varies between terminals
	for room := p.width() - p.at - 1; text != ""; {
		r, size, cells := firstRune(text)
		if text = text[size:]; cells > room {
			break
		}
		room -= cells
		fits.WriteRune(r)
	}
	if fits.String() == p.shown {
		return nil
	}
	erase := p.erase()
	p.shown = fits.String()
	if p.shown == "" {
		_, err := io.WriteString(p.out, erase)
		return err
	}
	text = p.shown
	if p.dim {
		text = dimmed + text + cli.PlainAgain
	}
	_, err := fmt.Fprint(p.out, erase, saveCursor, text, restoreCursor)
	return err
}

// erase returns the sequence that erases the preview; "" if there is none.
func (p *previewer) erase() string {
	if p.shown == "" {
		return ""
	}
	p.shown = ""
	return eraseToEnd
}

// token prints a final token with write.
func (p *previewer) token(t pilotfish.Token, write func(pilotfish.Token) error) error {
	if _, err := io.WriteString(p.out, p.erase()); err != nil {
		return err
	}
	text := t.Text
	if p.dim && text != "" { // with colours, marks are not printed, and a gap is before the answer
		switch t.Kind {
		case pilotfish.KindMark:
			text = ""
		case pilotfish.KindThought:
			p.thought = true
		case pilotfish.KindAnswer:
			if p.thought {
				p.at, p.thought = 0, false
			}
		}
	}
	for text != "" {
		first := text[0]
		_, size, cells := firstRune(text)
		text = text[size:]
		switch {
		case first == '\n':
			p.at = 0
		case first == '\t': // to a multiple of eight, but not beyond the last column
			p.at = max(p.at, min(p.at/8*8+8, p.width()-1))
		case p.at+cells > p.width():
			p.at = cells
		default:
			p.at += cells
		}
	}
	return write(t)
}

// firstRune returns the first character of a text, its bytes and its columns in a preview, where a control character
// becomes a space.
func firstRune(text string) (r rune, size, cells int) {
	r, size = utf8.DecodeRuneInString(text)
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me): // above or below the character before
		return r, size, 0
	case unicode.Is(&wide, r):
		return r, size, 2
	case unicode.IsPrint(r):
		return r, size, 1
	}
	return ' ', size, 1
}

// wide has the characters with two columns: those of East Asia, and pictures.
var wide = unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x23e9, 0x23ec, 1}, {0x23f0, 0x23f3, 3}, {0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1}, {0x2648, 0x2653, 1}, {0x267f, 0x2693, 20}, {0x26a1, 0x26a1, 1}, {0x26aa, 0x26ab, 1},
		{0x26bd, 0x26be, 1}, {0x26c4, 0x26c5, 1}, {0x26ce, 0x26d4, 6}, {0x26ea, 0x26ea, 1}, {0x26f2, 0x26f3, 1},
		{0x26f5, 0x26fa, 5}, {0x26fd, 0x2705, 8}, {0x270a, 0x270b, 1}, {0x2728, 0x2728, 1}, {0x274c, 0x274e, 2},
		{0x2753, 0x2755, 1}, {0x2757, 0x2757, 1}, {0x2795, 0x2797, 1}, {0x27b0, 0x27bf, 15}, {0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b55, 5}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xa960, 0xa97c, 1}, {0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}
