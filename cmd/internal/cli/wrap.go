package cli

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// Wrapper writes text to a terminal as it streams in. A word that no longer fits moves to the next line: it is held
// until its end is known, and nothing that was written is taken back. Words longer than a line are divided. The further
// lines of a paragraph are indented as its first one, and those of a list entry as its text. Code and tables are left
// to the terminal, so that they can be copied. The sequences of colours pass.
type Wrapper struct {
	out     io.Writer
	columns func() int // of the terminal, which may change
	whole   bool       // each Write has whole lines: nothing is held after it
	plain   bool       // Markdown has no style

	held    string   // what may still be the beginning of a word
	colours []string // of each byte of held
	colour  string   // of the next byte
	blanks  string   // before the next word, unless a line begins there
	at      int      // column of the cursor
	indent  int      // of the next lines
	begun   bool     // the line has a word
	marks   markdownStyler
	pending strings.Builder
	shown   string // colour at the end of pending
}

// Wrapped returns a Wrapper on w, one of the app's writers, if that is a terminal, and else w. If whole is set, each
// Write has whole lines.
func (a *App) Wrapped(w io.Writer, whole bool) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &Wrapper{out: w, columns: func() int { return Columns(w, HelpColumns) }, whole: whole,
		plain: whole || a.Env("NO_COLOR") != ""}
}

// Write implements [io.Writer].
func (w *Wrapper) Write(b []byte) (int, error) {
	w.holdText(string(b))
	columns := w.columns()
	if w.at > columns { // a terminal that became narrower has wrapped the line
		w.at %= columns
	}
	width := min(columns, maxColumns)
	w.indent = min(w.indent, width/2)
	for w.held != "" {
		word := fittingPrefix(firstWord(w.held), width-w.indent)
		if unknown := !w.whole && !strings.Contains(w.held, "\n"); unknown &&
			(word == w.held || !w.begun && strings.HasPrefix(w.held, "```")) {
			break // the word may go on, and the line may be one of code
		}
		w.writeWord(word, width)
		w.held, w.colours = w.held[len(word):], w.colours[len(word):]
	}
	if w.whole {
		w.emitText(w.blanks, w.shown)
		w.blanks = ""
	}
	w.emitText("", "")
	_, err := io.WriteString(w.out, w.pending.String())
	w.pending.Reset()
	return len(b), err
}

func (w *Wrapper) holdText(text string) {
	for text != "" {
		if strings.HasPrefix(text, "\x1b") {
			end := strings.IndexByte(text, 'm') + 1
			if end == 0 { // the end of a colour is in the same Write; what has none is not a colour
				end = len(text)
			}
			w.colour, text = strings.TrimPrefix(text[:end], PlainAgain), text[end:]
			continue
		}
		piece, _, _ := strings.Cut(text, "\x1b")
		w.held, text = w.held+piece, text[len(piece):]
		for range len(piece) {
			w.colours = append(w.colours, w.colour)
		}
	}
}

// firstWord returns the beginning of a text up to where a line may break. Names of files and addresses are whole.
func firstWord(text string) string {
	for n := 0; ; {
		part, rest, _, _ := uniseg.FirstLineSegmentInString(text[n:], -1)
		if n += len(part); rest == "" || !strings.HasSuffix(part, "/") {
			before, _, _ := strings.Cut(text[:n], " /") // Unicode's rules allow no break there
			return text[:min(n, len(before)+1)]
		}
	}
}

// fittingPrefix returns the beginning of a text that has at most so many columns, but at least one character, and the
// blanks after it.
func fittingPrefix(text string, columns int) string {
	word := strings.TrimRight(text, " \t\n")
	for rest, cells := word, 0; rest != ""; {
		_, tail, n, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		if cells += n; cells > columns && len(rest) < len(word) {
			return word[:len(word)-len(rest)]
		}
		rest = tail
	}
	return text
}

// writeWord writes a word and the blanks after it, the first len(word) bytes of the held text.
func (w *Wrapper) writeWord(word string, width int) {
	text := strings.TrimRight(word, " \t\n")
	after, ended := strings.CutSuffix(word[len(text):], "\n")
	if text != "" {
		w.placeWord(text, after, width)
	}
	if w.marks.isVerbatim() {
		w.emitText(after, w.shown)
	} else {
		w.blanks += strings.ReplaceAll(after, "\t", "    ")
		if !w.begun {
			w.blanks = w.blanks[:min(len(w.blanks), width/2)]
			w.indent = len(w.blanks)
		}
	}
	if ended {
		w.emitText("\n", "")
		w.at, w.indent, w.blanks, w.begun = 0, 0, "", false
		w.marks.endLine()
	}
}

func (w *Wrapper) placeWord(text, after string, width int) {
	cells := uniseg.StringWidth(text)
	if !w.begun {
		w.begun = true
		if w.marks.beginLine(text, after, w.held) {
			w.indent = min(w.indent+cells+len(after), width/2)
		}
	}
	switch room := width - w.at - cells; {
	case room >= len(w.blanks) || w.marks.isVerbatim():
	case w.at > w.indent:
		w.emitText("\n", "")
		w.at, w.blanks = 0, strings.Repeat(" ", w.indent)
	default: // the first word after the mark of a list entry
		w.blanks = w.blanks[:max(room, 0)]
	}
	w.emitText(w.blanks, w.shown)
	w.at += len(w.blanks) + cells
	w.blanks = ""
	for done := 0; done < len(text); {
		piece, style := w.marks.nextStyledPart(text[done:], after)
		colour := w.colours[done]
		if colour == "" && !w.plain {
			colour = style
		}
		w.emitText(piece, colour)
		done += len(piece)
	}
	if after != "" {
		w.marks.endWord()
	}
}

func (w *Wrapper) emitText(text, colour string) {
	if colour != w.shown {
		if w.shown != "" {
			w.pending.WriteString(PlainAgain)
		}
		w.pending.WriteString(colour)
		w.shown = colour
	}
	w.pending.WriteString(text)
}
