package eval

import (
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEvalDials: --verify, --verify-every and --ahead add runs to each policy and threshold, and the report compares
// them with the policy alone.
func TestEvalDials(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	clitest.OwnFolders(t)
	const short = "demo --questions 6 --policy never,always,margin --threshold 0.3,0.9"
	demo := func(flags string) map[string]evalLine {
		got, _ := evaluated(t, strings.Fields(short+" "+flags)...)
		return got
	}
	usual := demo("")
	assert.Len(t, usual, 5, "and the oracle")
	got := demo("--verify off,0,1000 --ahead 1,8 --verify-every 8")
	// always without verification, never without tokens ahead unless with verification
	assert.Len(t, got, 2*6+2+5+1)
	assert.Equal(t, 0.0, *got["margin 0.3 verified 0 ahead 8"].Verify)
	assert.Equal(t, 8, got["margin 0.3 verified 0 ahead 8"].Ahead)
	for name, run := range got {
		switch {
		case strings.Contains(name, "verified 0"):
			assert.Equal(t, *got["always"].Accuracy, *run.Accuracy, name)
			assert.Equal(t, got["always"].Tokens, run.Tokens, name)
		case strings.Contains(name, "margin 0.3"):
			assert.Equal(t, *usual["margin 0.3"].Accuracy, *run.Accuracy, name)
		}
	}
	assert.Nil(t, got["margin 0.3"].Verify)
	assert.Equal(t, usual["margin 0.3"].Asks, got["margin 0.3"].Asks)
	assert.Less(t, demo("--verify 0")["never verified 0"].Asks, got["never verified 0"].Asks, "--verify-every 64")
	assert.Contains(t, got, "always ahead 8")
	assert.NotContains(t, got, "never ahead 8")

	args := strings.Fields("eval " + short + " --verify off,0 --verify-every 64")
	code, stdout, stderr := clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, want := range []string{`(?m)^run .* asks +known +turned +ahead +tokens`,
		`(?m)^known +tokens per answer that`, `(?m)^never verified 0 +100\.0%`} {
		assert.Regexp(t, want, stdout)
	}
	for args, want := range map[string]string{
		"--verify 0,x":                    `--verify: "x" is not possible: give off, or a margin`,
		"--verify 0,0.0":                  "--verify names 0 twice",
		"--verify off,off":                "--verify names off twice",
		"--verify=":                       `--verify: "" is not possible`,
		"--ahead 0":                       `--ahead: "0" is not possible: give numbers of tokens, 1 to 64`,
		"--ahead 1,65":                    `--ahead: "65"`,
		"--ahead 2,2":                     "--ahead names 2 twice",
		"--verify-every 5":                "--verify-every has no effect without verification",
		"--verify 0 --verify-every 0":     "--verify-every 0 is out of range",
		"--verify 0 --policy always":      "leave no run with --policy always: add off to --verify",
		"--ahead 8 --policy never":        "leave no run with --policy never",
		"--verify off --verify-every 1e3": "--verify-every",
	} {
		code, stdout, stderr := clitest.Call(t,
			append([]string{"eval", "demo", "--questions", "1"}, strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitUsage, code, args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want, args)
	}
}
