package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChooseFlags: each flag changes its own setting, and no other.
func TestChooseFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"null"}`), 0o600))
	parse := func(args ...string) terms.Settings {
		f := parsedRun(t, "")
		require.NoError(t, f.set.Parse(append([]string{"--temp", "1", "--seed", "1", "--json"}, args...)))
		_, _, _, err := f.routing(&cli.App{})
		require.NoError(t, err)
		return f.answer.Settings
	}
	for _, c := range []struct {
		args   []string
		change func(r *terms.Settings)
	}{
		{[]string{"--stop", `\n`, "--stop", "end,\"\\\\\\u00e9\xff\\xff"}, func(r *terms.Settings) {
			r.Stop = []string{"\n", "end,\"\\é\ufffd\xff"}
		}},
		{[]string{"--logit-bias", "5=-1.5", "--logit-bias", "0=100"}, func(r *terms.Settings) {
			r.LogitBias = map[int32]float32{5: -1.5, 0: 100}
		}},
		{[]string{"--logprobs", "20"}, func(r *terms.Settings) { r.Top = 20 }},
		{[]string{"--json-schema", file}, func(r *terms.Settings) {
			r.Schema, r.Complete = []byte(`{"type":"null"}`), true
		}},
		{[]string{"--json-schema", ` {"type":"array"}`},
			func(r *terms.Settings) { r.Schema, r.Complete = []byte(` {"type":"array"}`), true }},
	} {
		want := parse()
		c.change(&want)
		assert.Equal(t, want, parse(c.args...), c.args)
	}
}

// TestChooseAct: the flags have their effects.
func TestChooseAct(t *testing.T) {
	m := clitest.DemoFile("small.gguf")
	do := func(args ...string) ([]clitest.RunEvent, *event.Summary) {
		t.Helper()
		code, stdout, stderr := clitest.Call(t, append([]string{"run", "-m", m, "--json", "-n", "40", "a"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		all := clitest.Lines[clitest.RunEvent](t, stdout)
		return all[:len(all)-1], all[len(all)-1].Summary
	}
	whole, plain := do()
	assert.Nil(t, whole[0].LogProbs)
	_, s := do("--stop", plain.Text[3:6])
	assert.Equal(t, "stop", s.Stop)
	before, _, _ := strings.Cut(plain.Text, plain.Text[3:6])
	assert.Equal(t, before, s.Text)
	for _, args := range [][]string{
		{"--logit-bias", "97=50"}, {"--ignore-eos", "--presence-penalty", "2"},
		{"--ignore-eos", "--frequency-penalty", "2"},
		{"--ignore-eos", "--repeat-penalty", "9"},
	} {
		_, s := do(args...)
		assert.NotEqual(t, plain.Text, s.Text, args)
	}
	_, s = do("--json-schema", `{"enum":["yes","no"]}`)
	assert.Contains(t, []string{`"yes"`, `"no"`}, s.Text)
	assert.Equal(t, "end", s.Stop)
	all, _ := do("--logprobs", "3")
	require.NotNil(t, all[0].LogProbs)
	require.Len(t, all[0].LogProbs.Top, 3)
	assert.Equal(t, *all[0].LogProb, all[0].LogProbs.Top[0].LogProb)
	assert.Equal(t, all[0].ID, all[0].LogProbs.Top[0].ID)
	assert.Equal(t, all[0].Text, all[0].LogProbs.Top[0].Text)
	code, stdout, stderr := clitest.Call(t, "run", "-m", m, "--stop", plain.Text[3:6], "a")
	assert.Equal(t, cli.ExitDone, code)
	assert.Equal(t, before+"\n", stdout)
	assert.Contains(t, stderr, "stopped at a text of --stop")
}

func TestNumberFlags(t *testing.T) {
	clitest.NumbersReach(t, func(args []string) (terms.Settings, error) {
		f := parsedRun(t, strings.Join(args, " "))
		if err := cli.CheckFlags(f.set); err != nil {
			return terms.Settings{}, err
		}
		_, _, _, err := f.routing(&cli.App{})
		return f.answer.Settings, err
	})
}
