package router

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/calibrate"
	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
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

// TestAbout: the description of a router has everything that its file says.
func TestAbout(t *testing.T) {
	about := router.About{Version: "v9", Model: "0123456789abcdef", ModelName: "small", Large: "fedcba", LargeName: "l",
		Tap: "tap", Data: "data", Label: "consequence", Prompts: 30, Positions: 400, Seed: 5,
		Escalate: 0.125, Calibration: 0.0625, AUC: 0.75}
	file := &router.File{Net: &router.Net{Layers: []router.Layer{{In: 3, Out: 2}, {Out: 1}}}, About: about}
	from, to := reflect.ValueOf(about), reflect.ValueOf(newAboutEvent(file))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		assert.Equal(t, from.Field(i).Interface(), to.FieldByName(name).Interface(), name)
	}
	text, _ := printed(t, func(a *cli.App) error { return new(showFlags).printRouter(a, "r.gguf", file) })
	for _, want := range []string{"small model   small (0123456789ab…)\n", "large model   l (fedcba)\n",
		"network       3 to 2 to 1\n", "hidden state  tap\n", "traces        data\n",
		"learnt from   400 tokens of 30 prompts, 12.5% to escalate; seed: 5\n", "made by       v9\n",
		"held back     a tenth of the prompts: area 0.7500, calibration error 0.0625\n",
		"label         consequence\n"} {
		assert.Contains(t, text, "  "+want)
	}
	file.Certificate = &router.Certificate{Budget: 0.07, Confidence: 0.9, Threshold: 0.625, Share: 0.02, Prompts: 400,
		Tokens: 16000, MaxTokens: 48, Method: "betting"}
	assert.Equal(t, file.Certificate, newAboutEvent(file).Certificate)
	text, _ = printed(t, func(a *cli.App) error { return new(showFlags).printRouter(a, "r.gguf", file) })
	assert.Contains(t, text, "  certificate   "+group.CertificateText(file.Certificate)+"\n")
	assert.NotContains(t, text, "none")
	file.Certificate = nil
	file.About = router.About{}
	text, _ = printed(t, func(a *cli.App) error { return new(showFlags).printRouter(a, "r.gguf", file) })
	assert.Equal(t, 3, strings.Count(text, "\n"), "lines without a value are left out")
}

// TestFigures: each figure of a training and of a collection is printed in its place.
func TestFigures(t *testing.T) {
	r := &train.Result{Epochs: 20, Best: 12, Prompts: 54, Positions: 1080, Escalate: 0.25, Loss: 0.5, AUC: 0.75,
		HeldOut: train.HeldOut{Prompts: 6, Rows: make([]int, 120)}, Calibration: 0.0625, Uncalibrated: 0.125,
		Scale: 1.5, Shift: -0.5}
	text, _ := printed(t, func(a *cli.App) error {
		return (&trainFlags{json: true}).printTraining(a, r, 3500*time.Millisecond)
	})
	assert.Equal(t, `{"prompts":54,"positions":1080,"escalate_share":0.25,"held_prompts":6,`+
		`"held_positions":120,"epochs":20,"best_epoch":12,"cross_entropy":0.5,"auc":0.75,`+
		`"calibration_error":0.0625,"uncalibrated_error":0.125,"scale":1.5,"shift":-0.5,"seconds":3.5}`+"\n", text)

	s := &collect.Summary{Reference: "routed", Prompts: 30, Positions: 900, Bytes: 1.5e6, DifferShare: 0.125,
		LeftOut: 4, Cut: 5, Right: 6, Graded: 7,
		Labels: []collect.LabelSummary{{Rule: "citer", Labelled: 800, Share: 0.25}}}
	_, text = printed(t, func(a *cli.App) error {
		(&collectFlags{out: "traces", max: 256}).printSummary(a, s, 2.5)
		return nil
	})
	assert.Equal(t, `30 prompts, 900 positions, 1.5 MB in traces, 2.5 s
prompts left out, as they leave no room for an answer in the models' context: 4
answers cut, as they are longer than -n 256 or than the models' context has room for: 5
6 of 7 graded answers are right
the models choose different tokens at 12.50% of the positions
citer: escalate at 25.00% of 800 labelled positions
`, text)
}

// TestWorth: each figure of an evaluation is printed in its place.
func TestWorth(t *testing.T) {
	var verdicts [][]router.Verdict
	for _, confidences := range [][]float32{{0.15, 0.45, 0.85, 0.95}, {0.35, 0.25, 0.65, 0.75}, {0.5, 0.5, 0.5, 0.5}} {
		var all []router.Verdict
		for i, c := range confidences {
			all = append(all, router.Verdict{Confidence: c, Stands: i != 0})
		}
		verdicts = append(verdicts, all)
	}
	e := newEvaluationEvent(verdicts[0], verdicts[1], verdicts[2])
	e.Prompts, e.Label = 3, "consequence"
	text, _ := printed(t, func(a *cli.App) error { return e.printTables(a.Stdout) })
	for _, want := range []string{
		"4 tokens of 3 prompts, 25.00% to escalate by consequence\n(all prompts of the traces: ",
		"learned                1.0000         0.2937             0.2250\n",
		"gap\n  0.1 to 0.2       1  0.150      0.000  +0.150\n",
		"0.4 to 0.5       1  0.450      1.000  -0.550\n", "0.10      0.00%          -    0.0%\n",
		"0.90     75.00%      33.3%  100.0%\n", "30%   100.0%    0.0%     0.0%   30.0%\n"} {
		assert.Contains(t, text, want)
	}

	assert.Equal(t, 4, e.Tokens)
	assert.Equal(t, new(0.25), e.Escalate)
	x := func(n float64) *float64 { return &n }
	require.Len(t, e.Policies, 3)
	for i, p := range e.Policies {
		v := verdicts[i]
		want := policyEvent{Policy: []string{"learned", "margin", "entropy"}[i], AUC: x(router.AUC(v)),
			CrossEntropy: router.CrossEntropy(v), Calibration: router.CalibrationError(router.Reliability(v)),
			Points: p.Points, Budgets: p.Budgets}
		assert.Equal(t, want, p)
	}
	learned := e.Policies[0]
	require.Len(t, learned.Points, len(shownThresholds()))
	assert.Equal(t, 0.05, learned.Points[0].Threshold)
	assert.Equal(t, 0., learned.Points[0].Share)
	assert.Nil(t, learned.Points[0].Precision, "nothing is escalated")
	assert.Equal(t, pointEvent{0.9, 0.75, x(1. / 3), x(1)}, learned.Points[slices.Index(shownThresholds(), 0.9)])
	assert.Equal(t, 0.25, learned.Budgets[6].Share, "at most 30%")
	assert.Equal(t, 1., *learned.Budgets[6].Precision)
	assert.Equal(t, 1., *learned.Budgets[6].Recall)
	assert.Equal(t, router.Bin{Low: 0.4, High: 0.5, Tokens: 1, Confidence: float64(float32(0.45)), Stand: 1},
		e.Reliability[4])
}

// TestCalibrationFigures: each figure of a calibration is printed in its place, with advice if nothing was certified.
func TestCalibrationFigures(t *testing.T) {
	l := calibrate.Ladder{Policy: router.Learned, Thresholds: []float64{0.2, 0.3, 0.9}, Right: []int{40, 50, 60},
		Steps: []certify.Step{{Tokens: 1010, PValue: 0.01, Certified: true},
			{Escalated: 10, Tokens: 1000, PValue: 0.015, Certified: true}, {Escalated: 90, Tokens: 900, PValue: 0.25}}}
	r := &calibrate.Result{Pilots: 9, Prompts: 81, Longest: 40, Graded: 70, Alone: 30, Ladders: []calibrate.Ladder{l}}
	f := calibrateFlags{budget: 0.07, max: 48}
	text, _ := printed(t, func(a *cli.App) error { return f.printThresholds(a, r) })
	assert.Equal(t, `9 prompts chose the thresholds, 81 others test them
   policy  threshold  from cloud  tokens  p-value     right           verdict
    never          0       0.00%       0        0  30 of 70                  
  learned        0.2       0.00%    1010     0.01  40 of 70  asks for nothing
  learned        0.3       1.00%    1000    0.015  50 of 70         certified
  learned        0.9      10.00%     900     0.25  60 of 70         not shown
`, text)
	f.json = true
	text, _ = printed(t, func(a *cli.App) error { return f.printThresholds(a, r) })
	assert.Contains(t, text, `{"policy":"learned","threshold":0.3,"prompts":81,"tokens":1000,"escalated":10,`+
		`"escalated_share":0.01,"p_value":0.015,"certified":true,"graded":70,"right":50}`+"\n"+
		`{"policy":"learned","threshold":0.9,"prompts":81,"tokens":900,"escalated":90,"escalated_share":0.1,`+
		`"p_value":0.25,"certified":false,"graded":70,"right":60}`+"\n")
	f.json, r.Pilots, r.Graded = false, 0, 0
	text, _ = printed(t, func(a *cli.App) error { return f.printThresholds(a, r) })
	assert.NotContains(t, text, "chose")
	assert.Equal(t, 3, strings.Count(text, "  -  "), "no grades")

	const none = "nothing can be certified, and no file is written: "
	const above = "which is not below the budget: begin with a lower one (--threshold)"
	for _, c := range []struct {
		name                       string
		escalated, needed, longest int
		certified                  bool
		why                        string
	}{
		{"more prompts needed", 50, 500, 36, false,
			"takes 5.0%: about 500 prompts like these would be needed, 81 were tested"},
		{"too near to the budget", 69, 0, 36, false,
			"takes 6.9%, too near to the budget for any number of prompts up to a million"},
		{"at the budget", 70, 0, 36, false, "takes 7.0%, " + above},
		{"certified but empty", 0, 0, 36, true, "policy learned asks for nothing at any threshold"},
		{"shorter answers", 70, 0, 35, false, "takes 7.0%, " + above +
			"; no answer was longer than 35 tokens, so that with -n 35 fewer would do"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.Steps = []certify.Step{{Escalated: c.escalated, Tokens: 1000, Certified: c.certified}}
			l.Needed, r.Longest = c.needed, c.longest
			r.Ladders = []calibrate.Ladder{l}
			want := strings.Replace(c.why, "takes", "policy learned, threshold 0.2 takes", 1)
			want = strings.Replace(want, "%", "% of the tokens from the large model", 1)
			assert.EqualError(t, f.reportNothingCertified(nil, r), none+want)
		})
	}
	assert.Nil(t, finiteOrNil(math.NaN()))
	assert.Nil(t, finiteOrNil(math.Inf(-1)))
	assert.Equal(t, 0., *finiteOrNil(0))
}
