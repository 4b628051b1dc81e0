package router

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// trainFlags has the flags of `pilotfish router train`.
type trainFlags struct {
	pair       group.PairFlags // for rounds after the first
	out        string
	label      string
	features   string
	hidden     int
	epochs     int
	rate       float64
	decay      float64
	balance    float64
	validation float64
	training   *cli.OptionsFlag
	seed       int
	rounds     roundFlags
	json       bool
}

// newRouterTrainCommand returns the command that trains a router on traces.
func newRouterTrainCommand(a *cli.App) *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train FOLDER... -o FILE [flags]",
		Short: "Train a router on what router collect has recorded",
		Long: `Train a router on what router collect has recorded.

The network (linear, ReLU, linear) takes as input (--training features) the final hidden state of the small model
(hidden), the margin and entropy of its next token (head: without a hidden layer this is logistic regression, the cheap
baseline), or both. It learns the labels of one rule (--label) by cross-entropy; its output is the confidence that a
token may stand.

A share of the prompts (--training validation) is held out entirely: training stops when the loss on them stops falling,
and all figures about the router are computed on them. Scale and shift of the logits are fitted to them if a fit to one
half improves the other half. The same seed gives the same file with any number of threads (-t).

With rounds=2, both models then decode the prompts with the router of the first round, with about a tenth (--training
share) of the tokens from the large model; the resulting texts are added to the traces, and a second router is trained.
The reason: in use, a router sees the texts that it causes. This needs the models (-m with --large or --cloud, or
neither for the demo's) and the questions that the first folder was collected from (--data). The new texts are stored
in the folder on-policy; a run that was stopped continues there. The gain of the second round is printed, for both
kinds of texts.`,
		Example: `  pilotfish router train traces -o router.gguf
  pilotfish router train traces -o router.gguf --training rounds=2 -m small.gguf --large big.gguf --data prompts.jsonl \
    --training on-policy=routed`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("there are no traces: name the folders that `pilotfish router collect` filled")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c.Context(), a, args) },
	}
	f.register(c)
	return c
}

func (f *trainFlags) register(c *cobra.Command) {
	f.pair.Threads = true
	f.pair.Register(c)
	p := c.Flags()
	cli.Add(p, "out", &f.out, "")
	cli.Add(p, "label", &f.label, "")
	f.training = cli.AddOptions(p, "training")
	cli.Add(f.training.FlagSet, "training.features", &f.features, string(train.Both))
	cli.Add(f.training.FlagSet, "training.hidden", &f.hidden, 64)
	cli.Add(f.training.FlagSet, "training.epochs", &f.epochs, 20)
	cli.Add(f.training.FlagSet, "training.learning-rate", &f.rate, 0.002)
	cli.Add(f.training.FlagSet, "training.weight-decay", &f.decay, 0)
	cli.Add(f.training.FlagSet, "training.balance", &f.balance, 0)
	cli.Add(f.training.FlagSet, "training.validation", &f.validation, 0.1)
	cli.Add(p, "seed", &f.seed, 0)
	cli.Add(p, "json", &f.json, false)
	f.rounds.register(p, f.training)
	cobra.CheckErr(c.MarkFlagRequired("out"))
}

// check returns an error for wrong values, and for flags that would have no effect.
func (f *trainFlags) check() error {
	switch {
	case f.out == "":
		return cli.Usagef("-o names no file: give one for the router")
	case !slices.Contains([]train.Features{train.Hidden, train.Head, train.Both}, train.Features(f.features)):
		return cli.Usagef("--training features=%.40q is not known: choose hidden, head or both", f.features)
	case f.label != "" && !slices.Contains(collect.Rules(), f.label):
		return cli.Usagef("--label %.40q is not known: choose one of %s", f.label, strings.Join(collect.Rules(), ", "))
	case !(f.rate > 0 && f.rate <= 1):
		return cli.Usagef("--training learning-rate=%v is out of range: give a number above 0, up to 1", f.rate)
	case !(f.validation > 0 && f.validation < 1):
		return cli.Usagef("--training validation=%v is out of range: give a share above 0 and below 1", f.validation)
	case f.seed < 0:
		return cli.Usagef("--seed %d is negative: give 0 or more", f.seed)
	}
	return f.rounds.check(&f.pair)
}

// options returns the options of training.
func (f *trainFlags) options() train.Options {
	o := train.Options{
		Features: train.Features(f.features), Hidden: f.hidden, Epochs: f.epochs, Rate: f.rate, Decay: f.decay,
		Balance: f.balance, Validation: f.validation, Seed: uint64(f.seed), Threads: f.pair.Model.Threads,
	}
	if f.hidden == 0 || o.Features == train.Head && !f.training.Changed("hidden") {
		o.Hidden = train.Linear
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	return o
}

func (f *trainFlags) run(ctx context.Context, a *cli.App, dirs []string) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := cli.CheckPlace("-o", f.out); err != nil {
		return err
	}
	folders, err := openFolders(dirs)
	c := &course{a: a, f: f, folders: folders, given: len(folders)}
	defer func() { closeFolders(c.folders) }()
	if err != nil {
		return err
	}
	if c.rule, err = ruleOf(folders, f.label); err != nil {
		return err
	}
	if err := c.train(ctx); err != nil {
		return err
	}
	if f.rounds.count > 1 {
		if err := c.onPolicy(ctx); err != nil {
			return err
		}
	}
	return c.finish()
}

// openFolders opens folders of traces. After an error it also returns those that are open.
func openFolders(dirs []string) (all []train.Folder, err error) {
	for _, dir := range dirs {
		set, err := trace.Open(dir)
		if err != nil {
			return all, fmt.Errorf("traces: %w", err)
		}
		all = append(all, train.Folder{Name: dir, Set: set})
	}
	return all, nil
}

func closeFolders(all []train.Folder) {
	for _, f := range all {
		f.Set.Close() // the folder was only read
	}
}

// ruleOf returns the rule of the labels: wanted, or the only one of the folders if wanted is empty.
func ruleOf(folders []train.Folder, wanted string) (string, error) {
	rules := folders[0].Set.Settings().Labels
	switch {
	case wanted != "":
		return wanted, nil
	case len(rules) == 0:
		return "", fmt.Errorf("%s has no labels: collect it again with --label", folders[0].Name)
	case len(rules) > 1:
		return "", cli.Usagef("%s has labels of %s: choose one with --label", folders[0].Name, strings.Join(rules,
			", "))
	}
	return rules[0], nil
}

// course is one run of the command.
type course struct {
	a       *cli.App
	f       *trainFlags
	rule    string
	folders []train.Folder // the given ones, then those of later rounds
	given   int
	src     *train.Traces // traces of all folders
	rounds  []round
}

// round is one training.
type round struct {
	result *train.Result
	file   *router.File
	bytes  []byte
}

// train trains a router on all folders.
func (c *course) train(ctx context.Context) error {
	src, err := train.NewTraces(c.folders, c.rule)
	if err != nil {
		return err
	}
	c.src = src
	o := c.f.options()
	number := len(c.rounds) + 1
	m := cli.NewMeter(c.a.Stderr, fmt.Sprintf("round %d", number), cli.InPieces)
	o.Observe = func(e train.Epoch) { m.Show(int64(e.Number), int64(o.Epochs)) }
	begin := time.Now()
	r, err := train.Train(ctx, src, o)
	m.Close()
	if err != nil {
		return err
	}
	var confidences []float32
	for _, v := range train.Judge(src, r.HeldOut.Rows, r.Net, o.Threads) {
		confidences = append(confidences, v.Confidence)
	}
	file := &router.File{Net: r.Net, About: c.about(r), Confidences: router.Calibration(confidences)}
	var b bytes.Buffer
	if err := file.Write(gguf.NewWriter(&b)); err != nil {
		return err
	}
	c.rounds = append(c.rounds, round{r, file, b.Bytes()})
	return c.report(number, r, time.Since(begin))
}

// about describes the origin of the router.
func (c *course) about(r *train.Result) router.About {
	s := c.folders[0].Set.Settings()
	about := router.About{
		Version: cli.BuildVersion(), Model: s.Small.Fingerprint, ModelName: s.Small.Name, Tap: s.Tap, Label: c.rule,
		Data: hashOf(c.folders), Features: c.f.features, Rounds: len(c.rounds) + 1, Prompts: r.Prompts,
		Positions: r.Positions, Seed: c.f.seed, Validation: c.f.validation, Escalate: r.Escalate,
		Calibration: r.Calibration,
	}
	for _, f := range c.folders { // unknown for traces from a gateway
		if l := f.Set.Settings().Large; about.LargeName == "" || about.Large == "" && l.Fingerprint != "" {
			about.Large, about.LargeName = l.Fingerprint, l.Name
		}
	}
	if !math.IsNaN(r.AUC) {
		about.AUC = r.AUC
	}
	return about
}

// hashOf identifies a list of folders by the SHA-256 of their hashes, one per line.
func hashOf(folders []train.Folder) string {
	sum := sha256.New()
	for _, f := range folders {
		fmt.Fprintln(sum, f.Set.Hash())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// roundEvent is the line of --json for one training.
type roundEvent struct {
	Round         int      `json:"round"`
	Prompts       int      `json:"prompts"` // for training
	Positions     int      `json:"positions"`
	Escalate      float64  `json:"escalate_share"` // share of the positions
	HeldPrompts   int      `json:"held_prompts"`
	HeldPositions int      `json:"held_positions"`
	Epochs        int      `json:"epochs"`
	Best          int      `json:"best_epoch"`
	CrossEntropy  float64  `json:"cross_entropy"` // nats, on the held-out prompts, like all fields below
	AUC           *float64 `json:"auc,omitempty"` // absent if they have only one label
	Calibration   float64  `json:"calibration_error"`
	Uncalibrated  float64  `json:"uncalibrated_error"` // before scale and shift of the logits
	Scale         float64  `json:"scale"`
	Shift         float64  `json:"shift"`
	Seconds       float64  `json:"seconds"`
}

// report prints the result of one training.
func (c *course) report(number int, r *train.Result, took time.Duration) error {
	e := roundEvent{
		number, r.Prompts, r.Positions, r.Escalate, r.HeldOut.Prompts, len(r.HeldOut.Rows), r.Epochs, r.Best, r.Loss,
		number0(r.AUC), r.Calibration, r.Uncalibrated, r.Scale, r.Shift, took.Seconds(),
	}
	if c.f.json {
		return c.a.PrintJSON(e)
	}
	_, err := fmt.Fprintf(c.a.Stdout,
		`round %d: %d positions of %d prompts, %.2f%% to escalate; best of %d epochs: %d (%.1f s)
  on %d positions of %d prompts held back: area under the curve %s, cross-entropy %.4f, calibration error %.4f
`, number, e.Positions, e.Prompts, 100*e.Escalate, e.Epochs, e.Best, e.Seconds, e.HeldPositions, e.HeldPrompts,
		figure(r.AUC), e.CrossEntropy, e.Calibration)
	return err
}

// number0 returns nil for NaN and infinities, which JSON cannot represent.
func number0(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// figure formats a number with four decimals; a dash for NaN.
func figure(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.4f", x)
}

// finish compares the rounds, and writes the last router.
func (c *course) finish() error {
	if len(c.rounds) > 1 {
		if err := c.compare(); err != nil {
			return err
		}
	}
	last := c.rounds[len(c.rounds)-1]
	if err := cli.ReplaceFile(c.f.out, last.bytes, 0o644); err != nil {
		return err
	}
	if c.f.json {
		return c.a.PrintJSON(map[string]any{"file": c.f.out, "router": newAboutEvent(last.file)})
	}
	_, err := fmt.Fprintf(c.a.Stdout, "written to %s\n", c.f.out)
	return err
}

// compare prints the figures of each round on the held-out positions, separately for the given texts and those of each
// later round.
func (c *course) compare() error {
	var all []comparison
	for kind := range len(c.rounds) {
		rows := c.heldOf(kind)
		if len(rows) == 0 {
			continue
		}
		for n, r := range c.rounds {
			all = append(all, c.judge(kind, n, r.file.Net, rows))
		}
	}
	if c.f.json {
		for _, e := range all {
			if err := c.a.PrintJSON(map[string]any{"comparison": e}); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(c.a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "held back, texts\tpositions\trouter of\tarea\tcross-entropy\tmissed at %.4g%%\n",
		100*c.f.rounds.share)
	for _, e := range all {
		fmt.Fprintf(t, "%s\t%d\tround %d\t%s\t%.4f\t%s\n", e.Texts, e.Positions, e.Round, pointer(e.AUC),
			e.CrossEntropy, pointer(e.Missed))
	}
	return t.Flush()
}

func pointer(x *float64) string {
	if x == nil {
		return "-"
	}
	return figure(*x)
}

// comparison has the figures of one round's router on one kind of texts.
type comparison struct {
	Texts        string   `json:"texts"` // given, or the number of their round
	Positions    int      `json:"positions"`
	Round        int      `json:"round"` // of the router
	AUC          *float64 `json:"auc,omitempty"`
	CrossEntropy float64  `json:"cross_entropy"`
	Share        float64  `json:"share"`            // share of the positions that are escalated
	Missed       *float64 `json:"missed,omitempty"` // share of the positions to escalate that are not escalated
}

// heldOf returns the held-out positions in given texts (kind 0) or in those of a later round.
func (c *course) heldOf(kind int) (rows []int) {
	for _, i := range c.rounds[len(c.rounds)-1].result.HeldOut.Rows {
		if max(0, c.src.Folder(i)-c.given+1) == kind {
			rows = append(rows, i)
		}
	}
	return rows
}

func (c *course) judge(kind, n int, net *router.Net, rows []int) comparison {
	v := train.Judge(c.src, rows, net, c.f.options().Threads)
	rank := router.Rank(v)
	at := rank.At(rank.Threshold(c.f.rounds.share))
	e := comparison{
		Texts: "given", Positions: len(rows), Round: n + 1, AUC: number0(router.AUC(v)),
		CrossEntropy: router.CrossEntropy(v), Share: at.Share, Missed: number0(1 - at.Recall),
	}
	if kind > 0 {
		e.Texts = fmt.Sprintf("decoded with round %d", kind)
	}
	return e
}
