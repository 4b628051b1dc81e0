package routing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/replay"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// NewDemoCommand returns the command that shows with the models in the binary what routing gains.
func NewDemoCommand(a *cli.App) *cobra.Command {
	var f routingFlags
	c := &cobra.Command{
		Use:   "demo [flags]",
		Short: "See in a few seconds what routing gains, with two tiny models of the program",
		Long: `Answer questions with a tiny pair of trained models that is part of the program: by the small one
alone, by the large one alone, streamed from a server, and by the small one that asks the large one for single tokens.
The models know an invented world. The small one was trained on some of its facts, so it has something to ask for.

The answers are those of the models. Their times are virtual: a device and a server read and write at the speeds of a
real pair. So the load of this machine changes nothing, and the same call prints the same.

With --all, --json, --html, --modes, --deadline, --timeline or --edge-tps 0 the whole system runs in real time instead:
both models, the gateway, and an emulated link. The results of these modes are a table:

` + outcome.ModesHelp + `

` + promiseHelp,
		Example: `  pilotfish demo
  pilotfish demo --rtt 300ms --cloud-ms 20
  pilotfish demo --all --loss 0.05 --questions 40 --html demo.html`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.edgeTPS == 0 || len(f.cellCombinations()) > 1 ||
				f.isAnyGiven("all json html modes deadline timeline") {
				return f.measureDemo(c.Context(), a, f.measureCells)
			}
			return f.measureDemo(c.Context(), a, f.showGain)
		},
	}
	f.registerFlags(c, realPairSpeeds())
	cli.Add(c.Flags(), "html", &f.page, "")
	return c
}

// realPairSpeeds returns the speeds of Qwen2.5-Coder 0.5B and 1.5B in Q4_K_M in docs/results/real-times.jsonl.gz, each
// on two cores. The measured speeds of reading prompts are those of that file.
func realPairSpeeds() speeds { return speeds{edgeTPS: 60, rowCost: 0.08, cloudMS: 40} }

const (
	deviceReads = 1450.0 // tokens of a prompt per second
	serverReads = 380.0
)

func (f *routingFlags) measureDemo(
	ctx context.Context, a *cli.App,
	measure func(context.Context, *cli.App, routing.Options, remote.StageOptions) error,
) error {
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
	return measure(ctx, a, o, s)
}

// usuallyShown is the default number of questions in virtual time: more take longer without a further insight.
const usuallyShown = 50

func (f *routingFlags) showGain(ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions) error {
	if !f.flags.Changed("questions") {
		o.Questions = o.Questions[:min(len(o.Questions), usuallyShown)]
	}
	p, err := f.recordAnswers(ctx, a, o)
	if err != nil {
		return err
	}
	r := routing.ReplayOptions{
		Player: p, Modes: knownModes("local,cloud,pipelined-auto"), Router: o.Router, Draft: o.Draft, Link: &s,
		EdgeTPS: o.EdgeTPS, RowCost: o.RowCost, CloudPace: &o.CloudPace,
	}
	r.Draft.Deadline = -1
	reports, err := routing.Replay(ctx, r)
	if err != nil {
		return err
	}
	words, err := o.Edge.Tokenizer()
	if err != nil {
		return err
	}
	printExamples(a, o.Questions, p, words)
	f.printGain(a, &o, reports)
	return nil
}

// recordAnswers decodes all answers once, as fast as this machine can, one after the other so that each call does the
// same.
func (f *routingFlags) recordAnswers(ctx context.Context, a *cli.App, o routing.Options) (*replay.Player, error) {
	o.Modes = knownModes("local,cloud,serial")
	o.Draft.Deadline, o.Parallel, o.EdgeTPS, o.RowCost, o.CloudPace, o.RTT, o.WarmUp = -1, 1, 0, 0, 0, 0, 0
	h, err := o.Records()
	if err != nil {
		return nil, err
	}
	var kept bytes.Buffer
	if o.Record, err = replay.NewRecorder(&kept, h); err != nil {
		return nil, err
	}
	_, err = f.measureCell(ctx, a, o, remote.StageOptions{})
	if err = errors.Join(err, o.Record.Close()); err != nil {
		return nil, err
	}
	rec, err := replay.Read(&kept, "demo")
	if err != nil {
		return nil, err
	}
	rec.ReadAt(deviceReads, serverReads)
	return replay.NewPlayer(rec)
}

// knownModes parses modes whose names are known to be right.
func knownModes(names string) []outcome.Mode {
	all, _ := outcome.ParseModes(names)
	return all
}

// printExamples prints two questions that the small model answers wrongly alone, with both answers.
func printExamples(a *cli.App, questions []task.Question, p *replay.Player, words *tokenizer.Tokenizer) {
	fmt.Fprintf(a.Stdout, "A small model of an invented world, alone and with %s of a large one:\n",
		cli.Marked(a, "tokens"))
	for i, left := 0, 2; i < len(questions) && left > 0; i++ {
		alone, asking := p.Found("local", i)[0], p.Found("serial", i)[0]
		if alone.Correct || !asking.Correct {
			continue
		}
		left--
		fmt.Fprintf(a.Stdout, "  %s\n    alone:  %s\n    asking: %s\n\n",
			strings.Replace(questions[i].Text, " Places:", "\n  Places:", 1), answerFacts(a, alone.IDs, nil, words),
			answerFacts(a, asking.IDs, asking.Asked(), words))
	}
}

func answerFacts(a *cli.App, ids []int32, marked map[int]bool, words *tokenizer.Tokenizer) string {
	var b strings.Builder
	for i, id := range ids {
		word := words.Decode([]int32{id})
		if strings.Contains(word, ":") {
			return b.String() + ": …"
		}
		if marked[i] {
			word = cli.Marked(a, word)
		}
		b.WriteString(word)
	}
	return b.String()
}

func (f *routingFlags) printGain(a *cli.App, o *routing.Options, reports []outcome.Report) {
	const row = "%-33s %5s %14s %25s\n"
	fmt.Fprintf(a.Stdout, row, fmt.Sprintf("%d questions", reports[0].Answers), "right", "time, median",
		"the large one computes")
	for i, name := range []string{
		"small model alone", "large model alone, streamed", "small model that asks the large",
	} {
		r, tokens := &reports[i], "nothing"
		if c := r.CloudTokens; c != nil {
			tokens = fmt.Sprintf("%.1f tokens an answer", c.Decoded)
		}
		fmt.Fprintf(a.Stdout, row, name, fmt.Sprintf("%.0f%%", 100**r.Accuracy), chart.Number(r.Time.P50)+" ms", tokens)
	}
	large, ours := &reports[1], &reports[2]
	if *ours.EscalatedShare == 0 {
		fmt.Fprintln(a.Stdout, "\nWith these flags the small model asks for nothing.")
		return
	}
	busy := func(r *outcome.Report) float64 {
		return r.CloudTokens.Prefilled/serverReads + r.CloudTokens.Decoded*o.CloudPace.Seconds()
	}
	fmt.Fprintf(a.Stdout, `
With %.1f%% of its tokens from the large model, the small one is right in %.0f%%,
the large one alone in %.0f%%. It is %.1f times as fast. The server computes
%.2f s for an answer in place of %.2f: enough for %.1f times as many devices.

Times are virtual: load changes nothing. The link takes %v; the device reads
%v and writes %v tokens/s; the server reads %v and takes %v ms for each of
its own%s.
Next, on your server, for which it prints the command of your device:
  pilotfish cloud -m large.gguf
`, 100**ours.EscalatedShare, 100**ours.Accuracy, 100**large.Accuracy, large.Time.P50/ours.Time.P50, busy(ours),
		busy(large), busy(large)/busy(ours), o.RTT, deviceReads, f.edgeTPS, serverReads, f.cloudMS, f.speedSource())
}

func (f *routingFlags) speedSource() string {
	if f.speeds != realPairSpeeds() {
		return ""
	}
	return ", like Qwen2.5-Coder 0.5B and 1.5B (docs/study/results.md)"
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
