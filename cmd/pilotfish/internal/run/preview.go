package run

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// previewer writes final text to a terminal, and shows text after it that may be erased again. The cursor stays at the
// end of the final text. The preview never exceeds the line, since scrolled text cannot be erased.
type previewer struct {
	out   io.Writer
	width func() int // columns of the terminal
	dim   bool
	at    int    // column of the cursor
	shown string // after the cursor
}

// Escape sequences of ECMA-48 and DEC.
const (
	saveCursor    = "\x1b7"
	restoreCursor = "\x1b8"
	dimmed        = "\x1b[2m"
	eraseToEnd    = "\x1b[K"
)

func newPreviewer(a *cli.App) *previewer {
	width := func() int { return cli.Columns(a.Stdout, 80) }
	return &previewer{out: a.Stdout, width: width, dim: a.Env("NO_COLOR") == ""}
}

// showText replaces the preview by another text: its first line, as far as there is room.
func (p *previewer) showText(text string) error {
	text, _, _ = strings.Cut(text, "\n")
	var fits strings.Builder
	// one column stays free: the behaviour of the cursor in the last column varies between terminals
	for room := p.width() - p.at - 1; text != ""; {
		r, size, cells := decodeCell(text)
		if text = text[size:]; cells > room {
			break
		}
		room -= cells
		fits.WriteRune(r)
	}
	if fits.String() == p.shown {
		return nil
	}
	erase := p.eraseSequence()
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

// eraseSequence clears the preview, and returns the sequence that erases it; "" if there is none.
func (p *previewer) eraseSequence() string {
	if p.shown == "" {
		return ""
	}
	p.shown = ""
	return eraseToEnd
}

// Write implements [io.Writer] for final text, with the colours of a token printer.
func (p *previewer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.out, p.eraseSequence()); err != nil {
		return 0, err
	}
	for text := string(b); text != ""; {
		first := text[0]
		if first == '\x1b' { // a colour
			_, text, _ = strings.Cut(text, "m")
			continue
		}
		_, size, cells := decodeCell(text)
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
	return p.out.Write(b)
}

// decodeCell returns the first character of a text, its bytes and its columns in a preview, where a control character
// becomes a space.
func decodeCell(text string) (r rune, size, cells int) {
	r, size = utf8.DecodeRuneInString(text)
	if !unicode.IsPrint(r) {
		return ' ', size, 1
	}
	return r, size, widths.RuneWidth(r)
}

// widths knows the columns of characters, whatever the language of the system.
var widths = runewidth.Condition{}
