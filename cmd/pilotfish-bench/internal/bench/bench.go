// Package bench has the commands of pilotfish-bench about speed and memory, and about results.
package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// NewCommands returns the commands in the order of the help.
func NewCommands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		newBenchEngineCommand(a), newBenchLinkCommand(a), newBenchGatewayCommand(a), newBenchCapacityCommand(a),
		newBenchCompareCommand(a), newBenchReportCommand(a), newBenchKernelsCommand(a), newBenchMetalPlanCommand(a),
		newBenchSynthCommand(a),
	}
}

func newBenchSynthCommand(a *cli.App) *cobra.Command {
	var (
		shape, kind string
		seed        uint64
	)
	c := &cobra.Command{
		Use:   "synth FILE [flags]",
		Short: "Write a model of random weights, for measurements without a real one",
		Long: `Write a complete model of random weights, for measurements without a real one. The shapes 0.5b and
1.5b are those of Qwen2.5, 0.6b, 1.7b and 4b those of Qwen3, and 0.8b and 2b those of Qwen3.5; the tiny one of Qwen2,
tiny3 of Qwen3 and tiny35 of Qwen3.5 have the same parts and run instantly. The same flags write the same bytes.

Types: ` + strings.Join(synth.RecipeNames(), " ") + ".",
		Example: `  pilotfish-bench synth --shape 0.5b --type q8_0 random.gguf`,
		Args:    cli.OneArg("the name of the file to write"),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := parseSpec(shape, kind, seed)
			if err != nil {
				return err
			}
			return writeModel(a, spec, args[0])
		},
	}
	measure.Add(c.Flags(), "shape", &shape, "0.5b")
	measure.Add(c.Flags(), "type", &kind, "q8_0")
	cli.Add(c.Flags(), "seed", &seed, 1)
	return c
}

func parseSpec(shape, kind string, seed uint64) (synth.Spec, error) {
	recipe, err := synth.ParseRecipe(kind)
	if err != nil {
		return synth.Spec{}, cli.Usagef("--type: %w", err)
	}
	return synth.Shape(shape, recipe, seed)
}

// writeModel writes a model to a new file at path. It removes an incomplete file.
func writeModel(a *cli.App, s synth.Spec, path string) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: choose another name, or remove it first", path)
	}
	if err != nil {
		return err
	}
	m := cli.NewMeter(a.Stderr, "weights", false)
	err = errors.Join(s.Write(out, m.Show), out.Close())
	m.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	_, err = fmt.Fprintln(a.Stdout, path)
	return err
}

// printTables prints the tables that `pilotfish-bench report` has of results of one measurement.
func printTables[T any](a *cli.App, all []T, about record.Run) error {
	r, err := report.Of(all, about)
	if err != nil {
		return err
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			err = errors.Join(err, t.Text(a.Stdout))
		}
	}
	return err
}
