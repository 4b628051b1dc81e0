// Package eval implements pilotfish-bench eval, which measures accuracy against the share of tokens from the cloud.
package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// NewCommand returns the command that compares policies by their answers.
func NewCommand(a *cli.App) *cobra.Command {
	var f evalFlags
	names := append(measure.BenchmarkNames(), task.Demo)
	c := &cobra.Command{
		Use:   "eval " + strings.Join(names, "|") + "|FILE.jsonl [flags]",
		Short: "Measure accuracy against the share of tokens from the large model",
		Long: `Answer the questions of a benchmark or a file with each policy and threshold, and compare the answers:
accuracy against the share of tokens from the large model. Decoding is serial, which is the definition of routing, and
each answer of the large model is waited for: this command is about answers; "routing" is about time.

` + measure.BenchmarkTable(askedText) +
			`  demo        held-out questions about the world of the demo; without -m, with the models of the demo
  FILE.jsonl  your own: {"question": "…", "answer": "…", "grader": "contains"} per line. The grader is contains, exact,
              pattern (a regular expression) or number; with "choices": {"label": […], "text": […]} it is choice.
              Without "answer", answers are compared by how far they match the large model's own text

Without --data questions are in the file that "pilotfish-bench eval fetch" has downloaded. Methods are chosen on --split
development and judged on --split test: docs/study/measuring.md describes the parts.

Answers that are programs are right if these pass the tests of the question: the accuracy is pass@1. With
--run-code python3 (3.8 or later) runs the programs, at most two at a time, each in a process and an empty folder of its
own, with at most 10 s of computing, 40 s in all, 512 MB of memory, one process, 64 MB of files, and no output. On Linux
they have no network and write nowhere else. What a system does not limit is named on stderr.

With --verify, each policy and threshold is also tried with each verification margin. The policy rule is a baseline that
nothing was trained for: it asks for the token after words like "The answer is", and for no other.

Without --threshold and --budget each policy may ask for 7% of the tokens, like run. A router with a certificate is also
tried at its threshold, unless --threshold is given.

With -o, each answer is stored in a file as soon as it is graded, and the same command continues where it was stopped,
even by kill -9. An answer with the same decisions as at another threshold is not decoded twice.

Without --json, the output is a table with a legend; --html writes a page with curves and every answer.`,
		Example: `  pilotfish-bench eval demo --questions 100
  pilotfish-bench eval csqa -m small.gguf --large big.gguf --router router.gguf -o csqa.jsonl --html csqa.html`,
		Args: cli.OneArg("a data set: " + strings.Join(names, ", ") + ", or a file of questions"),
		RunE: func(c *cobra.Command, args []string) error { return f.runEval(c, a, args[0]) },
	}
	f.registerFlags(c)
	c.ValidArgsFunction = cobra.FixedCompletions(names, cobra.ShellCompDirectiveDefault)
	c.AddCommand(newEvalFetchCommand(a), newEvalShowCommand(a))
	return c
}

// askedText describes a benchmark.
func askedText(b *task.Benchmark) string {
	if b.Programs {
		return b.About + ", with --run-code"
	}
	return b.About
}

// runEval asks the questions and prints the report, also if it is stopped after some questions.
func (f *evalFlags) runEval(c *cobra.Command, a *cli.App, name string) (err error) {
	ctx := c.Context()
	runs, err := f.checkedRuns(a, name)
	if err != nil {
		return err
	}
	run, err := f.code.Runner(ctx, a, name)
	if err != nil {
		return err
	}
	set, err := f.openQuestions(name, run)
	if err != nil {
		return err
	}
	file, sum, err := f.loadRouter(runs)
	if err != nil {
		return err
	}
	if file != nil {
		f.pair.Judge = file.Judge
	}
	models, err := f.pair.Open(ctx, a, f.raw)
	if err != nil {
		return err
	}
	defer models.Close()
	o := f.evalOptions(set, runs)
	o.Edge, o.Far, o.Context = models.Edge, models.Far, models.Context()
	if file != nil {
		if err := group.Fitting(a, file, models.Edge, f.router); err != nil {
			return err
		}
		f.applyRouter(file, &o)
	}
	if err := checkVerification(ctx, models.Far, o); err != nil {
		return err
	}
	settings, about, err := f.logSettings(c, a, models, o, sum)
	if err != nil {
		return err
	}
	if o.Log, err = f.openLog(settings, about); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Log.Close()) }()
	if before := o.Log.Answers(); before > 0 {
		fmt.Fprintf(a.Stderr, "%s has %d of %d answers: continuing\n", f.out, before, len(set.Questions)*len(o.Runs))
	}
	failed := f.askQuestions(ctx, a, o)
	return errors.Join(f.reportResults(a, models, o), failed)
}

func (f *evalFlags) applyRouter(file *router.File, o *eval.Options) {
	o.Net, o.Runs = file.Net, f.addCertifiedRun(o.Runs, file.Certificate)
	if file.Judge != nil {
		o.Judge = file.Judge.Fingerprint()
	}
	if file.Policy() == router.Learned {
		o.Expected = file.Confidences
	}
}

func (f *evalFlags) evalOptions(set *task.Set, runs []eval.Run) eval.Options {
	o := eval.Options{
		Set: set, Runs: runs, Raw: f.raw, MaxTokens: f.max, Every: f.every,
		Sampling: terms.Sampling{Temperature: f.temp, Seed: f.seed}, // the policy random uses the same seed
	}
	if !f.pair.Set.Changed("max-tokens") {
		o.MaxTokens = set.Tokens
	}
	return o
}

// checkVerification returns an error if the large model does not support the verification of the runs.
func checkVerification(ctx context.Context, far engine.Verifier, o eval.Options) error {
	for _, r := range o.Runs {
		flag, judge := "--policy "+string(r.Policy), ""
		switch {
		case r.Verify != nil:
			flag = fmt.Sprintf("--verify %v", *r.Verify)
		case r.Policy == router.Judged:
			judge = o.Judge
		case !r.Policy.Verifies():
			continue
		}
		if err := far.Verifies(ctx, o.Sampling, judge); err != nil {
			return fmt.Errorf("%s is not possible with this large model: %w", flag, err)
		}
	}
	return nil
}

func (f *evalFlags) askQuestions(ctx context.Context, a *cli.App, o eval.Options) error {
	if f.pair.Set.Changed("cloud") {
		before := runtime.GOMAXPROCS(o.Edge.Threads() + 2) // the network needs threads while the models compute
		defer runtime.GOMAXPROCS(before)
	}
	m := cli.NewMeter(a.Stderr, "answers", false)
	o.Progress = func(done, total int) { m.Show(int64(done), int64(total)) }
	err := o.Run(ctx)
	m.Close()
	stopped, ok := errors.AsType[*cli.Interruption](err)
	if !ok {
		return err
	}
	progress := fmt.Sprintf("%d of %d answers are done", o.Log.Answers(), len(o.Set.Questions)*len(o.Runs))
	if f.out != "" {
		progress += "; the same command continues"
	}
	return &cli.Interruption{Signal: stopped.Signal, Progress: progress}
}

// reportResults prints the report and writes the page, unless there are no answers.
func (f *evalFlags) reportResults(a *cli.App, models *measure.Pair, o eval.Options) error {
	about, err := f.describeMeasurement(a, models, o.Log.About)
	if err != nil {
		return err
	}
	return reportAnswers(a, o.Set, o.Runs, o.Log, about, f.json, f.html)
}

// describeMeasurement describes the measurement. If the log has answers of an earlier call, the version, command and
// date are those of that call.
func (f *evalFlags) describeMeasurement(a *cli.App, models *measure.Pair, log eval.About) (r record.Run, err error) {
	r = group.Measured(a, "eval")
	r.Version, r.Command = log.Version, log.Command
	if r.Date, err = time.Parse(time.RFC3339, log.Date); err != nil {
		return r, fmt.Errorf("the log's date: %w", err)
	}
	if models.Large == nil {
		r.Large = &record.Model{Name: models.Name()}
		return group.Describe(r, models.Edge.File(), nil)
	}
	return group.Describe(r, models.Edge.File(), models.Large.File())
}

func (f *evalFlags) logSettings(
	c *cobra.Command, a *cli.App, models *measure.Pair, o eval.Options, routerSum string,
) (s eval.Settings, b eval.About, err error) {
	s = eval.Settings{
		Task: o.Set.Name, Split: o.Set.Split, Data: o.Set.Hash, Skip: f.skip, Questions: len(o.Set.Questions),
		Prompts: o.Set.Prompts, Shots: len(o.Set.Shots), Raw: o.Raw, Router: routerSum, Context: o.Context,
		MaxTokens: o.MaxTokens, Temperature: o.Sampling.Temperature, Seed: o.Sampling.Seed, Runs: eval.Names(o.Runs),
	}
	if slices.ContainsFunc(o.Runs, func(r eval.Run) bool { return r.Verify != nil }) {
		s.VerifyEvery = o.Every
	}
	m := f.pair.Model
	s.Arithmetic = fmt.Sprintf("backend %s, keys and values %s, exact %v", m.Backend, m.Kv, m.Exact)
	if s.Small, err = models.Edge.Fingerprint(); err != nil {
		return s, b, err
	}
	s.Large = models.Name()
	if models.Large != nil {
		if s.Large, err = models.Large.Fingerprint(); err != nil {
			return s, b, err
		}
	}
	b = eval.About{
		Version: cli.BuildVersion(), Command: group.CommandLine(c, c.Flags().Args()),
		Date: time.Now().UTC().Format(time.RFC3339),
	}
	return s, b, nil
}

func (f *evalFlags) openLog(s eval.Settings, b eval.About) (*eval.Log, error) {
	if f.out == "" {
		return eval.NewLog(s, b), nil
	}
	l, err := eval.OpenLog(f.out, s, b)
	if err != nil {
		return nil, fmt.Errorf("-o: %w", err)
	}
	return l, nil
}

func (f *evalFlags) questionOptions() task.Options {
	return task.Options{Skip: f.skip, Most: f.questions, Data: f.data, Split: f.split.Name, Shots: f.shots}
}

func (f *evalFlags) openQuestions(name string, run task.Runner) (*task.Set, error) {
	o := f.questionOptions()
	o.Run = run
	return measure.OpenQuestions(name, o)
}
