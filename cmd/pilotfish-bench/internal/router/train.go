package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// trainFlags has the flags of `pilotfish-bench router train`.
type trainFlags struct {
	out     string
	label   string
	hidden  int
	seed    uint64
	threads int
	json    bool
}

func newRouterTrainCommand(a *cli.App) *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train TRACES... -o FILE [flags]",
		Short: "Train a router and a judge on what router collect has recorded",
		Long: `Train a router on what router collect has recorded, or a judge on judged answers, or one file with both.

The network (linear, ReLU, linear) takes as input the final hidden state of the small model, and the margin and entropy
of its next token. It learns the labels of one rule (--label) by cross-entropy; its output is the confidence that a
token may stand. Files of judged answers (router collect --reference judged) train a judge in the same way: it takes
states of the large model where the two choose different tokens, and runs beside the large model (--policy judge).

A tenth of the prompts is held out entirely: training stops when the loss on them stops falling, and all figures about
the router are computed on them. Scale and shift of the logits are fitted to them if a fit to one half improves the
other half. The same seed gives the same file with any number of threads (-t).

In use, a router sees the texts that it causes. So it is better to train twice: collect more texts with the first router
(router collect --reference routed), and train another one on both files.`,
		Example: `  pilotfish-bench router train traces -o router.gguf
  pilotfish-bench router train traces routed judged -o router.gguf`,
		Args: cli.SomeArgs("the files of traces that `pilotfish-bench router collect` wrote"),
		RunE: func(c *cobra.Command, args []string) error { return f.runTrain(c.Context(), a, args) },
	}
	f.registerFlags(c)
	return c
}

func (f *trainFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	measure.Add(p, "out", &f.out, "")
	measure.Add(p, "label", &f.label, "")
	measure.Add(p, "hidden", &f.hidden, 64)
	cli.Add(p, "seed", &f.seed, 0)
	cli.Add(p, "threads", &f.threads, 0)
	cli.Add(p, "json", &f.json, false)
	cobra.CheckErr(c.MarkFlagRequired("out"))
}

func (f *trainFlags) trainOptions() train.Options {
	o := train.Options{Hidden: f.hidden, Seed: f.seed, Threads: f.threads}
	if f.hidden == 0 {
		o.Hidden = train.Linear
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	return o
}

func (f *trainFlags) runTrain(ctx context.Context, a *cli.App, dirs []string) error {
	if err := cli.CheckPlace("-o", f.out); err != nil {
		return err
	}
	folders, err := openTraces(dirs)
	defer closeTraces(folders)
	if err != nil {
		return err
	}
	judged, rest := divideByTap(folders)
	file := new(router.File)
	if len(rest) > 0 {
		if file.Net, file.About, file.Confidences, err = f.trainNetwork(ctx, a, rest, f.label); err != nil {
			return err
		}
	}
	if len(judged) > 0 {
		file.Judge = new(router.Judge)
		file.Judge.Net, file.Judge.About, _, err = f.trainNetwork(ctx, a, judged, collect.RuleMismatch)
		if err != nil {
			return err
		}
	}
	if err := writeRouterFile(f.out, file); err != nil {
		return err
	}
	if f.json {
		return a.PrintJSON(map[string]any{"file": f.out, "router": newAboutEvent(file)})
	}
	_, err = fmt.Fprintf(a.Stdout, "written to %s\n", f.out)
	return err
}

// divideByTap returns the files of judged answers, and the others.
func divideByTap(folders []train.Folder) (judged, rest []train.Folder) {
	for _, f := range folders {
		if f.Set.Settings().Tap == router.TapMismatch {
			judged = append(judged, f)
		} else {
			rest = append(rest, f)
		}
	}
	return judged, rest
}

// trainNetwork trains a network on the labels of a rule, and returns its confidences on the prompts held back.
func (f *trainFlags) trainNetwork(
	ctx context.Context, a *cli.App, folders []train.Folder, label string,
) (*router.Net, router.About, []float32, error) {
	rule, err := chooseLabelRule(folders, label)
	if err != nil {
		return nil, router.About{}, nil, err
	}
	src, err := train.NewTraces(folders, rule)
	if err != nil {
		return nil, router.About{}, nil, err
	}
	o := f.trainOptions()
	if folders[0].Set.Settings().Tap == router.TapMismatch {
		o.Hidden = max(o.Hidden, o.Hidden*train.JudgeUnits)
		o.Rate, o.Decay = train.JudgeRate, train.JudgeDecay
	}
	m := cli.NewMeter(a.Stderr, "epochs", false)
	o.Observe = func(e train.Epoch) { m.Show(int64(e.Number), int64(train.Epochs)) }
	begin := time.Now()
	r, err := train.Train(ctx, src, o)
	m.Close()
	if err == nil {
		err = f.printTraining(a, r, time.Since(begin))
	}
	if err != nil {
		return nil, router.About{}, nil, err
	}
	var confidences []float32
	for _, v := range train.Judge(src, r.HeldOut.Rows, r.Net, o.Threads) {
		confidences = append(confidences, v.Confidence)
	}
	return r.Net, f.newAbout(folders, rule, r), router.Calibration(confidences), nil
}

// openTraces opens files of traces. After an error it also returns those that are open.
func openTraces(dirs []string) (all []train.Folder, err error) {
	for _, dir := range dirs {
		set, err := trace.Open(dir)
		if err != nil {
			return all, fmt.Errorf("traces: %w", err)
		}
		all = append(all, train.Folder{Name: dir, Set: set})
	}
	return all, nil
}

func closeTraces(all []train.Folder) {
	for _, f := range all {
		f.Set.Close() // the file was only read
	}
}

// chooseLabelRule returns the rule of the labels: wanted, or the only one of the traces if wanted is empty.
func chooseLabelRule(folders []train.Folder, wanted string) (string, error) {
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

func (f *trainFlags) newAbout(folders []train.Folder, rule string, r *train.Result) router.About {
	s := folders[0].Set.Settings()
	of := s.Small
	if s.Tap == router.TapMismatch {
		of = s.Large
	}
	about := router.About{
		Version: cli.BuildVersion(), Model: of.Fingerprint, ModelName: of.Name, Tap: s.Tap, Label: rule,
		Data: hashTraces(folders), Prompts: r.Prompts, Positions: r.Positions, Seed: int(f.seed), Escalate: r.Escalate,
		Calibration: r.Calibration,
	}
	for _, f := range folders { // unknown for traces from a gateway
		if l := f.Set.Settings().Large; about.LargeName == "" || about.Large == "" && l.Fingerprint != "" {
			about.Large, about.LargeName = l.Fingerprint, l.Name
		}
	}
	if !math.IsNaN(r.AUC) {
		about.AUC = r.AUC
	}
	return about
}

// hashTraces identifies a list of files by the SHA-256 of their hashes, one per line.
func hashTraces(folders []train.Folder) string {
	sum := sha256.New()
	for _, f := range folders {
		fmt.Fprintln(sum, f.Set.Hash())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// trainEvent is the line of --json about a training.
type trainEvent struct {
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

func (f *trainFlags) printTraining(a *cli.App, r *train.Result, took time.Duration) error {
	e := trainEvent{
		r.Prompts, r.Positions, r.Escalate, r.HeldOut.Prompts, len(r.HeldOut.Rows), r.Epochs, r.Best, r.Loss,
		finiteOrNil(r.AUC), r.Calibration, r.Uncalibrated, r.Scale, r.Shift, took.Seconds(),
	}
	if f.json {
		return a.PrintJSON(e)
	}
	_, err := fmt.Fprintf(a.Stdout,
		`%d positions of %d prompts, %.2f%% to escalate; best of %d epochs: %d (%.1f s)
on %d positions of %d prompts held back: area under the curve %s, cross-entropy %.4f, calibration error %.4f
`, e.Positions, e.Prompts, 100*e.Escalate, e.Epochs, e.Best, e.Seconds, e.HeldPositions, e.HeldPrompts,
		formatFigure(e.AUC), e.CrossEntropy, e.Calibration)
	return err
}

// finiteOrNil returns nil for NaN and infinities, which JSON cannot represent.
func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// formatFigure formats a number with four decimals; a dash for none.
func formatFigure(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *x)
}
