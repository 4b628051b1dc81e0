package main

import (
	"bytes"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/gguf"
)

// measured begins to describe a measurement that the command at work makes: call it before the work, and fill in the
// models. A user's text is left out: operands, and the flags that hold one.
func (a *app) measured() result.Run {
	c := a.command
	r := result.Run{
		Measurement: strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" "), Version: buildVersion(),
		Go: runtime.Version(), Command: commandLine(c, nil), Flags: map[string]string{},
		Date: time.Now().UTC().Truncate(time.Second), Machine: result.ThisMachine(),
	}
	c.Flags().VisitAll(func(p *pflag.Flag) {
		if p.Name != "help" {
			r.Flags[p.Name] = valueOf(p)
		}
	})
	return r
}

// valueOf is the value of a flag, but for those that hold text of a user.
func valueOf(p *pflag.Flag) string {
	if !p.Changed {
		return p.Value.String()
	}
	switch p.Name {
	case "stop", "json-schema":
		return "…"
	case "system", "tokens":
		if p.Value.Type() == "string" {
			return "…"
		}
	}
	return p.Value.String()
}

// printResult writes v as the JSON line of a measurement.
func (a *app) printResult(v any, r result.Run) error {
	line, err := result.Line(v, r)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(line)
	return err
}

// describe fills in the models: the only or small one, and the large one, either of which may be nil.
func describe(r result.Run, small, large *gguf.File) (_ result.Run, err error) {
	for _, m := range []struct {
		to *(*result.Model)
		of *gguf.File
	}{{&r.Model, small}, {&r.Large, large}} {
		if m.of == nil {
			continue
		}
		if *m.to, err = result.OfModel(m.of); err != nil {
			return r, err
		}
	}
	return r, nil
}

// commandLine is how a command was called: with the flags that were given, in the order of their names. No flag holds a
// secret: an access token is in a file or in the environment.
func commandLine(c *cobra.Command, args []string) string {
	words := append([]string{c.CommandPath()}, args...)
	c.Flags().Visit(func(p *pflag.Flag) { words = append(words, "--"+p.Name+"="+valueOf(p)) })
	return strings.Join(words, " ")
}

// writePage writes a report as a page. One that is there is replaced when the new one is whole.
func writePage(r *report.Report, path string) error {
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		return err
	}
	return replaceFile(path, b.Bytes(), 0o644)
}
