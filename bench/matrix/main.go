// Command matrix measures the modes of routing over round trips and prints a table for docs/results.md: each question
// in all modes, in turns, so that what disturbs one disturbs all, and differences are between answers to the same
// question.
//
//	go run ./bench/matrix [-pair FOLDER] [-rtt 50ms,100ms] [-modes a,b] [-questions 48]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

const usualModes = "local,cloud,paper,speculative-8,overlapped-8,serial,pipelined-1,pipelined-2,pipelined-4," +
	"pipelined-8,pipelined-auto,verified"

// flags of the command.
type flags struct {
	stories   string
	rtts      string
	modes     string
	questions int
	parallel  int
	tokens    int
	edgeTPS   float64
	rowCost   float64
	cloud     time.Duration
	loss      float64
	threshold float64
	ahead     int
	every     int
	branches  int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// run measures what args say.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f flags
	set := flag.NewFlagSet("matrix", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.stories, "pair", "", "`folder` with the models that write stories; without it the demo's pair")
	set.StringVar(&f.rtts, "rtt", "50ms,100ms,200ms,300ms", "round trips")
	set.StringVar(&f.modes, "modes", usualModes, "modes")
	set.IntVar(&f.questions, "questions", 48, "questions, or beginnings of stories")
	set.IntVar(&f.parallel, "parallel", 8, "answers at the same time")
	set.IntVar(&f.tokens, "n", 64, "most tokens of an answer")
	set.Float64Var(&f.edgeTPS, "edge-tps", 60, "pace of the device; 0: as fast as it goes")
	set.Float64Var(&f.rowCost, "edge-row-cost", 0, "with a pace: share of a call that each further row takes")
	set.DurationVar(&f.cloud, "cloud", 40*time.Millisecond, "least time of a token of the large model")
	set.Float64Var(&f.loss, "loss", 0, "share of packets lost each way")
	set.Float64Var(&f.threshold, "threshold", -1, "of the margin policy; negative: its default")
	set.IntVar(&f.ahead, "ahead", 1, "tokens of the large model in an answer")
	set.IntVar(&f.every, "verify-every", 0, "most tokens that nobody verified, in verified; 0: the default")
	set.IntVar(&f.branches, "branches", draft.AutoBranches, "of verified; -1: as many as are worth their price")
	if err := set.Parse(args); err != nil {
		return err
	}
	if f.questions < 1 {
		return fmt.Errorf("-questions %d: give at least one", f.questions)
	}
	modes, err := parse(f.modes)
	if err != nil {
		return err
	}
	p, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	for _, text := range strings.Split(f.rtts, ",") {
		rtt, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("-rtt: %w", err)
		}
		reports, err := f.measure(ctx, p, rtt, modes)
		if err != nil {
			return err
		}
		if err := table(stdout, &f, rtt, reports); err != nil {
			return err
		}
	}
	return nil
}

func parse(list string) (modes []bench.Mode, err error) {
	for name := range strings.SplitSeq(list, ",") {
		m, err := bench.ParseMode(name)
		if err != nil {
			return nil, fmt.Errorf("-modes: %w", err)
		}
		modes = append(modes, m)
	}
	return modes, nil
}

// measure runs all modes at a round trip.
func (f *flags) measure(
	ctx context.Context, p *pair, rtt time.Duration, modes []bench.Mode,
) (_ []bench.ModeReport, err error) {
	stage, err := bench.NewStage(p.edge, p.large, bench.StageOptions{
		RTT: rtt, Loss: f.loss, AnswerTime: f.cloud, Typical: p.typical,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	o := bench.RoutingOptions{
		Edge: p.edge, Large: p.large, Questions: p.questions, Modes: modes, Raw: p.raw, Alternate: true,
		Router: router.Options{Policy: router.Margin},
		Draft: draft.Options{
			Branches: f.branches, Deadline: -1, Audit: true, Lookup: -1, Ahead: f.ahead, VerifyEvery: f.every,
		},
		MaxTokens: f.tokens, RTT: rtt, EdgeTPS: f.edgeTPS, RowCost: f.rowCost, CloudPace: f.cloud, Parallel: f.parallel,
		Direct: stage.Direct(), Dial: stage.Dial,
	}
	if f.threshold >= 0 {
		o.Router.Threshold = &f.threshold
	}
	return bench.Routing(ctx, o)
}
