package router

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
)

// showFlags has the flags of `pilotfish-bench router show`.
type showFlags struct {
	label string
	json  bool
}

func newRouterShowCommand(a *cli.App) *cobra.Command {
	var f showFlags
	c := &cobra.Command{
		Use:   "show FILE [TRACES...]",
		Short: "Describe a router file and evaluate it on recorded traces",
		Long: `Describe a router file, and evaluate it on traces.

With files of router collect: how well calibrated its confidence is, what share each threshold would
send to the large model, and how it compares with margin and entropy on the same tokens. On traces that the router was
trained on, only the prompts held out during training count. All of this describes the recorded texts as they are: in
use, each token of the large model changes the text that follows.`,
		Example: `  pilotfish-bench router show router.gguf
  pilotfish-bench router show router.gguf traces`,
		Args: cli.SomeArgs("the file of a router"),
		RunE: func(c *cobra.Command, args []string) error { return f.runShow(c.Context(), a, args[0], args[1:]) },
	}
	p := c.Flags()
	measure.Add(p, "label", &f.label, "")
	cli.Add(p, "json", &f.json, false)
	return c
}

func (f *showFlags) runShow(_ context.Context, a *cli.App, path string, dirs []string) error {
	file, err := engine.ReadRouter(path)
	if err != nil {
		return err
	}
	folders, err := openTraces(dirs)
	defer closeTraces(folders)
	if err != nil {
		return err
	}
	if err := f.printRouter(a, path, file); err != nil || len(dirs) == 0 {
		return err
	}
	w, err := f.evaluateTraces(a, path, file, folders)
	if err != nil {
		return err
	}
	if f.json {
		return a.PrintJSON(map[string]any{"traces": w})
	}
	return w.printTables(a.Stdout)
}

// aboutEvent describes a router file, as JSON. Its fields are a contract.
type aboutEvent struct {
	router.About
	Layers      []int               `json:"layers"`      // widths, the input first; none: the file has only a judge
	Judge       *judgeEvent         `json:"judge"`       // null: no judge
	Certificate *router.Certificate `json:"certificate"` // null: no certificate
}

// judgeEvent describes the judge of a router file.
type judgeEvent struct {
	router.About
	Layers      []int  `json:"layers"` // widths, the input first
	Fingerprint string `json:"fingerprint"`
}

func newAboutEvent(r *router.File) aboutEvent {
	e := aboutEvent{About: r.About, Layers: layerWidths(r.Net), Certificate: r.Certificate}
	if j := r.Judge; j != nil {
		e.Judge = &judgeEvent{j.About, layerWidths(j.Net), j.Fingerprint()}
	}
	return e
}

// layerWidths returns the widths of a network, the input first; none for nil.
func layerWidths(n *router.Net) []int {
	all := []int{}
	if n == nil {
		return all
	}
	all = append(all, n.Layers[0].In)
	for _, l := range n.Layers {
		all = append(all, l.Out)
	}
	return all
}

func (f *showFlags) printRouter(a *cli.App, path string, r *router.File) error {
	e := newAboutEvent(r)
	if f.json {
		return a.PrintJSON(map[string]any{"file": path, "router": e})
	}
	fmt.Fprintln(a.Stdout, path)
	if r.Net != nil {
		printAbout(a.Stdout, [][2]string{{"small model", modelText(e.ModelName, e.Model)},
			{"large model", modelText(e.LargeName, e.Large)}}, e.About, e.Layers)
	}
	if j := e.Judge; j != nil {
		printAbout(a.Stdout, [][2]string{{"judge", shortHash(j.Fingerprint)},
			{"its model", modelText(j.ModelName, j.Model)}}, j.About, j.Layers)
	}
	if r.Certificate == nil {
		_, err := fmt.Fprintf(a.Stdout, "  %-13s none: `router calibrate` proves that a budget is kept\n",
			"certificate")
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "  %-13s %s\n", "certificate", group.CertificateText(r.Certificate))
	return err
}

func printAbout(out io.Writer, first [][2]string, about router.About, layers []int) {
	for _, line := range append(first, [][2]string{
		{"network", strings.Trim(strings.ReplaceAll(fmt.Sprint(layers), " ", " to "), "[]")},
		{"hidden state", group.Printable(about.Tap)}, {"label", group.Printable(about.Label)},
		{"learnt from", learntText(about)}, {"traces", shortHash(about.Data)}, {"held back", heldText(about)},
		{"made by", group.Printable(about.Version)},
	}...) {
		if line[1] != "" {
			fmt.Fprintf(out, "  %-13s %s\n", line[0], line[1])
		}
	}
}

// modelText formats a model: its name and the beginning of its fingerprint.
func modelText(name, fingerprint string) string {
	switch {
	case fingerprint == "":
		return group.Printable(name)
	case name == "":
		return shortHash(fingerprint)
	}
	return fmt.Sprintf("%.50s (%s)", group.Printable(name), shortHash(fingerprint))
}

func shortHash(hash string) string {
	if len(hash) > 12 {
		return group.Printable(hash[:12]) + "…"
	}
	return group.Printable(hash)
}

func learntText(e router.About) string {
	if e.Positions == 0 {
		return ""
	}
	return fmt.Sprintf("%d tokens of %d prompts, %s to escalate; seed: %d", e.Positions, e.Prompts,
		group.Share(e.Escalate), e.Seed)
}

func heldText(e router.About) string {
	if e.AUC == 0 {
		return ""
	}
	return fmt.Sprintf("a tenth of the prompts: area %.4f, calibration error %.4f", e.AUC, e.Calibration)
}

func (f *showFlags) evaluateTraces(
	a *cli.App, path string, file *router.File, folders []train.Folder,
) (*evaluationEvent, error) {
	rule, s := f.label, folders[0].Set.Settings()
	net, about, model := file.Net, file.About, s.Small
	if s.Tap == router.TapMismatch && file.Judge != nil {
		net, about, model = file.Judge.Net, file.Judge.About, s.Large
	}
	if net == nil || s.Tap == router.TapMismatch && file.Judge == nil {
		return nil, fmt.Errorf("%s has no network for the hidden states of %s: %s", path, folders[0].Name, s.Tap)
	}
	if rule == "" && s.Rule(about.Label) >= 0 {
		rule = about.Label
	}
	rule, err := chooseLabelRule(folders, rule)
	if err != nil {
		return nil, err
	}
	src, err := train.NewTraces(folders, rule)
	if err != nil {
		return nil, err
	}
	switch {
	case net.Dim() != src.Width():
		return nil, fmt.Errorf("%s takes hidden states of %d numbers, %s has %d: give traces of the same model",
			path, net.Dim(), folders[0].Name, src.Width())
	case about.Model == "":
		fmt.Fprintf(a.Stderr, "pilotfish: %s does not name its model: the traces may belong to another\n", path)
	case about.Model != model.Fingerprint:
		return nil, fmt.Errorf("%s belongs to the model %q, %s has traces of %q: give traces of the same",
			path, about.ModelName, folders[0].Name, model.Name)
	}
	rows, held := train.Labelled(src), about.Data == hashTraces(folders)
	if held {
		out, err := train.HoldOut(src, uint64(about.Seed))
		if err != nil {
			return nil, err
		}
		rows = out.Rows
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no position has a label of the rule %s: collect traces with it", rule)
	}
	prompts := map[int]bool{}
	for _, i := range rows {
		prompts[src.Prompt(i)] = true
	}
	margin, entropy := train.JudgeHead(src, rows)
	w := newEvaluationEvent(train.Judge(src, rows, net, runtime.GOMAXPROCS(0)), margin, entropy)
	w.Prompts, w.Held, w.Label = len(prompts), held, rule
	if s.Tap == router.TapMismatch { // the margin of its positions is what the policy verify compares
		w.Policies[0].Policy, w.Policies[1].Policy = string(router.Judged), string(router.Verify)
	}
	return w, nil
}

// printTables prints tables of at most 80 columns.
func (w *evaluationEvent) printTables(out io.Writer) error {
	which := "all prompts of the traces: were some of them learnt from, this flatters"
	if w.Held {
		which = "only prompts that training held back"
	}
	fmt.Fprintf(out, "\n%d tokens of %d prompts, %.2f%% to escalate by %s\n(%s)\n", w.Tokens, w.Prompts,
		100**w.Escalate, w.Label, which)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\npolicy\tarea under the curve\tcross-entropy\tcalibration error\t")
	var names []string
	for _, p := range w.Policies {
		names = append(names, p.Policy)
		fmt.Fprintf(t, "%s\t%s\t%.4f\t%.4f\t\n", p.Policy, formatFigure(p.AUC), p.CrossEntropy, p.Calibration)
	}
	fmt.Fprintln(t, "\nconfidence\ttokens\tmean\tmay stand\tgap\t")
	for _, b := range w.Reliability {
		if b.Tokens > 0 {
			fmt.Fprintf(t, "%.1f to %.1f\t%d\t%.3f\t%.3f\t%+.3f\t\n", b.Low, b.High, b.Tokens, b.Confidence, b.Stand,
				b.Confidence-b.Stand)
		}
	}
	fmt.Fprintln(t, "\nthreshold\tescalated\tprecision\trecall\t")
	for _, p := range w.Policies[0].Points {
		fmt.Fprintf(t, "%.2f\t%.2f%%\t%s\t%s\t\n", p.Threshold, 100*p.Share, formatPercent(p.Precision),
			formatPercent(p.Recall))
	}
	fmt.Fprintf(t, "\nescalated\t%s\trandom\t\n", strings.Join(names, "\t"))
	for i, s := range shownShares() {
		fmt.Fprintf(t, "%.4g%%\t", 100*s)
		for _, p := range w.Policies {
			fmt.Fprintf(t, "%s\t", formatPercent(p.Budgets[i].Recall))
		}
		fmt.Fprintf(t, "%.1f%%\t\n", 100*s)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, `
precision: share of the escalated tokens that the labels escalate
recall: share of the tokens that the labels escalate which are escalated, as in
the last table for each policy`)
	return err
}

func formatPercent(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**x)
}

func shownThresholds() []float64 {
	return []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}
}

func shownShares() []float64 { return []float64{0.01, 0.02, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5} }
