package routing

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// NewDemoCommand returns the command that runs the whole system with the models in the binary.
func NewDemoCommand(a *cli.App) *cobra.Command {
	var f routingFlags
	c := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Try the whole system in one process: two tiny models, a gateway, an emulated link",
		Long: `Run the whole system in one process: a tiny pair of trained models that is part of the program, the
gateway, and an emulated link between them. The models know an invented world. The small one was trained on some of
its facts, so it has something to ask the large one.

The same questions are answered in several modes, and the results are printed as a table with a legend:

` + modesHelp + `

` + promiseHelp,
		Example: `  pilotfish demo
  pilotfish demo --rtt 300ms --loss 0.05 --questions 40 --html demo.html`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.demo(c.Context(), a) },
	}
	f.register(c, "60")
	cli.Add(c.Flags(), "html", &f.page, "")
	return c
}

// demo measures the models and questions that are a part of the program.
func (f *routingFlags) demo(ctx context.Context, a *cli.App) error {
	o, s, err := f.options(demo.Router())
	if err != nil {
		return err
	}
	o.Questions = f.demoQuestions(a)
	if o.Edge, err = group.Embedded(demo.Small(), "demo/small.gguf"); err != nil {
		return err
	}
	defer o.Edge.Close()
	if o.Large, err = group.Embedded(demo.Large(), "demo/large.gguf"); err != nil {
		return err
	}
	defer o.Large.Close()
	if s.Typical, err = demoTexts(o.Edge); err != nil {
		return err
	}
	return f.measure(ctx, a, o, s)
}

// demoQuestions returns the first of the held-out questions, as many as requested.
func (f *routingFlags) demoQuestions(a *cli.App) (all []task.Question) {
	heldOut := demo.Questions(demo.HeldOut)
	for _, q := range heldOut[:f.atMost(a, len(heldOut))] {
		all = append(all, task.Question{Text: q.Text, Grade: task.JudgeBy(q.Correct)})
	}
	return all
}

// atMost returns the number of questions to ask of those that there are. It says if --questions are more.
func (f *routingFlags) atMost(a *cli.App, there int) int {
	if f.flags.Changed("questions") && f.questions > there {
		fmt.Fprintf(a.Stderr, "--questions %d: there are only %d\n", f.questions, there)
	}
	return min(f.questions, there)
}

// demoTexts returns chats of the training split, for training a dictionary for the wire.
func demoTexts(e *engine.Engine) (all [][]int32, err error) {
	t, err := e.Tokenizer()
	if err != nil {
		return nil, err
	}
	for _, q := range demo.Questions(demo.Train) {
		prompt, err := t.Chat([]tokenizer.Message{{Role: "user", Content: q.Text}}, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, append(prompt, t.Encode(q.Answer, false)...))
	}
	return all, nil
}
