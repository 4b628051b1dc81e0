package router

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/calibrate"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// calibrateFlags has the flags of `pilotfish-bench router calibrate`.
type calibrateFlags struct {
	pair       measure.PairFlags
	router     string
	data       string
	task       string
	split      measure.SplitFlag
	raw        bool
	questions  int
	policies   group.List[router.Policy]
	thresholds group.List[float64]
	budget     float64
	confidence float64
	max        int
	seed       uint64
	out        string
	code       measure.CodeFlag
	json       bool
}

func newRouterCalibrateCommand(a *cli.App) *cobra.Command {
	var f calibrateFlags
	c := &cobra.Command{
		Use:   "calibrate [-m FILE (--large FILE | --cloud HOST:PORT)] --router FILE --data FILE -o FILE",
		Short: "Find the policy that has most answers right, provably within a budget",
		Long: `Decode prompts with each --policy at a few thresholds, from few tokens of the large model to many, and
find those for which it can be shown that at most --budget of the tokens come from the large model, with probability
--confidence over the choice of prompts. Of these, the one with most correct answers is chosen, or the small model alone
if none has more; without correct answers, the highest threshold of the last policy. The router is written together with
this certificate, and run, chat and serve use the policy that it names.

The policies are margin and learned, which ask for tokens, verify, where the large model reads every token and
replaces those to which it prefers another by a margin; its threshold is e^-margin; and judge, where a judge beside the
large model says with what probability a token may stand. Those that the router file has no network for are left out.

Changing the threshold changes the text that follows, so recorded texts are not used. A policy's search stops at the
first threshold that cannot be shown to stay within the budget. Without --threshold, a tenth of the prompts (at least 8,
at most 50) is decoded first to choose six thresholds for each policy, at which parts of the budget would be used; these
prompts take no part in the test. Every question to the large model is waited for.

The longest possible answer (-n) matters, because one prompt could be answered entirely by the large model: the closer
-n is to the real length of answers, the fewer prompts are needed. A certificate applies to one pair of models, one
prompt format, greedy decoding, and one -n.

Without -m, the models, router and questions of the demo are used. If nothing can be shown, the command says so, exits
with 1 and writes no file.`,
		Example: `  pilotfish-bench router calibrate -m small.gguf --large big.gguf --router r.gguf ` +
			`--data prompts.jsonl -o out.gguf
  pilotfish-bench router calibrate --questions 400 -n 48 -o certified.gguf`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runCalibrate(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *calibrateFlags) registerFlags(c *cobra.Command) {
	f.pair.Register(c)
	p := c.Flags()
	cli.Add(p, "router", &f.router, "")
	measure.Add(p, "data", &f.data, "")
	measure.Add(p, "task", &f.task, "")
	f.split.Register(p)
	cli.Add(p, "raw", &f.raw, false)
	measure.Add(p, "questions", &f.questions, 0)
	f.policies = group.ListOf("policies", "margin,learned,verify,judge", router.ParsePolicy)
	measure.AddValue(p, "eval.policy", &f.policies)
	f.thresholds = group.Floats("")
	measure.AddValue(p, "eval.threshold", &f.thresholds)
	measure.Add(p, "calibrate.budget", &f.budget, router.DefaultBudget)
	measure.Add(p, "confidence", &f.confidence, 0.9)
	cli.Add(p, "max-tokens", &f.max, 256) // a bound for longer answers needs more prompts
	cli.Add(p, "seed", &f.seed, 1)
	measure.Add(p, "out", &f.out, "")
	f.code.Register(p)
	cli.Add(p, "json", &f.json, false)
	cobra.CheckErr(c.MarkFlagRequired("out"))
}

func (f *calibrateFlags) checkFlags() error {
	ours := !f.pair.Set.Changed("model")
	if err := f.pair.Check(true); err != nil {
		return err
	}
	if err := f.split.CheckTask(f.task, f.data); err != nil {
		return err
	}
	if !ours && (f.router == "" || f.data == "" && f.split.Name == "") {
		return cli.Usagef("with models of your own, " +
			"name the file of the router with --router, and of prompts with --data")
	}
	if all := f.thresholds.Values; !slices.IsSorted(all) || slices.Contains(all, 0) {
		return cli.Usagef("--threshold %v: give a rising list above 0 up to 1, such as 0.3,0.5,0.7", &f.thresholds)
	}
	for _, p := range f.policies.Values {
		if p != router.Margin && p != router.Learned && !p.Verifies() {
			return cli.Usagef("--policy %s: margin, learned, verify and judge can be certified", p)
		}
	}
	if len(f.thresholds.Values) > 0 && len(f.policies.Values) > 1 {
		return cli.Usagef("--threshold %v: thresholds mean something else to each policy: name one with --policy",
			&f.thresholds)
	}
	if f.max == 0 {
		return cli.Usagef("-n 0 is out of range: give 1 or more")
	}
	return f.code.Check(f.task)
}

func (f *calibrateFlags) calibrateOptions() (o calibrate.Options, err error) {
	if err := f.checkFlags(); err != nil {
		return o, err
	}
	o = calibrate.Options{Policies: f.policies.Values, Budget: f.budget, Confidence: f.confidence, Seed: f.seed,
		Thresholds: f.thresholds.Values}
	o.MaxTokens = f.max
	return o, nil
}

func (f *calibrateFlags) runCalibrate(ctx context.Context, a *cli.App) error {
	o, err := f.calibrateOptions()
	if err != nil {
		return err
	}
	if err := cli.CheckPlace("-o", f.out); err != nil {
		return err
	}
	file, err := f.readRouterFile()
	if err != nil {
		return err
	}
	if o.Policies, err = f.availablePolicies(file); err != nil {
		return err
	}
	run, err := f.code.Runner(ctx, a, f.task)
	if err != nil {
		return err
	}
	set, err := f.openQuestions(run)
	if err != nil {
		return err
	}
	f.pair.Judge = file.Judge
	models, err := f.pair.Open(ctx, a, f.raw)
	if err != nil {
		return err
	}
	defer models.Close()
	if err := group.Fitting(a, file, models.Edge, f.router); err != nil {
		return err
	}
	for _, p := range o.Policies {
		if of, _ := file.Options(p); p.Verifies() {
			if err := models.Far.Verifies(ctx, terms.Sampling{}, of.Judge); err != nil {
				return fmt.Errorf("--policy %s is not possible with this large model: %w; name other policies", p, err)
			}
			o.Judge = of.Judge
		}
	}
	if o.Prompts, err = f.fittingPrompts(a, models, set); err != nil {
		return err
	}
	o.Net, o.Edge, o.Far = file.Net, models.Edge, models.Far
	meter := &stageMeter{a: a}
	o.Progress = meter.showProgress
	result, err := calibrate.Run(ctx, o)
	meter.closeMeter()
	if errors.Is(err, calibrate.ErrFew) {
		err = fmt.Errorf("--data, --questions: %w", err)
	}
	if err != nil {
		return err
	}
	return f.writeResult(a, file, models, set, result)
}

// availablePolicies returns those that the file has networks for. If policies were given, a missing one is an error.
func (f *calibrateFlags) availablePolicies(file *router.File) (all []router.Policy, err error) {
	for _, p := range f.policies.Values {
		if _, err := file.Options(p); err == nil {
			all = append(all, p)
		} else if f.pair.Set.Changed("policy") {
			return nil, fmt.Errorf("--policy %s: --router %s: %w", p, f.router, err)
		}
	}
	return all, nil
}

// readRouterFile returns the demo's router without --router.
func (f *calibrateFlags) readRouterFile() (*router.File, error) {
	if f.router == "" {
		return group.ParseRouter(demo.Router())
	}
	return engine.ReadRouter(f.router)
}

// drawnQuestions is the default number of questions that are drawn for the demo.
const drawnQuestions = 400

// openQuestions returns the questions. Those that are drawn for the demo do not include the shipped ones, which routers
// are trained on.
func (f *calibrateFlags) openQuestions(run task.Runner) (*task.Set, error) {
	name, o, shipped := f.questionOptions()
	o.Run = run
	set, err := measure.OpenQuestions(name, o)
	if err == nil {
		set.Questions = set.Questions[shipped:]
	}
	return set, err
}

// questionOptions selects the questions, and returns how many of the first ones are left out.
func (f *calibrateFlags) questionOptions() (name string, o task.Options, shipped int) {
	o = task.Options{Most: f.questions, Seed: f.seed, Data: f.data, Split: f.split.Name}
	if f.data != "" || f.task != "" {
		return cmp.Or(f.task, f.data), o, 0
	}
	shipped = len(demo.Questions(demo.Train))
	o.Most = shipped + cmp.Or(f.questions, drawnQuestions)
	return task.DemoTrain, o, shipped
}

// fittingPrompts returns the prompts of the set that leave room for an answer.
func (f *calibrateFlags) fittingPrompts(
	a *cli.App, models *measure.Pair, set *task.Set,
) (all []calibrate.Prompt, err error) {
	room := models.Context()
	for _, q := range set.Questions {
		text := q.Text
		if f.raw {
			text = set.Raw(q)
		}
		ids, err := group.PromptOf(models.Edge, text, f.raw)
		if err != nil {
			return nil, fmt.Errorf("--data: question %s: %w", q.ID, err)
		}
		if len(ids) > 0 && len(ids) < room {
			p := calibrate.Prompt{IDs: ids}
			if q.Grade != nil {
				p.Right = func(ctx context.Context, answer string, cut bool) (bool, error) {
					return set.Right(ctx, &q, answer, cut)
				}
			}
			all = append(all, p)
		}
	}
	if out := len(set.Questions) - len(all); out > 0 {
		fmt.Fprintf(a.Stderr,
			"%d of %d prompts are left out: they leave no room for an answer in a context of %d tokens\n", out,
			len(set.Questions), room)
	}
	return all, nil
}

// writeResult prints the result, and writes the file if a threshold was proven.
func (f *calibrateFlags) writeResult(a *cli.App, file *router.File, models *measure.Pair, set *task.Set,
	r *calibrate.Result) error {
	if err := f.printThresholds(a, r); err != nil {
		return err
	}
	if r.Chosen == nil {
		return f.reportNothingCertified(a, r)
	}
	var err error
	if file.Certificate, err = f.newCertificate(models, set, r); err != nil {
		return err
	}
	file.Confidences = router.Calibration(r.Confidences)
	if err := writeRouterFile(f.out, file); err != nil {
		return err
	}
	if r.Longest < f.max*3/4 {
		fmt.Fprintf(a.Stderr, "no answer was longer than %d tokens: with -n %d the same prompts may show more\n",
			r.Longest, r.Longest)
	}
	if f.json {
		return a.PrintJSON(map[string]any{"certificate": file.Certificate, "file": f.out})
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\nwritten to %s\n", group.CertificateText(file.Certificate), f.out)
	return err
}

func (f *calibrateFlags) newCertificate(models *measure.Pair, set *task.Set, r *calibrate.Result) (*router.Certificate,
	error) {
	step := r.Chosen.Step
	method := "learn-then-test, betting"
	if n := len(r.Ladders); n > 1 {
		method += fmt.Sprintf(", the best of %d policies", n)
	}
	c := &router.Certificate{
		Policy: r.Chosen.Policy, Budget: f.budget, Confidence: f.confidence, Threshold: r.Chosen.Threshold,
		Share: step.Share(), Prompts: r.Prompts, Tokens: max(step.Tokens, 1), MaxTokens: f.max, PValue: step.PValue,
		Method: method, Data: set.Hash, Prompt: group.PromptKind(f.raw),
		LargeName: models.Name(),
	}
	var err error
	if c.Model, err = models.Edge.Fingerprint(); err != nil {
		return nil, err
	}
	if models.Large != nil {
		c.Large, err = models.Large.Fingerprint()
	}
	return c, err
}

func (f *calibrateFlags) reportNothingCertified(a *cli.App, r *calibrate.Result) error {
	var why []string
	needed := 0
	for _, l := range r.Ladders {
		why = append(why, f.uncertifiedReason(r, l))
		if l.Needed > 0 && (needed == 0 || l.Needed < needed) {
			needed = l.Needed
		}
	}
	if f.json {
		if err := a.PrintJSON(map[string]any{"certificate": nil, "needed": needed}); err != nil {
			return err
		}
	}
	if r.Longest < f.max*3/4 {
		why = append(why, fmt.Sprintf("no answer was longer than %d tokens, so that with -n %d fewer would do",
			r.Longest, r.Longest))
	}
	return fmt.Errorf("nothing can be certified, and no file is written: %s", strings.Join(why, "; "))
}

func (f *calibrateFlags) uncertifiedReason(r *calibrate.Result, l calibrate.Ladder) string {
	last := l.Steps[len(l.Steps)-1]
	if last.Certified {
		return fmt.Sprintf("policy %s asks for nothing at any threshold", l.Policy)
	}
	why := fmt.Sprintf("policy %s, threshold %v takes %.1f%% of the tokens from the large model", l.Policy,
		l.Thresholds[len(l.Steps)-1], 100*last.Share())
	switch {
	case l.Needed > 0:
		why += fmt.Sprintf(": about %d prompts like these would be needed, %d were tested", l.Needed, r.Prompts)
	case last.Share() < f.budget:
		why += ", too near to the budget for any number of prompts up to a million"
	default:
		why += ", which is not below the budget: begin with a lower one (--threshold)"
	}
	return why
}

// thresholdEvent is one line of --json.
type thresholdEvent struct {
	Policy    router.Policy `json:"policy"`
	Threshold float64       `json:"threshold"`
	Prompts   int           `json:"prompts"`
	Tokens    int           `json:"tokens"`
	Escalated int           `json:"escalated"`
	Share     float64       `json:"escalated_share"`
	PValue    float64       `json:"p_value"`
	Certified bool          `json:"certified"`
	Graded    int           `json:"graded"` // number of prompts with answers that are right or wrong
	Right     int           `json:"right"`  // of the graded ones
}

// printThresholds prints a line for each tested threshold, after one for the small model alone.
func (f *calibrateFlags) printThresholds(a *cli.App, r *calibrate.Result) error {
	var all []thresholdEvent
	if r.Graded > 0 {
		all = []thresholdEvent{{Policy: router.Never, Prompts: r.Prompts, Graded: r.Graded, Right: r.Alone}}
	}
	for _, l := range r.Ladders {
		for i, s := range l.Steps {
			all = append(all, thresholdEvent{l.Policy, l.Thresholds[i], r.Prompts, s.Tokens, s.Escalated, s.Share(),
				s.PValue, s.Certified, r.Graded, l.Right[i]})
		}
	}
	if f.json {
		for _, e := range all {
			if err := a.PrintJSON(e); err != nil {
				return err
			}
		}
		return nil
	}
	if r.Pilots > 0 {
		fmt.Fprintf(a.Stdout, "%d prompts chose the thresholds, %d others test them\n", r.Pilots, r.Prompts)
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "policy\tthreshold\tfrom cloud\ttokens\tp-value\tright\tverdict\t")
	for _, e := range all {
		right := "-"
		if e.Graded > 0 {
			right = fmt.Sprintf("%d of %d", e.Right, e.Graded)
		}
		fmt.Fprintf(table, "%s\t%v\t%.2f%%\t%d\t%.2g\t%s\t%s\t\n", e.Policy, e.Threshold, 100*e.Share, e.Tokens,
			e.PValue, right, e.verdictText())
	}
	return table.Flush()
}

func (e thresholdEvent) verdictText() string {
	switch {
	case e.Policy == router.Never:
		return ""
	case e.Escalated == 0:
		return "asks for nothing"
	case e.Certified:
		return "certified"
	}
	return "not shown"
}

// stageMeter shows a meter for each stage of a calibration.
type stageMeter struct {
	a     *cli.App
	stage string
	meter *cli.Meter
}

func (s *stageMeter) showProgress(stage string, done, of int) {
	if s.meter == nil || stage != s.stage {
		s.closeMeter()
		s.stage, s.meter = stage, cli.NewMeter(s.a.Stderr, stage, false)
	}
	s.meter.Show(int64(done), int64(of))
}

func (s *stageMeter) closeMeter() {
	if s.meter != nil {
		s.meter.Close()
	}
}

// writeRouterFile creates or replaces a router file, completely or not at all.
func writeRouterFile(path string, r *router.File) error {
	var b bytes.Buffer
	if err := r.Write(gguf.NewWriter(&b)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return cli.ReplaceFile(path, b.Bytes(), 0o644)
}
