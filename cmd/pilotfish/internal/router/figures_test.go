package router

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
)

// printed returns what print writes to stdout and stderr.
func printed(t *testing.T, print func(*cli.App) error) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	require.NoError(t, print(&cli.App{Stdout: &out, Stderr: &errs}))
	return out.String(), errs.String()
}

// TestAbout: the description of a router has everything that its file says.
func TestAbout(t *testing.T) {
	about := router.About{Version: "v9", Model: "0123456789abcdef", ModelName: "small", Large: "fedcba", LargeName: "l",
		Tap: "tap", Data: "data", Label: "r2r", Features: "both", Rounds: 2, Prompts: 30, Positions: 400, Seed: 5,
		Validation: 0.25, Escalate: 0.125, Calibration: 0.0625, AUC: 0.75}
	file := &router.File{Net: &router.Net{Layers: []router.Layer{{In: 3, Out: 2}, {Out: 1}}}, About: about}
	from, to := reflect.ValueOf(about), reflect.ValueOf(newAboutEvent(file))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		assert.Equal(t, from.Field(i).Interface(), to.FieldByName(name).Interface(), name)
	}
	text, _ := printed(t, func(a *cli.App) error { return new(showFlags).about(a, "r.gguf", file) })
	for _, want := range []string{"small model   small (0123456789ab…)\n", "large model   l (fedcba)\n",
		"network       3 to 2 to 1\n", "looks at      both\n", "hidden state  tap\n", "traces        data\n",
		"learnt from   400 tokens of 30 prompts, 12.5% to escalate; rounds: 2, seed: 5\n", "made by       v9\n",
		"held back     25% of the prompts: area 0.7500, calibration error 0.0625\n", "label         r2r\n"} {
		assert.Contains(t, text, "  "+want)
	}
	file.About = router.About{}
	text, _ = printed(t, func(a *cli.App) error { return new(showFlags).about(a, "r.gguf", file) })
	assert.Equal(t, 3, strings.Count(text, "\n"), "lines without a value are left out")
}

// TestFigures: each figure of a training and of a collection is printed in its place.
func TestFigures(t *testing.T) {
	r := &train.Result{Epochs: 20, Best: 12, Prompts: 54, Positions: 1080, Escalate: 0.25, Loss: 0.5, AUC: 0.75,
		HeldOut: train.HeldOut{Prompts: 6, Rows: make([]int, 120)}, Calibration: 0.0625, Uncalibrated: 0.125,
		Scale: 1.5, Shift: -0.5}
	text, _ := printed(t, func(a *cli.App) error {
		return (&course{a: a, f: &trainFlags{json: true}}).report(2, r, 3500*time.Millisecond)
	})
	assert.Equal(t, `{"round":2,"prompts":54,"positions":1080,"escalate_share":0.25,"held_prompts":6,`+
		`"held_positions":120,"epochs":20,"best_epoch":12,"cross_entropy":0.5,"auc":0.75,`+
		`"calibration_error":0.0625,"uncalibrated_error":0.125,"scale":1.5,"shift":-0.5,"seconds":3.5}`+"\n", text)

	s := &collect.Summary{Reference: "routed", Prompts: 30, Positions: 900, Bytes: 1.5e6, DifferShare: 0.125,
		LeftOut: 4, Cut: 5, Right: 6, Graded: 7, Cloud: 8, Rollouts: 1, RolloutTokens: 11,
		Labels: []collect.LabelSummary{{Rule: "citer", Labelled: 800, Share: 0.25, Spoil: 1}},
		Pairs:  []collect.PairSummary{{Rules: [2]string{"citer", "r2r"}, Both: 700, Share: 0.5}}}
	_, text = printed(t, func(a *cli.App) error {
		(&collectFlags{out: "traces", max: 256}).report(a, s, 2.5)
		return nil
	})
	assert.Equal(t, `30 prompts, 900 positions, 1.5 MB in traces, 2.5 s
prompts left out, as they leave no room for an answer in the models' context: 4
answers cut, as they are longer than -n 256 or than the models' context has room for: 5
6 of 7 graded answers are right
the models choose different tokens at 12.50% of the positions
the large model chose 8 of the tokens
citer: escalate at 25.00% of 800 labelled positions
citer: at 1 positions the large model's choice would spoil a right answer
citer and r2r differ at 50.00% of the 700 positions that both label
labels took 1 continued texts of 11 tokens
`, text)
}

// TestWorth: each figure of an evaluation is printed in its place.
func TestWorth(t *testing.T) {
	w := &worth{rule: "r2r", prompts: 3, names: []string{"learned", "margin", "entropy"}}
	for _, confidences := range [][]float32{{0.15, 0.45, 0.85, 0.95}, {0.35, 0.25, 0.65, 0.75}, {0.5, 0.5, 0.5, 0.5}} {
		var all []router.Verdict
		for i, c := range confidences {
			all = append(all, router.Verdict{Confidence: c, Stands: i != 0})
		}
		w.all, w.ranks = append(w.all, all), append(w.ranks, router.Rank(all))
	}
	text, _ := printed(t, func(a *cli.App) error { return w.print(a.Stdout) })
	for _, want := range []string{"4 tokens of 3 prompts, 25.00% to escalate by r2r\n(all prompts of the traces: ",
		"learned                1.0000         0.2937             0.2250\n",
		"gap\n  0.1 to 0.2       1  0.150      0.000  +0.150\n",
		"0.4 to 0.5       1  0.450      1.000  -0.550\n", "0.10      0.00%          -    0.0%\n",
		"0.90     75.00%      33.3%  100.0%\n", "30%   100.0%    0.0%     0.0%   30.0%\n"} {
		assert.Contains(t, text, want)
	}
	for name, c := range w.charts() {
		assert.NotContains(t, []string{c.Title, c.X.Label, c.Y.Label}, "", name)
	}
}
