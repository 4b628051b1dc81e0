package cli

import (
	"io"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

// NewTokenPrinter returns a function that prints tokens as text on out, which leads to stdout. If stdout is a terminal
// and NO_COLOR is not set, tokens from the cloud are cyan. Tokens that the small model chose because the answer of the
// cloud was late are yellow. What the model thinks before it answers is dim on a terminal, stands between its marks if
// there are no colours, and is left out elsewhere.
func NewTokenPrinter(a *App, out io.Writer) func(pilotfish.Token) error {
	colours := map[string]string{"cloud": boldCyan, "edge-timeout": yellow}
	terminal := IsTerminal(a.Stdout)
	plain := !terminal || a.Env("NO_COLOR") != ""
	gap := "" // before the answer
	begun := false
	return func(t pilotfish.Token) error {
		if t.Kind == pilotfish.KindThought && !begun && plain { // the prompt has the mark
			t.Text = "<think>\n" + t.Text
		}
		begun = t.Kind != pilotfish.KindAnswer
		if t.Kind != pilotfish.KindAnswer && (!terminal || !plain && t.Kind == pilotfish.KindMark) {
			return nil
		}
		if terminal {
			t.Text = Harmless(t.Text)
		}
		if c := colours[t.Origin]; c != "" && !plain && t.Text != "" {
			t.Text = c + t.Text + PlainAgain
		}
		if t.Text != "" && !plain {
			if t.Kind == pilotfish.KindThought {
				gap = "\n\n"[min(1, strings.Count(t.Text, "\n")):]
				t.Text = dim + t.Text + PlainAgain
			} else {
				t.Text, gap = gap+t.Text, ""
			}
		}
		_, err := io.WriteString(out, t.Text)
		return err
	}
}

// Marked marks a word of the large model: with its colour on a terminal, else with brackets.
func Marked(a *App, word string) string {
	if IsTerminal(a.Stdout) && a.Env("NO_COLOR") == "" {
		return boldCyan + word + PlainAgain
	}
	bare := strings.TrimLeft(word, " ")
	return word[:len(word)-len(bare)] + "[" + bare + "]"
}

// Legend explains the colours of tokens.
func Legend() string {
	return boldCyan + "this colour" + PlainAgain + ": chosen by the large model; " + yellow + "this one" + PlainAgain +
		": its answer was late"
}

// Harmless replaces the control characters of a text by printable symbols, except for line ends and tabs, so that the
// output of a model, or a text of a file, cannot control the terminal.
func Harmless(text string) string { return strings.Map(printableRune, text) }

func printableRune(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return r
	case r < ' ':
		return '\u2400' + r
	case r == 0x7f:
		return '\u2421'
	case r < 0xa0:
		return '\uFFFD'
	}
	return r
}

// Ms returns a duration in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// PerSecond returns a rate; 0 if the count or the time is 0.
func PerSecond(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Escape sequences of ECMA-48 for colours on terminals.
const (
	yellow     = "\x1b[33m"
	dim        = "\x1b[2m"
	boldCyan   = "\x1b[36;1m"
	PlainAgain = "\x1b[0m"
)
