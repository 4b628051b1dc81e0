package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// metalPlanFlags has the flags of `pilotfish-bench metal-plan`.
type metalPlanFlags struct {
	gpu, shape, kind string
	json             bool
}

// planContext is the number of tokens that the predicted token sees.
const planContext = 100

func newBenchMetalPlanCommand(a *cli.App) *cobra.Command {
	var f metalPlanFlags
	c := &cobra.Command{
		Use:   "metal-plan [GPU] [flags]",
		Short: "Predict the speed of a token on a Mac's GPU, dispatch by dispatch",
		Long: `Predict what a token costs on the GPU of a Mac, on any machine: a pass is encoded for a device that runs
nothing, and a small model of the GPU says how long each of its dispatches takes. Nothing is measured.

For each dispatch: how many equal ones a token has, threadgroups and threads of each, bytes of weights (or keys and
values) that it reads, bytes that its threadgroups fetch from caches, instructions, bytes that a core has in flight,
trips (fetches of a simdgroup that wait for each other), the share of a product's lanes that are idle (their columns or
rows are not there, or others have more to do), the time, and what decides it: memory (the bandwidth), latency (too
little in flight), arithmetic, caches, or step (that it has to wait for the dispatch before it). Instructions are those
of another GPU's compiler; the package bench/metalplan has all constants and their sources.

GPUs: ` + strings.Join(gpuNames(), " ") + ". Types: " + strings.Join(synth.RecipeNames(), " ") + ".",
		Example: `  pilotfish-bench metal-plan m4pro --type q4_0`,
		Args:    cobra.MatchAll(cli.UpToOneArg("the name of a GPU"), cli.OneOf("a GPU", gpuNames())),
		RunE: func(c *cobra.Command, args []string) error {
			f.gpu = cmp.Or(strings.Join(args, ""), "m1")
			return f.runMetalPlan(c.Context(), a)
		},
	}
	measure.Add(c.Flags(), "shape", &f.shape, "0.5b")
	measure.Add(c.Flags(), "type", &f.kind, "q8_0")
	cli.Add(c.Flags(), "json", &f.json, false)
	return c
}

func gpuNames() (names []string) {
	for _, g := range metalplan.GPUs() {
		names = append(names, g.Name)
	}
	return names
}

func (f *metalPlanFlags) runMetalPlan(ctx context.Context, a *cli.App) error {
	spec, err := parseSpec(f.shape, f.kind, 1)
	if err != nil {
		return err
	}
	g := metalplan.GPUs()[slices.Index(gpuNames(), f.gpu)]
	p, err := metalplan.Predict(ctx, g, spec, planContext)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(a.Stdout).Encode(p)
	}
	fmt.Fprintf(a.Stdout, "%s, %d cores, %.0f GB/s; shape %s, %s\n", g.Chip, g.Cores, g.Bandwidth, f.shape, f.kind)
	return p.Write(a.Stdout)
}
