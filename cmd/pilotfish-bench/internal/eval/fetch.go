package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

func newEvalFetchCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download the questions of a benchmark from their published address",
		Long: `Download the questions of a benchmark from their published address and print the path of the file:

  csqa        CommonsenseQA, development split (Talmor, Herzig, Lourie and Berant, NAACL 2019)
  csqa-train  its training split, 9,741 questions, for training and calibrating routers
  gsm8k       GSM8K, test split (Cobbe et al., arXiv 2110.14168)
  gsm8k-train its training split, 7,473 problems
  arc         ARC, test split of the challenge set (Clark et al., arXiv 1803.05457), from a copy of the archive's files
  arc-train   its training split, 1,119 questions
  humaneval   HumanEval (Chen et al., arXiv 2107.03374)
  mbpp        MBPP (Austin et al., arXiv 2108.07732): one file with the test split, which eval asks, and the training
              split of 374 problems, --task mbpp-train

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
