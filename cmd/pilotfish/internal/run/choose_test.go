package run

import (
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/event"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
