// Package selfcheck has the command pilotfish selfcheck.
package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/selfcheck"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/device"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// flags has the flags of the command.
type flags struct {
	model   string
	backend string
	threads int
	tokens  int
}

// NewCommand returns the command that checks a GPU.
func NewCommand(a *cli.App) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "selfcheck [flags] [FILE]",
		Short: "Check the GPU and its kernels, and measure its speed",
		Long: `Compile every kernel on this machine's GPU, run all of them beside the exact CPU, decode the same texts
on both, provoke a fault, decode for a minute and compare the memory, and measure the speed beside what is predicted for
the chip. Models of random weights and of the demo are part of the program; -m adds one of yours.

A page of text goes to stdout. With FILE the same is written there as JSON, with every kernel and every check: a file to
send with a report. The exit code is 1 if something is wrong.`,
		Example: `  pilotfish selfcheck selfcheck.json
  pilotfish selfcheck -m model.gguf
  pilotfish selfcheck --backend soft -n 500`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.examineDevice(c.Context(), a, args)
		},
	}
	cli.Add(c.Flags(), "model", &f.model, "")
	cli.Add(c.Flags(), "backend", &f.backend, string(engine.Metal))
	cli.Add(c.Flags(), "threads", &f.threads, 0)
	cli.Add(c.Flags(), "max-tokens", &f.tokens, 0)
	return c
}

func (f *flags) examineDevice(ctx context.Context, a *cli.App, args []string) (err error) {
	backend, err := group.ParseBackend(f.backend)
	if err != nil {
		return err
	}
	if backend == engine.CPU {
		return cli.Usagef("--backend cpu: the CPU is what a GPU is compared with: choose metal or soft")
	}
	for _, path := range args {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already: name a new file", path)
		}
	}
	models, err := f.openModels()
	defer func() { err = errors.Join(err, closeModels(models)) }()
	if err != nil {
		return err
	}
	d, err := device.OpenGPU(device.Options{Backend: backend, Threads: f.threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r, err := selfcheck.Run(ctx, selfcheck.Options{
		Device: d, Models: models, Minute: time.Minute, Tokens: f.tokens, Wild: backend != engine.Soft,
		Progress: func(step string) { fmt.Fprintln(a.Stderr, "checking "+step) },
	})
	if err != nil {
		return err
	}
	if err := r.Write(a.Stdout); err != nil {
		return err
	}
	for _, path := range args {
		if err := writeReport(path, r); err != nil {
			return err
		}
	}
	if r.Failures > 0 {
		return fmt.Errorf("%d checks of %s failed", r.Failures, r.GPU)
	}
	return nil
}

func (f *flags) openModels() (models []selfcheck.Model, err error) {
	for _, m := range []struct {
		name string
		file []byte
	}{{"demo/small.gguf", demo.Small()}, {"demo/large.gguf", demo.Large()}} {
		file, err := gguf.Parse(m.file)
		if err != nil {
			return models, fmt.Errorf("load %s: %w", m.name, err)
		}
		models = append(models, selfcheck.Model{Name: m.name, File: file})
	}
	if f.model != "" {
		file, err := gguf.Open(f.model)
		if err != nil {
			return models, err
		}
		models = append(models, selfcheck.Model{Name: f.model, File: file})
	}
	return models, nil
}

func closeModels(models []selfcheck.Model) (err error) {
	for _, m := range models {
		err = errors.Join(err, m.File.Close())
	}
	return err
}

// writeReport writes a new file.
func writeReport(path string, r *selfcheck.Report) (err error) {
	b, err := record.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(append(b, '\n'))
	return err
}
