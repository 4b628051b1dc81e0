package routing

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// measureDemo measures with the models and questions of `pilotfish demo`.
func (f *routingFlags) measureDemo(ctx context.Context, a *cli.App) error {
	o, s, err := f.routingOptions(demo.Router())
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
	return f.measureCells(ctx, a, o, s)
}

func (f *routingFlags) demoQuestions(a *cli.App) (all []task.Question) {
	heldOut := demo.Questions(demo.HeldOut)
	for _, q := range heldOut[:f.limitQuestions(a, len(heldOut))] {
		all = append(all, task.Question{Text: q.Text, Grade: task.JudgeBy(q.Correct)})
	}
	return all
}

// limitQuestions returns the number of questions to ask of those that there are: all for 0. It says if --questions are
// more.
func (f *routingFlags) limitQuestions(a *cli.App, there int) int {
	if f.flags.Changed("questions") && f.questions > there {
		fmt.Fprintf(a.Stderr, "--questions %d: there are only %d\n", f.questions, there)
	}
	return min(cmp.Or(f.questions, there), there)
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
