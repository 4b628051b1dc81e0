// Package models has the commands for model files: pull, list, rm, inspect, tokenize and logits.
package models

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// NewListCommand returns the command that lists downloaded models.
func NewListCommand(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:                   "list [--json]",
		DisableFlagsInUseLine: true,
		Short:                 "List downloaded models",
		Long: `List downloaded models, with the names that other commands accept for -m.

--json prints one object per model: "name", "quant" (absent if the file's name does not contain it), "bytes",
"modified", "path", and "missing", the number of parts that are absent or incomplete.`,
		Example: "  pilotfish list",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.ModelFolder()
			if err != nil {
				return err
			}
			all, err := hub.Models(dir)
			if err != nil {
				return fmt.Errorf("list models: %w", err)
			}
			if asJSON {
				return printModelsJSON(a, all)
			}
			return printModels(a, all, dir)
		},
	}
	cli.Add(c.Flags(), "json", &asJSON, false)
	return c
}

// listedModel is a line of list --json.
type listedModel struct {
	Name     string    `json:"name"`
	Quant    string    `json:"quant,omitempty"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	Path     string    `json:"path"`
	Missing  int       `json:"missing"` // number of parts
}

func printModelsJSON(a *cli.App, all []hub.Model) error {
	for _, m := range all {
		err := a.PrintJSON(listedModel{m.Ref(all), m.Quant, m.Size, m.Modified.UTC().Truncate(time.Second), m.Path,
			m.Missing})
		if err != nil {
			return err
		}
	}
	return nil
}

func printModels(a *cli.App, all []hub.Model, dir string) error {
	if len(all) == 0 {
		fmt.Fprintf(a.Stderr, "no models in %s: \"pilotfish pull OWNER/NAME\" fetches one\n", dir)
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tQUANT\tSIZE\tMODIFIED\tPATH")
	for _, m := range all {
		quant, size := m.Quant, humanize.Bytes(uint64(m.Size))
		if quant == "" {
			quant = "-"
		}
		if m.Missing > 0 {
			size += ", incomplete"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Ref(all), quant, size, m.Modified.Local().Format("2006-01-02 15:04"),
			m.Path)
	}
	return w.Flush()
}

// NewRemoveCommand returns the command that removes downloaded models.
func NewRemoveCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:                   "rm OWNER/NAME[:QUANT or :FILE]...",
		DisableFlagsInUseLine: true,
		Short:                 "Remove downloaded models",
		Long: `Remove downloaded models with all their parts, and partial downloads. On a terminal it asks for each,
elsewhere it does not. A model that is being downloaded is kept. If one of the names is wrong, nothing is removed.`,
		Example: "  pilotfish rm Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0",
		Args:    cli.SomeArgs("the models to remove: \"pilotfish list\" shows their names"),
		RunE: func(c *cobra.Command, names []string) error {
			dir, err := a.ModelFolder()
			if err != nil {
				return err
			}
			return removeModels(c.Context(), a, dir, names)
		},
	}
}

func removeModels(ctx context.Context, a *cli.App, dir string, names []string) error {
	var chosen []hub.Model
	for _, name := range names {
		m, err := hub.Find(dir, name)
		if missing, ok := errors.AsType[*hub.MissingError](err); ok {
			return fmt.Errorf("there is no model %s in %s: \"pilotfish list\" shows what there is", missing.Ref, dir)
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		chosen = append(chosen, m)
	}
	for _, m := range chosen {
		what := fmt.Sprintf("%s:%s (%s)", m.Repository(), m.File, humanize.Bytes(uint64(m.Size)))
		if a.CanAsk() {
			yes, err := a.Ask(ctx, "Remove "+what+"?")
			if err != nil {
				return err
			}
			if !yes {
				continue
			}
		}
		if err := hub.Remove(dir, m); err != nil {
			return err
		}
		fmt.Fprintf(a.Stderr, "removed %s\n", what)
	}
	return nil
}
