// Package routing has the command pilotfish-bench routing.
package routing

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// NewCommand returns the command that measures routing with models and questions of the user, or those of the
// demo.
func NewCommand(a *cli.App) *cobra.Command {
	var f routingFlags
	var workload, edge, large string
	c := &cobra.Command{
		Use:   "routing [flags]",
		Short: "Compare routing modes over an emulated link",
		Long: `Compare routing modes over an emulated link, with everything in this process.

With --upstream, the modes over our protocol ask inference engines over HTTP, through the gateway, instead of the large
model, at the speed of the engines: --cloud-ms then applies to paper and cloud only. Modes that verify are refused if
the engines cannot report for each token whether it is their choice; the large model's text is used for comparisons
with cloud.

The workload is the demo's models and questions. With --model and --large it is a few everyday questions, or a file of
your own questions: one JSON object {"question": "…"} per line. If it also has an "answer", an answer that contains that
text counts as correct, unless a "grader" says otherwise: exact, number, or choice for questions with "choices".

` + sweepHelp + `

` + replayHelp + `

` + outcome.ModesHelp + `

` + promiseHelp,
		Example: `  pilotfish-bench routing --workload demo --rtt 0,50,100,200,300ms ` +
			`--modes local,serial,pipelined-4 --json
  pilotfish-bench routing -m small.gguf --large big.gguf --questions 2
  pilotfish-bench routing -m small.gguf --large big.gguf --workload questions.jsonl`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.recording.replay != "" {
				return f.replayRecording(c.Context(), a)
			}
			if err := f.upstream.Check(f.flags); err != nil {
				return err
			}
			if (edge == "") != (large == "") || edge == "" && f.flags.Changed("workload") && workload != "demo" ||
				edge != "" && f.flags.Changed("workload") && workload == "demo" {
				return cli.Usagef("--model and --large are two models of your own, for questions of your own: give " +
					"both, " +
					"with --workload FILE if you have questions, or none of the three")
			}
			if edge != "" && !f.flags.Changed("workload") {
				workload = everyday
			}
			if workload != "demo" {
				return f.measureOwn(c.Context(), a, workload, edge, large)
			}
			return f.measureDemo(c.Context(), a)
		},
	}
	f.registerFlags(c)
	f.registerSweepFlags(c)
	f.upstream.RegisterAll(c.Flags())
	f.recording.registerFlags(c)
	measure.Add(c.Flags(), "workload", &workload, "demo")
	cli.Add(c.Flags(), "model", &edge, "")
	cli.Add(c.Flags(), "large", &large, "")
	return c
}

// everyday is the default workload for models of the user.
const everyday = "everyday"

func everydayQuestions() (all []task.Question) {
	for _, text := range []string{
		"In one sentence: why does the sea look blue?",
		"Write a Python function that returns the sum of a list of numbers.",
		"Name three fish that live in rivers.",
		"What is 17 + 25? Answer with the number alone.",
		"Translate into French: Good morning, how are you?",
		"In two sentences: what does a compiler do?",
		"Which planet of our solar system is the largest?",
		"Give me a one-line shell command that counts the lines of a file.",
	} {
		all = append(all, task.Question{Text: text})
	}
	return all
}

func (f *routingFlags) measureOwn(ctx context.Context, a *cli.App, workload, edge, large string) error {
	o, s, err := f.routingOptions(nil)
	if err != nil {
		return err
	}
	if o.Questions, err = f.readQuestions(a, workload); err != nil {
		return err
	}
	if o.Edge, err = engine.Open(edge, engine.Options{}); err != nil {
		return err
	}
	defer o.Edge.Close()
	if o.Large, err = engine.Open(large, engine.Options{}); err != nil {
		return err
	}
	defer o.Large.Close()
	if err := measure.CheckPair(a, o.Edge, o.Large, "--large "+large, f.raw); err != nil {
		return err
	}
	if o.MaxTokens == 0 && workload != everyday {
		o.MaxTokens = 256
	}
	return f.measureCells(ctx, a, o, s)
}

// readQuestions reads the first questions of a file: as many as requested, by default at most the usual number.
func (f *routingFlags) readQuestions(a *cli.App, path string) ([]task.Question, error) {
	if all := everydayQuestions(); path == everyday {
		return all[:f.limitQuestions(a, len(all))], nil
	}
	set, err := task.Open(path, task.Options{})
	if err != nil {
		return nil, fmt.Errorf("--workload: %w", err)
	}
	return set.Questions[:f.limitQuestions(a, len(set.Questions))], nil
}
