package router

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/calibrate"
	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/router/certify"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
)

// printed returns what print writes to stdout and stderr.
func printed(t *testing.T, print func(*cli.App) error) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	require.NoError(t, print(&cli.App{Stdout: &out, Stderr: &errs}))
	return out.String(), errs.String()
}

// TestAboutText: each line of the description of a router has its own values, and JSON has all of them.
func TestAboutText(t *testing.T) {
	net, err := router.NewNet([]router.Layer{
		{In: 3, Out: 2, Weight: make([]float32, 6), Bias: make([]float32, 2)},
		{In: 2, Out: 1, Weight: make([]float32, 2), Bias: make([]float32, 1)},
	}, false)
	require.NoError(t, err)
	file := &router.File{Net: net, About: router.About{
		Version: "v9", Model: "0123456789abcdef", ModelName: "small", Large: "fedcba9876543210", LargeName: "large",
		Tap: "final-norm", Data: "aaaabbbbccccdddd", Label: "r2r", Features: "both", Rounds: 2, Prompts: 30,
		Positions: 400, Seed: 5, Validation: 0.25, Escalate: 0.125, Calibration: 0.0625, AUC: 0.75,
	}}
	shown := func(f showFlags) string {
		text, _ := printed(t, func(a *cli.App) error { return f.about(a, "r.gguf", file) })
		return text
	}
	const lines = `r.gguf
  small model   small (0123456789ab…)
  large model   large (fedcba987654…)
  network       3 to 2 to 1
  looks at      both
  hidden state  final-norm
  label         r2r
  learnt from   400 tokens of 30 prompts, 12.5% to escalate; rounds: 2, seed: 5
  traces        aaaabbbbcccc…
  held back     25% of the prompts: area 0.7500, calibration error 0.0625
  made by       v9
`
	assert.Equal(t, lines+"  certificate   none: `pilotfish router calibrate` proves that a budget is kept\n",
		shown(showFlags{}))
	file.Certificate = &router.Certificate{Budget: 0.07, Confidence: 0.9, Prompts: 40, Share: 0.05, Tokens: 900,
		Method: "m", MaxTokens: 48, Threshold: 0.5}
	assert.Equal(t, lines+"  certificate   at most 7% of the tokens from the cloud with confidence 90%, shown on 40 "+
		"prompts (5% of 900 tokens; m; at most 48 tokens an answer): threshold 0.5\n", shown(showFlags{}))
	made := newAboutEvent(file)
	about, event := reflect.ValueOf(file.About), reflect.ValueOf(made)
	for i := range about.NumField() {
		name := about.Type().Field(i).Name
		assert.Equal(t, about.Field(i).Interface(), event.FieldByName(name).Interface(), name)
	}
	assert.Equal(t, []int{3, 2, 1}, made.Layers)
	assert.Equal(t, 0.5, made.Certificate.Threshold)
	assert.Contains(t, shown(showFlags{json: true}), `{"file":"r.gguf","router":{"version":"v9",`)
	file.About, file.Certificate = router.About{Model: "0123456789ab", LargeName: "large"}, nil
	assert.Equal(t, `r.gguf
  small model   0123456789ab
  large model   large
  network       3 to 2 to 1
  certificate   none: `+"`pilotfish router calibrate` proves that a budget is kept\n", shown(showFlags{}),
		"lines without a value are left out")
}

// TestRoundText: each figure of a training is printed in its place.
func TestRoundText(t *testing.T) {
	r := &train.Result{Epochs: 20, Best: 12, Prompts: 54, Positions: 1080, Escalate: 0.25,
		HeldOut: train.HeldOut{Prompts: 6, Rows: make([]int, 120)}, Loss: 0.5, AUC: 0.75, Calibration: 0.0625,
		Uncalibrated: 0.125, Scale: 1.5, Shift: -0.5}
	report := func(f trainFlags) string {
		text, _ := printed(t, func(a *cli.App) error {
			return (&course{a: a, f: &f}).report(2, r, 3500*time.Millisecond)
		})
		return text
	}
	assert.Equal(t, `round 2: 1080 positions of 54 prompts, 25.00% to escalate; best of 20 epochs: 12 (3.5 s)
  on 120 positions of 6 prompts held back: area under the curve 0.7500, cross-entropy 0.5000, `+
		"calibration error 0.0625\n", report(trainFlags{}))
	assert.Equal(t, `{"round":2,"prompts":54,"positions":1080,"escalate_share":0.25,"held_prompts":6,`+
		`"held_positions":120,"epochs":20,"best_epoch":12,"cross_entropy":0.5,"auc":0.75,`+
		`"calibration_error":0.0625,"uncalibrated_error":0.125,"scale":1.5,"shift":-0.5,"seconds":3.5}`+"\n",
		report(trainFlags{json: true}))
}

// TestCollectText: each figure of a collection is printed in its place; counts of 0 are left out.
func TestCollectText(t *testing.T) {
	report := func(s *collect.Summary) string {
		f := collectFlags{out: "traces", max: 256}
		_, text := printed(t, func(a *cli.App) error {
			f.report(a, s, 2.5)
			return nil
		})
		return text
	}
	assert.Equal(t, `30 prompts, 900 positions, 1.5 MB in traces, 2.5 s
the models choose different tokens at 12.50% of the positions
r2r: escalate at 0.00% of 0 labelled positions
`, report(&collect.Summary{Reference: "given", Prompts: 30, Positions: 900, Bytes: 1.5e6, DifferShare: 0.125,
		Labels: []collect.LabelSummary{{Rule: "r2r"}}}))
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
`, report(&collect.Summary{Reference: "routed", Prompts: 30, Positions: 900, Bytes: 1.5e6, DifferShare: 0.125,
		LeftOut: 4, Cut: 5, Right: 6, Graded: 7, Cloud: 8,
		Labels:   []collect.LabelSummary{{Rule: "citer", Labelled: 800, Share: 0.25, Spoil: 1}},
		Pairs:    []collect.PairSummary{{Rules: [2]string{"citer", "r2r"}, Both: 700, Share: 0.5}},
		Rollouts: 1, RolloutTokens: 11}))
}

// TestCalibrateText: each tested threshold is printed with its figures.
func TestCalibrateText(t *testing.T) {
	r := &calibrate.Result{Pilots: 9, Prompts: 81, Thresholds: []float64{0.25, 0.5, 0.75},
		Steps: []certify.Step{{Escalated: 10, Tokens: 400, PValue: 0.001, Certified: true},
			{Escalated: 40, Tokens: 500, PValue: 0.3}}, Graded: 7, Right: []int{5, 6}}
	print := func(f calibrateFlags) string {
		text, _ := printed(t, func(a *cli.App) error { return f.print(a, r) })
		return text
	}
	assert.Equal(t, `9 prompts chose the thresholds, 81 others test them
  threshold  from cloud  tokens  p-value   right    verdict
       0.25       2.50%     400    0.001  5 of 7  certified
        0.5       8.00%     500      0.3  6 of 7  not shown
`, print(calibrateFlags{}))
	assert.Equal(t, `{"threshold":0.25,"prompts":81,"tokens":400,"escalated":10,"escalated_share":0.025,`+
		`"p_value":0.001,"certified":true,"graded":7,"right":5}
{"threshold":0.5,"prompts":81,"tokens":500,"escalated":40,"escalated_share":0.08,"p_value":0.3,"certified":false,`+
		`"graded":7,"right":6}
`, print(calibrateFlags{json: true}))
	r.Pilots, r.Graded = 0, 0
	assert.Regexp(t, `^ +threshold .*\n +0.25 .* - +certified\n +0.5 .* - +not shown\n$`, print(calibrateFlags{}))
}

// TestWorthText: each figure of an evaluation is printed in its place.
func TestWorthText(t *testing.T) {
	w := &worth{rule: "r2r", prompts: 3, names: []string{"learned", "margin", "entropy"}}
	for _, confidences := range [][]float32{{0.15, 0.45, 0.85, 0.95}, {0.35, 0.25, 0.65, 0.75}, {0.5, 0.5, 0.5, 0.5}} {
		var all []router.Verdict
		for i, c := range confidences {
			all = append(all, router.Verdict{Confidence: c, Stands: i != 0})
		}
		w.all, w.ranks = append(w.all, all), append(w.ranks, router.Rank(all))
	}
	show := func() string {
		text, _ := printed(t, func(a *cli.App) error { return w.print(a.Stdout) })
		return text
	}
	assert.Equal(t, `
4 tokens of 3 prompts, 25.00% to escalate by r2r
(all prompts of the traces: were some of them learnt from, this flatters)

   policy  area under the curve  cross-entropy  calibration error
  learned                1.0000         0.2937             0.2250
   margin                0.6667         0.6339             0.4250
  entropy                0.5000         0.6931             0.2500

  confidence  tokens   mean  may stand     gap
  0.1 to 0.2       1  0.150      0.000  +0.150
  0.4 to 0.5       1  0.450      1.000  -0.550
  0.8 to 0.9       1  0.850      1.000  -0.150
  0.9 to 1.0       1  0.950      1.000  -0.050

  threshold  escalated  precision  recall
       0.05      0.00%          -    0.0%
       0.10      0.00%          -    0.0%
       0.20     25.00%     100.0%  100.0%
       0.30     25.00%     100.0%  100.0%
       0.40     25.00%     100.0%  100.0%
       0.50     50.00%      50.0%  100.0%
       0.60     50.00%      50.0%  100.0%
       0.70     50.00%      50.0%  100.0%
       0.80     50.00%      50.0%  100.0%
       0.90     75.00%      33.3%  100.0%
       0.95    100.00%      25.0%  100.0%
       0.99    100.00%      25.0%  100.0%

  escalated  learned  margin  entropy  random
         1%     0.0%    0.0%     0.0%    1.0%
         2%     0.0%    0.0%     0.0%    2.0%
         5%     0.0%    0.0%     0.0%    5.0%
         7%     0.0%    0.0%     0.0%    7.0%
        10%     0.0%    0.0%     0.0%   10.0%
        20%     0.0%    0.0%     0.0%   20.0%
        30%   100.0%    0.0%     0.0%   30.0%
        50%   100.0%  100.0%     0.0%   50.0%

precision: share of the escalated tokens that the labels escalate
recall: share of the tokens that the labels escalate which are escalated, as in
the last table for each policy
`, show())
	w.held = true
	assert.Contains(t, show(), "\n(only prompts that training held back)\n")
	e, first := w.event(), w.all[0]
	learned := e.Policies[0]
	assert.Equal(t, worthEvent{Tokens: 4, Prompts: 3, Held: true, Label: "r2r", Escalate: new(0.25),
		Policies: e.Policies, Reliability: e.Reliability}, e)
	assert.Equal(t, policyEvent{Policy: "learned", AUC: new(1.0), CrossEntropy: router.CrossEntropy(first),
		Calibration: router.CalibrationError(router.Reliability(first)), Points: learned.Points,
		Budgets: learned.Budgets}, learned)
	assert.Equal(t, pointEvent{0.9, 0.75, new(1 / 3.), new(1.0)}, learned.Points[9])
	assert.Equal(t, pointEvent{float64(first[2].Confidence), 0.5, new(0.5), new(1.0)}, learned.Budgets[7])
	assert.Equal(t, pointEvent{Threshold: 0.05, Recall: new(0.0)}, learned.Points[0], "nothing is escalated")
	assert.Equal(t, binEvent{0.4, 0.5, 1, float64(first[1].Confidence), 1}, e.Reliability[4])
	for name, c := range w.charts() {
		for _, text := range []string{c.Title, c.X.Label, c.Y.Label} {
			assert.NotEmpty(t, text, name)
		}
		for _, l := range c.Lines {
			assert.NotEmpty(t, l.Name, name)
			assert.Len(t, l.Y, len(l.X), name)
		}
	}
}
