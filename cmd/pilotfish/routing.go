package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newBenchRoutingCommand measures routing with models and questions of one's own, or those of the demo.
func newBenchRoutingCommand(a *app) *cobra.Command {
	var f routingFlags
	var workload, edge, large string
	c := &cobra.Command{
		Use:   "routing [flags]",
		Short: "Compare the modes of routing over an emulated link",
		Long: `Compare the modes of routing over an emulated link, with everything in this process.

With --upstream, serial and pipelined-N ask inference engines over HTTP, through the gateway, in place of the large
model, and as fast as the engines are: --cloud-ms is for paper and cloud then.

The workload is the demo's models and questions, or a file of your own questions with --model and --large: one JSON object
{"question": "…"} per line. Where it has an "answer" too, whatever contains that text counts as right.

` + modesHelp + `

` + promiseHelp,
		Example: `  pilotfish bench routing --workload demo --rtt 200ms --modes serial,pipelined-4 --json
  pilotfish bench routing --workload questions.jsonl -m small.gguf --large big.gguf`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.checkUpstream(); err != nil {
				return err
			}
			if workload == "demo" {
				if edge != "" || large != "" {
					return usagef("--model and --large are for questions of your own: add --workload FILE, or leave them out")
				}
				return f.demo(c.Context(), a)
			}
			return f.own(c.Context(), a, workload, edge, large)
		},
	}
	f.register(c, 0)
	f.upstream.registerAll(c.Flags())
	c.Flags().StringVar(&workload, "workload", "demo", "demo, or a `file` of questions")
	c.Flags().StringVarP(&edge, "model", "m", "", "the small model, a GGUF `file`, for questions of your own")
	c.Flags().StringVar(&large, "large", "", "the large model, a GGUF `file`, for questions of your own")
	return c
}

// own measures models and questions of the user.
func (f *routingFlags) own(ctx context.Context, a *app, workload, edge, large string) error {
	if edge == "" || large == "" {
		return usagef("questions of your own need two models: give --model and --large")
	}
	o, s, err := f.options(nil)
	if err != nil {
		return err
	}
	if o.Questions, err = f.readQuestions(workload); err != nil {
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
	o.MaxTokens = 256
	return f.measure(ctx, a, o, s)
}

// readQuestions reads the first questions of a file of JSON lines: as many as were asked for, or at most the default.
func (f *routingFlags) readQuestions(path string) (all []bench.Question, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--workload: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for line := 1; len(all) < f.questions && lines.Scan(); line++ {
		q, err := parseQuestion(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
		}
		all = append(all, q)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s: line %d is longer than 1 MB", path, len(all)+1)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(all) == 0:
		return nil, fmt.Errorf("%s: the file has no questions", path)
	case len(all) < f.questions && f.flags.Changed("questions"):
		return nil, usagef("--questions %d is too many: %s has %d", f.questions, path, len(all))
	}
	return all, nil
}

// parseQuestion reads one line.
func parseQuestion(line []byte) (bench.Question, error) {
	var q struct{ Question, Answer string }
	if err := json.Unmarshal(line, &q); err != nil {
		return bench.Question{}, err
	}
	if q.Question == "" {
		return bench.Question{}, errors.New(`the object has no "question"`)
	}
	one := bench.Question{Text: q.Question}
	if q.Answer != "" {
		one.Correct = func(said string) bool { return strings.Contains(said, q.Answer) }
	}
	return one, nil
}
