package group

import (
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// Measured returns the description of a measurement with this name by the running command. Call it before the work, and
// fill in the models later. It leaves out text of the user: operands, and flags that contain such text.
func Measured(a *cli.App, name string) record.Run {
	c := a.Command
	r := record.Run{
		Measurement: name, Version: cli.BuildVersion(), Go: runtime.Version(), Command: CommandLine(c, nil),
		Flags: map[string]string{},
		Date:  time.Now().UTC().Truncate(time.Second), Machine: record.ThisMachine(),
	}
	c.Flags().VisitAll(func(p *pflag.Flag) {
		if p.Name != "help" {
			r.Flags[p.Name] = flagValue(p)
		}
	})
	return r
}

// flagValue returns the value of a flag, except for flags that contain text of a user.
func flagValue(p *pflag.Flag) string {
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

// PrintResult writes v as the JSON line of a measurement.
func PrintResult(a *cli.App, v any, r record.Run) error {
	line, err := record.Line(v, r)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(line)
	return err
}

// Describe fills in the models: the only or small one, and the large one. Either may be nil.
func Describe(r record.Run, small, large *gguf.File) (_ record.Run, err error) {
	for _, m := range []struct {
		to *(*record.Model)
		of *gguf.File
	}{{&r.Model, small}, {&r.Large, large}} {
		if m.of == nil {
			continue
		}
		if *m.to, err = record.OfModel(m.of); err != nil {
			return r, err
		}
	}
	return r, nil
}

// CommandLine returns the command line of a command, with the given flags sorted by name. No flag contains a secret: an
// access token is in a file or in the environment.
func CommandLine(c *cobra.Command, args []string) string {
	words := append([]string{c.CommandPath()}, args...)
	c.Flags().Visit(func(p *pflag.Flag) { words = append(words, "--"+p.Name+"="+flagValue(p)) })
	return strings.Join(words, " ")
}
