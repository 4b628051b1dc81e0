package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

func newEvalFetchCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download the questions of a benchmark from their published address",
		Long: `Download the questions of a benchmark from their published address and print the path of the file:

` + measure.BenchmarkTable(fetchedText) + `
The SHA-256 of each file is built into this program: any other file is rejected and deleted. An interrupted download is
resumed.`,
		Example: "  pilotfish-bench eval fetch csqa",
		Args: cobra.MatchAll(cli.OneArg("the name of a data set, such as csqa"),
			cli.OneOf("a data set with an address", slices.Sorted(maps.Keys(measure.Published())))),
		RunE: func(c *cobra.Command, args []string) error {
			return fetchQuestions(c.Context(), a, measure.Published()[args[0]])
		},
	}
}

// fetchedText describes the files of a benchmark.
func fetchedText(b *task.Benchmark) string {
	text := b.About + " (" + b.Source + ")"
	if b.Training != (task.File{}) {
		text += "; " + b.Name + "-train: those for training"
	}
	return text
}

func fetchQuestions(ctx context.Context, a *cli.App, set hub.Address) error {
	dir, err := measure.DataDir()
	if err != nil {
		return err
	}
	m := cli.NewMeter(a.Stderr, set.Name, true)
	f, err := hub.Fetch(ctx, set, hub.Options{Dir: dir, Progress: m.Show, Notice: m.Say})
	m.Close()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, f.Path)
	return err
}
