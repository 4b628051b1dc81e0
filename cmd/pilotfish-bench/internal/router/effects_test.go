package router

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/calibrate"
	"github.com/pilotfish-ai/pilotfish/bench/collect"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/router/train"
)

// asked is the questions that a command asks.
type asked struct {
	name string
	task.Options
	skipped int
}

// TestCollectEffects: each flag sets what it is for in the questions and in what is collected.
func TestCollectEffects(t *testing.T) {
	elsewhere := clitest.NamesOf(new(measure.PairFlags).Register) + " run-code json"
	net := clitest.DemoFile("router.gguf")
	clitest.Effects(t, "--data d --out o", elsewhere, map[string]string{
		"": "Collect.MaxTokens=256; Collect.Temperature=1; " +
			"Questions.Data=d; Questions.name=d; out=o",

		"--data e":                  "Questions.Data=e; Questions.name=e",
		"--task gsm8k":              "Questions.name=gsm8k",
		"--split training":          "Questions.Split=training",
		"--shots 2":                 "Questions.Shots=2",
		"--out p":                   "out=p",
		"--raw":                     "Collect.Raw=true; raw=true",
		"--questions 9":             "Questions.Most=9",
		"--seed 9":                  "Collect.Seed=9; Questions.Seed=9",
		"--reference large":         "Collect.Reference=large",
		"--temp 0.5":                "Collect.Temperature=0.5",
		"--label citer,consequence": "Collect.Labels=[citer consequence]",
		"--max-tokens 9":            "Collect.MaxTokens=9",
		"--kv f32 --exact":          "Collect.Compute=kv f32, exact true",
		"--backend soft":            "Collect.Compute=backend soft",
		"--reference routed --router " + net: "Collect.Reference=routed; Collect.Router.Policy=learned; " +
			"Collect.Router.Threshold=0.5",
		"--reference routed --router " + net +
			" --threshold 0.25": "Collect.Reference=routed; Collect.Router.Policy=learned; " +
			"Collect.Router.Threshold=0.25",
	}, func(c *cobra.Command, parse func()) any {
		f := new(collectFlags)
		f.registerFlags(c)
		parse()
		o, err := f.collectOptions(nil)
		require.NoError(t, err)
		o.Router.Net, o.RouterHash = nil, ""
		name, questions := f.questionOptions()
		return struct {
			Collect   collect.Options
			Questions asked
			out       string
			raw       bool
		}{o, asked{name, questions, 0}, f.out, f.raw}
	})
}

// TestCalibrateEffects: each flag sets what it is for in the questions and in the calibration.
func TestCalibrateEffects(t *testing.T) {
	elsewhere := clitest.NamesOf(new(measure.PairFlags).Register) + " run-code json"
	clitest.Effects(t, "--out o", elsewhere, map[string]string{
		"": "Budget=0.07; Confidence=0.9; MaxTokens=256; Policies=[margin learned verify judge]; " +
			"Questions.Most=1200; Questions.Seed=1; Questions.name=demo-train; Questions.skipped=800; Seed=1; out=o",

		"--router f":           "router=f",
		"--data d":             "Questions.Data=d; Questions.Most=; Questions.name=d; Questions.skipped=",
		"--data d --task csqa": "Questions.Data=d; Questions.Most=; Questions.name=csqa; Questions.skipped=",
		"--task csqa --split calibration": "Questions.Most=; Questions.Split=calibration; Questions.name=csqa; " +
			"Questions.skipped=",
		"--data d --questions 9":          "Questions.Data=d; Questions.Most=9; Questions.name=d; Questions.skipped=",
		"--raw":                           "raw=true",
		"--questions 9":                   "Questions.Most=809",
		"--policy verify":                 "Policies=[verify]",
		"--policy margin --threshold 0.5": "Policies=[margin]; Thresholds=[0.5]",
		"--budget 0.2":                    "Budget=0.2",
		"--confidence 0.6":                "Confidence=0.6",
		"--max-tokens 9":                  "MaxTokens=9",
		"--seed 9":                        "Questions.Seed=9; Seed=9",
		"--out p":                         "out=p",
	}, func(c *cobra.Command, parse func()) any {
		f := new(calibrateFlags)
		f.registerFlags(c)
		parse()
		o, err := f.calibrateOptions()
		require.NoError(t, err)
		name, questions, skipped := f.questionOptions()
		return struct {
			calibrate.Options
			Questions   asked
			router, out string
			raw         bool
		}{o, asked{name, questions, skipped}, f.router, f.out, f.raw}
	})
}

// TestTrainEffects: each flag sets what it is for in training.
func TestTrainEffects(t *testing.T) {
	clitest.Effects(t, "--out o --threads 7", "json", map[string]string{
		"":                    "Train.Hidden=64; Train.Threads=7; out=o",
		"--out p":             "out=p",
		"--threads 3":         "Train.Threads=3",
		"--label consequence": "label=consequence",
		"--seed 9":            "Train.Seed=9",
		"--hidden 9":          "Train.Hidden=9",
		"--hidden 0":          "Train.Hidden=-1",
	}, func(c *cobra.Command, parse func()) any {
		f := new(trainFlags)
		f.registerFlags(c)
		parse()
		return struct {
			Train      train.Options
			out, label string
		}{f.trainOptions(), f.out, f.label}
	})
}
