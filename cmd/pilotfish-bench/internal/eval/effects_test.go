package eval

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// TestEvalEffects: each flag sets what it is for in the questions and in how they are answered.
func TestEvalEffects(t *testing.T) {
	elsewhere := clitest.NamesOf(new(measure.PairFlags).Register) + " run-code out html json"
	const usual = "Runs[0].Policy=margin; Runs[0].Threshold=0.5"
	clitest.Effects(t, "--policy margin --threshold 0.5", elsewhere, map[string]string{
		"": "Every=64; MaxTokens=77; " + usual + "; Set.Tokens=77",

		"--data f":                    "Questions.Data=f",
		"--split test":                "Questions.Split=test",
		"--questions 9":               "Questions.Most=9",
		"--skip 9":                    "Questions.Skip=9",
		"--shots 2":                   "Questions.Shots=2",
		"--raw":                       "Raw=true",
		"--max-tokens 9":              "MaxTokens=9",
		"--max-tokens 0":              "MaxTokens=",
		"--temp 0.5 --seed 9":         "Sampling.Seed=9; Sampling.Temperature=0.5",
		"--policy entropy":            "Runs[0].Policy=entropy",
		"--threshold 0.25,1":          "Runs[0].Threshold=0.25; Runs[1].Policy=margin; Runs[1].Threshold=1",
		"--budget 0.1":                "Runs[1].Budget=0.1; Runs[1].Policy=margin",
		"--router f --policy learned": "Runs[0].Policy=learned; router=f",
		"--verify 2":                  "Runs[0].Verify=2",
		"--verify 0 --verify-every 9": "Every=9; Runs[0].Verify=&0",
	}, func(c *cobra.Command, parse func()) any {
		f := new(evalFlags)
		f.registerFlags(c)
		parse()
		runs, err := f.listRuns(task.CSQA)
		require.NoError(t, err)
		return struct {
			eval.Options
			Questions task.Options
			router    string
		}{f.evalOptions(&task.Set{Tokens: 77}, runs), f.questionOptions(), f.router}
	})
}

// TestUsualPolicies: without --policy all that route are measured, at thresholds, too.
func TestUsualPolicies(t *testing.T) {
	c, f := new(cobra.Command), new(evalFlags)
	f.registerFlags(c)
	require.NoError(t, c.ParseFlags([]string{"--threshold", "0.5"}))
	runs, err := f.listRuns(task.CSQA)
	require.NoError(t, err)
	var names []string
	for _, r := range runs {
		names = append(names, r.Name())
	}
	assert.Equal(t, []string{"never", "always", "random 0.5", "margin 0.5", "entropy 0.5"}, names)
}

// TestEvalSettings: the log of answers has each flag that answers depend on, so that it does not mix answers.
func TestEvalSettings(t *testing.T) {
	small, large := clitest.TinyModel(t, "q8_0"), clitest.TinyModel(t, "f16")
	const elsewhere = "model large cloud pin token-file threads huge-pages backend data " +
		"split questions shots router run-code out html json"
	usual := "--model " + small + " --large " + large + " --policy margin --threshold 0.5"
	clitest.Effects(t, usual, elsewhere, map[string]string{
		"": "Arithmetic=backend cpu, keys and values auto, exact false; Context=512; Data=hash; MaxTokens=77; " +
			"Prompts=p; Questions=2; Router=sum; Runs=[margin 0.5]; Shots=1; Split=test; Task=name",

		"--ctx 70":            "Context=70",
		"--kv f32":            "Arithmetic=backend cpu, keys and values f32, exact false",
		"--exact ":            "Arithmetic=backend cpu, keys and values auto, exact true",
		"--raw":               "Raw=true",
		"--skip 9":            "Skip=9",
		"--max-tokens 9":      "MaxTokens=9",
		"--temp 0.5 --seed 9": "Seed=9; Temperature=0.5",
		"--policy entropy":    "Runs=[entropy 0.5]",
		"--policy verify":     "Runs=[verify 7%]", // it has no threshold
		"--policy verify --verify 2,off --budget 0.2": "Runs=[verify 20%]",
		"--threshold 0.25":                            "Runs=[margin 0.25]",
		"--budget 0.1":                                "Runs=[margin 0.5 margin 10%]",
		"--verify 0 --verify-every 9":                 "Runs=[margin 0.5 verified 0]; VerifyEvery=9",
	}, func(c *cobra.Command, parse func()) any {
		f, a := new(evalFlags), &cli.App{Stderr: io.Discard}
		f.registerFlags(c)
		parse()
		runs, err := f.listRuns(task.CSQA)
		require.NoError(t, err)
		models, err := f.pair.Open(t.Context(), a, true)
		require.NoError(t, err)
		defer models.Close()
		o := f.evalOptions(&task.Set{Name: "name", Split: "test", Hash: "hash", Prompts: "p", Tokens: 77,
			Shots: make([]task.Question, 1), Questions: make([]task.Question, 2)}, runs)
		o.Context = models.Context()
		s, about, err := f.logSettings(c, a, models, o, "sum")
		require.NoError(t, err)
		assert.Equal(t, cli.BuildVersion(), about.Version)
		assert.NotEqual(t, s.Small, s.Large)
		s.Small, s.Large = "", ""
		return s
	})
}
