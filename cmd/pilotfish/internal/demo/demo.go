// Package demo has the command pilotfish demo.
package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// shownQuestions is the number of questions: more take longer without a further insight.
const shownQuestions = 50

// NewCommand returns the command that shows with the models in the binary what routing gains.
func NewCommand(a *cli.App) *cobra.Command {
	var rtt time.Duration
	c := &cobra.Command{
		Use:   "demo [flags]",
		Short: "See in a few seconds what routing gains, with two tiny models of the program",
		Long: `Answer questions with a tiny pair of trained models that is part of the program: by the small one
alone, by the large one alone, streamed from a server, and by the small one that asks the large one for single tokens.
The models know an invented world. The small one was trained on some of its facts, so it has something to ask for.

The answers are those of the models. Their times are virtual: a device and a server read and write at the speeds of a
real pair. So the load of this machine changes nothing, and the same call prints the same. The program pilotfish-bench
measures the whole system in real time, with these models or your own: "pilotfish-bench routing".`,
		Example: `  pilotfish demo
  pilotfish demo --rtt 300ms`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showGain(c.Context(), a, demo.Questions(demo.HeldOut)[:shownQuestions], rtt)
		},
	}
	cli.Add(c.Flags(), "rtt", &rtt, 100*time.Millisecond)
	return c
}

func showGain(ctx context.Context, a *cli.App, questions []demo.Question, rtt time.Duration) (err error) {
	p := &virtualPair{rtt: rtt}
	if p.small, err = group.Embedded(demo.Small(), "demo/small.gguf"); err != nil {
		return err
	}
	defer p.small.Close()
	if p.large, err = group.Embedded(demo.Large(), "demo/large.gguf"); err != nil {
		return err
	}
	defer p.large.Close()
	if err := p.preparePrompts(questions); err != nil {
		return err
	}
	m := cli.NewMeter(a.Stderr, "answers", false)
	defer m.Close()
	done := int64(0)
	answers, err := p.answerAll(ctx, questions, func() { done++; m.Show(done, int64(3*len(questions))) })
	if err != nil {
		return err
	}
	words, err := p.small.Tokenizer()
	if err != nil {
		return err
	}
	printExamples(a, questions, answers, words)
	printGain(a, rtt, answers)
	return nil
}

// answerAll answers the questions by the small model alone, by the large one alone, and by the small one that asks.
func (p *virtualPair) answerAll(
	ctx context.Context, questions []demo.Question, answered func(),
) (all [3][]virtualAnswer, err error) {
	service, err := p.large.Serve(engine.ServeOptions{Slots: 2 * p.large.Context(), Lookup: -1, Apart: true})
	if err != nil {
		return all, err
	}
	defer service.Close()
	asks, err := router.New(router.Options{Policy: router.Margin})
	if err != nil {
		return all, err
	}
	local, err1 := p.small.NewSession()
	large, err2 := p.large.NewSession()
	asking, err3 := p.small.NewSession()
	if err := errors.Join(err1, err2, err3); err != nil {
		return all, err
	}
	far := service.Local(1)
	if _, err := p.answerWith(ctx, asking, far, asks, 0, questions[0]); err != nil { // it learns what its passes cost
		return all, err
	}
	for i, q := range questions {
		for by, answer := range []func() (virtualAnswer, error){
			func() (virtualAnswer, error) { return p.answerWith(ctx, local, nil, nil, i, q) },
			func() (virtualAnswer, error) { return p.answerAlone(ctx, large, i, q) },
			func() (virtualAnswer, error) { return p.answerWith(ctx, asking, far, asks, i, q) },
		} {
			one, err := answer()
			if err != nil {
				return all, err
			}
			all[by] = append(all[by], one)
			answered()
		}
	}
	return all, nil
}

// printExamples prints two questions that the small model answers wrongly alone, with both answers.
func printExamples(
	a *cli.App, questions []demo.Question, answers [3][]virtualAnswer, words *tokenizer.Tokenizer,
) {
	fmt.Fprintf(a.Stdout, "A small model of an invented world, alone and with %s of a large one:\n",
		cli.Marked(a, "tokens"))
	for i, left := 0, 2; i < len(questions) && left > 0; i++ {
		alone, asking := answers[0][i], answers[2][i]
		if alone.right || !asking.right {
			continue
		}
		left--
		fmt.Fprintf(a.Stdout, "  %s\n    alone:  %s\n    asking: %s\n\n",
			strings.Replace(questions[i].Text, " Places:", "\n  Places:", 1), answerFacts(a, alone, words),
			answerFacts(a, asking, words))
	}
}

func answerFacts(a *cli.App, answer virtualAnswer, words *tokenizer.Tokenizer) string {
	var b strings.Builder
	for i, id := range answer.ids {
		word := words.Decode([]int32{id})
		if strings.Contains(word, ":") {
			return b.String() + ": …"
		}
		if answer.asked[i] {
			word = cli.Marked(a, word)
		}
		b.WriteString(word)
	}
	return b.String()
}

// gain is the mean of some answers.
type gain struct {
	right   float64 // share
	median  float64 // milliseconds
	decoded float64 // tokens of the large model
	busy    float64 // seconds of the server
	share   float64 // of the tokens, those of the large model
}

func meanOf(answers []virtualAnswer) (g gain) {
	n, tokens, cloud := float64(len(answers)), 0, 0
	var times []time.Duration
	for _, one := range answers {
		if one.right {
			g.right += 1 / n
		}
		g.decoded += float64(one.sum.Decoded) / n
		g.busy += (float64(one.sum.Prefilled)/serverReads + float64(one.sum.Decoded)*serverPace.Seconds()) / n
		tokens, cloud = tokens+one.sum.Tokens, cloud+one.sum.Cloud
		times = append(times, one.took)
	}
	slices.Sort(times)
	g.median = float64(times[(len(times)-1)/2]) / float64(time.Millisecond)
	if tokens > 0 {
		g.share = float64(cloud) / float64(tokens)
	}
	return g
}

func printGain(a *cli.App, rtt time.Duration, answers [3][]virtualAnswer) {
	const row = "%-33s %5s %14s %25s\n"
	fmt.Fprintf(a.Stdout, row, fmt.Sprintf("%d questions", len(answers[0])), "right", "time, median",
		"the large one computes")
	var all [3]gain
	for i, name := range []string{
		"small model alone", "large model alone, streamed", "small model that asks the large",
	} {
		g, tokens := meanOf(answers[i]), "nothing"
		if g.decoded > 0 {
			tokens = fmt.Sprintf("%.1f tokens an answer", g.decoded)
		}
		fmt.Fprintf(a.Stdout, row, name, fmt.Sprintf("%.0f%%", 100*g.right), chart.Number(g.median)+" ms", tokens)
		all[i] = g
	}
	large, ours := all[1], all[2]
	fmt.Fprintf(a.Stdout, `
With %.1f%% of its tokens from the large model, the small one is right in %.0f%%,
the large one alone in %.0f%%. It is %.1f times as fast. The server computes
%.2f s for an answer in place of %.2f: enough for %.1f times as many devices.

Times are virtual: load changes nothing. The link takes %v; the device reads
%v and writes %v tokens/s; the server reads %v and takes %v ms for each of
its own, like Qwen2.5-Coder 0.5B and 1.5B (docs/study/results.md).
Next, on your server, for which it prints the command of your device:
  pilotfish cloud -m large.gguf
`, 100*ours.share, 100*ours.right, 100*large.right, large.median/ours.median, ours.busy, large.busy,
		large.busy/ours.busy, rtt, deviceReads, deviceWrites, serverReads, serverPace.Milliseconds())
}
