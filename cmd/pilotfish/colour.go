package main

import (
	"io"

	"github.com/fatih/color"

	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newTokenPrinter returns what prints tokens as text. Where stdout is a terminal and NO_COLOR is not set, tokens of the
// cloud are cyan, and those that stayed the small model's since the cloud did not answer in time are yellow.
func newTokenPrinter(a *app) func(engine.Token) error {
	colours := map[string]*color.Color{
		"cloud": color.New(color.FgCyan, color.Bold), "edge-timeout": color.New(color.FgYellow),
	}
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
