package routing

import (
	"context"

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

The same questions are answered in several modes, and the results are printed as tables, with a legend and a summary:

` + modesHelp + `

` + promiseHelp,
		Example: `  pilotfish demo
  pilotfish demo --rtt 300ms --loss 0.05 --questions 40 --html demo.html`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.demo(c.Context(), a) },
	}
	f.register(c, 60)
	f.page.register(c)
	return c
}

// demo measures the models and questions that are a part of the program.
func (f *routingFlags) demo(ctx context.Context, a *cli.App) error {
	o, s, err := f.options(demo.Router())
	if err != nil {
		return err
	}
	if o.Questions, err = f.demoQuestions(); err != nil {
		return err
	}
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
func (f *routingFlags) demoQuestions() ([]task.Question, error) {
	heldOut := demo.Questions(demo.HeldOut)
	if f.questions > len(heldOut) {
		return nil, cli.Usagef("--questions %d is too many: the demo has %d", f.questions, len(heldOut))
	}
	var all []task.Question
	for _, q := range heldOut[:f.questions] {
		all = append(all, task.Question{Text: q.Text, Grade: task.JudgeBy(q.Correct)})
	}
	return all, nil
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
