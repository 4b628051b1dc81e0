package router

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// collectFlags has the flags of `pilotfish-bench router collect`.
type collectFlags struct {
	pair        measure.PairFlags
	data        string
	task        string
	split       measure.SplitFlag
	shots       int
	out         string
	raw         bool
	questions   int
	seed        uint64
	reference   string
	temperature float64
	router      string
	threshold   float64
	labels      []string
	max         int
	code        measure.CodeFlag
	json        bool
}

func newRouterCollectCommand(a *cli.App) *cobra.Command {
	var f collectFlags
	c := &cobra.Command{
		Use:   "collect [-m FILE (--large FILE | --cloud HOST:PORT)] (--data FILE | --task NAME --split NAME) -o FILE",
		Short: "Record what a small and a large model see in the same texts, to train routers on",
		Long: `Record what a small and a large model see in the same texts, as training data for router train.

Each text is a prompt with an answer (--reference):
  given    the answer in the data: the default if every question has one
  small    the small model's own greedy answer: what a router sees before it asks
  large    the large model's own greedy answer: the default otherwise
  sampled  an answer sampled from the large model (--temp, --seed)
  routed   an answer decoded by both models with a router (--router, --threshold)
  judged   the large model's own, in which each token that the small model would have chosen takes its place if the
           large model, going on from there, still answers correctly (AutoJudge, arXiv 2504.20039)

Both models read the whole text. For each token of the answer, the file then holds the small model's final hidden
state, margin and entropy, the choices of both models, log-probabilities, and labels (--label), which say where to ask
the large model:
  disagreement  if the choices differ
  citer         if the small model's choice is not the reference's token but the large model's is; if neither is,
                each model continues alone, and the final answers decide (arXiv 2502.01976). Only for correct answers
  consequence   if the choices differ and a single question decides: the small model continues alone from both, and
                the answer is correct only from the large model's choice. Best with --reference small or routed
  mismatch      with --reference judged: if the small model's token made the answer wrong. Only the positions where the
                models differ are recorded, with the large model's states before and after the small model's token

A gateway must be able to check every token of a text (an exact audit), and does not report all log-probabilities.

If the command is stopped, running it again continues where it left off and ends with the same bytes.
See docs/study/traces.md for the format.`,
		Example: `  pilotfish-bench router collect -m small.gguf --large big.gguf --data prompts.jsonl ` +
			`--label citer,consequence -o traces
  pilotfish-bench router collect --data demo-train --questions 1000 -o traces`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runCollect(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *collectFlags) registerFlags(c *cobra.Command) {
	f.pair.Register(c)
	p := c.Flags()
	measure.Add(p, "data", &f.data, "")
	measure.Add(p, "task", &f.task, "")
	f.split.Register(p)
	measure.Add(p, "shots", &f.shots, 0)
	measure.Add(p, "out", &f.out, "")
	cli.Add(p, "raw", &f.raw, false)
	measure.Add(p, "questions", &f.questions, 0)
	cli.Add(p, "seed", &f.seed, 0)
	measure.Add(p, "reference", &f.reference, "")
	cli.Add(p, "temp", &f.temperature, 1)
	cli.Add(p, "router", &f.router, "")
	cli.Add(p, "threshold", &f.threshold, router.Learned.DefaultThreshold())
	measure.Declaration("label").AddList(p, &f.labels, nil)
	cli.Add(p, "max-tokens", &f.max, 256)
	f.code.Register(p)
	cli.Add(p, "json", &f.json, false)
	cobra.CheckErr(c.MarkFlagRequired("out"))
}

func (f *collectFlags) runCollect(ctx context.Context, a *cli.App) error {
	if f.data == "" && f.task == "" && f.split.Name == "" {
		return cli.Usagef("--data is missing: give a file of questions, or a benchmark with --task and --split")
	}
	if err := f.split.CheckTask(f.task, f.data); err != nil {
		return err
	}
	if err := f.pair.Check(f.data == task.Demo || f.data == task.DemoTrain); err != nil {
		return err
	}
	if f.reference == string(collect.Routed) && f.router == "" {
		return cli.Usagef("--reference routed needs a router: give its file with --router")
	}
	if f.max == 0 {
		return cli.Usagef("-n 0 is out of range: give 1 or more")
	}
	if err := f.code.Check(f.task); err != nil {
		return err
	}
	run, err := f.code.Runner(ctx, a, f.task)
	if err != nil {
		return err
	}
	if err := cli.CheckPlace("-o", f.out); err != nil {
		return err
	}
	name, asked := f.questionOptions()
	asked.Run, asked.Shots = run, measure.Shots(a, name, f.shots)
	set, err := measure.OpenQuestions(name, asked)
	if err != nil {
		return err
	}
	o, err := f.collectOptions(set)
	if err != nil {
		return err
	}
	models, err := f.pair.Open(ctx, a, f.raw)
	if err != nil {
		return err
	}
	defer models.Close()
	o.Edge, o.Large, o.Far = models.Edge, models.Large, models.Far
	if models.Large == nil { // the network needs threads while all threads of the model compute
		before := runtime.GOMAXPROCS(models.Edge.Threads() + 2)
		defer runtime.GOMAXPROCS(before)
	}
	plan, err := collect.NewPlan(o)
	if err != nil {
		return err
	}
	return f.runPlan(ctx, a, plan)
}

func (f *collectFlags) questionOptions() (name string, o task.Options) {
	return cmp.Or(f.task, f.data), task.Options{Most: f.questions, Seed: f.seed, Data: f.data,
		Split: f.split.Name, Shots: f.shots}
}

func (f *collectFlags) collectOptions(set *task.Set) (collect.Options, error) {
	o := collect.Options{
		Data: set, Raw: f.raw, Reference: collect.Reference(f.reference), MaxTokens: f.max,
		Temperature: f.temperature, Seed: f.seed, Labels: f.labels,
		Compute: f.pair.Model.Compute(),
	}
	if f.router == "" || o.Reference != collect.Routed {
		return o, nil
	}
	file, err := engine.ReadRouter(f.router)
	if err != nil {
		return o, err
	}
	b, err := os.ReadFile(f.router)
	if err != nil {
		return o, err
	}
	sum := sha256.Sum256(b)
	o.RouterHash = hex.EncodeToString(sum[:])
	o.Router = router.Options{Policy: router.Learned, Net: file.Net, Threshold: &f.threshold}
	return o, nil
}

func (f *collectFlags) runPlan(ctx context.Context, a *cli.App, plan *collect.Plan) error {
	if f.reference == "" {
		fmt.Fprintf(a.Stderr, "answers: %s (--reference chooses others)\n", plan.Reference())
	}
	begin := time.Now()
	m := cli.NewMeter(a.Stderr, "collect", false)
	sum, err := plan.Run(ctx, f.out, func(done, total int) { m.Show(int64(done), int64(total)) })
	m.Close()
	if errors.Is(err, tokenizer.ErrUnsupported) {
		err = fmt.Errorf("%w; --raw goes on with the questions as texts instead", err)
	}
	if err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	f.printSummary(a, sum, seconds)
	if !f.json {
		return nil
	}
	return a.PrintJSON(map[string]any{"summary": collectEvent{sum, f.out, seconds}})
}

// collectEvent is the line of --json.
type collectEvent struct {
	*collect.Summary
	File    string  `json:"file"`
	Seconds float64 `json:"seconds"` // of this run, without earlier ones
}

func (f *collectFlags) printSummary(a *cli.App, s *collect.Summary, seconds float64) {
	say := func(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }
	say("%d prompts, %d positions, %.1f MB in %s, %.1f s", s.Prompts, s.Positions, float64(s.Bytes)/1e6, f.out, seconds)
	if s.LeftOut > 0 {
		say("prompts left out, as they leave no room for an answer in the models' context: %d", s.LeftOut)
	}
	if s.Cut > 0 {
		say("answers cut, as they are longer than -n %d or than the models' context has room for: %d", f.max, s.Cut)
	}
	if s.Graded > 0 {
		say("%d of %d graded answers are right", s.Right, s.Graded)
	}
	if s.Reference != string(collect.Judged) { // which have no other positions
		say("the models choose different tokens at %.2f%% of the positions", 100*s.DifferShare)
	}
	for _, l := range s.Labels {
		say("%s: escalate at %.2f%% of %d labelled positions", l.Rule, 100*l.Share, l.Labelled)
	}
}
