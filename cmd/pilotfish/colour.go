package main

import (
	"io"
	"strings"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newTokenPrinter returns what prints tokens as text. Where stdout is a terminal and NO_COLOR is not set, tokens of the
// cloud are cyan, and those that stayed the small model's since the cloud did not answer in time are yellow.
func newTokenPrinter(a *app) func(engine.Token) error {
	colours := map[pilotfish.Origin]string{"cloud": boldCyan, "edge-timeout": yellow}
	terminal := isTerminal(a.stdout)
	plain := !terminal || a.env("NO_COLOR") != ""
	return func(t engine.Token) error {
		if terminal {
			t.Text = strings.Map(harmless, t.Text)
		}
		if c := colours[t.Origin]; c != "" && !plain && t.Text != "" {
			t.Text = c + t.Text + plainAgain
		}
		_, err := io.WriteString(a.stdout, t.Text)
		return err
	}
}

// harmless puts a picture in the place of a control character: at a terminal, what a model writes is text, not
// commands.
func harmless(r rune) rune {
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
