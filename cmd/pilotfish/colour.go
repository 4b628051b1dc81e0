package main

import (
	"io"

	"github.com/fatih/color"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newTokenPrinter returns what prints tokens as text: those of the cloud in colour where stdout is a terminal, those that the
// cloud should have chosen and did not, too.
func newTokenPrinter(a *app) func(engine.Token) error {
	colours := map[string]*color.Color{"cloud": color.New(color.FgCyan, color.Bold), "edge-timeout": color.New(color.FgYellow)}
	plain := !isTerminal(a.stdout) || a.env("NO_COLOR") != ""
	return func(t engine.Token) error {
		c := colours[t.Origin]
		if plain || c == nil || t.Text == "" {
			_, err := io.WriteString(a.stdout, t.Text)
			return err
		}
		c.EnableColor()
		_, err := c.Fprint(a.stdout, t.Text)
		return err
	}
}
