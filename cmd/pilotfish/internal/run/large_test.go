package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestRunLarge: with --large the text is the large model's alone, and the summary counts the drafts of the small one.
func TestRunLarge(t *testing.T) {
	racing.Spare(t)
	small, large, _ := clitest.DemoPairFiles(t)
	question := demo.Questions(demo.HeldOut)[0].Text
	for _, flags := range []string{
		"", "--temp 0.8 --seed 3", "--stop is --logprobs 2", "--repeat-penalty 1.2", "-n 5",
	} {
		args := append([]string{"run", "-m", small, "--large", large, "--json"}, strings.Fields(flags)...)
		code, stdout, stderr := clitest.Call(t, append(args, question)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		assert.Empty(t, stderr)
		events := clitest.Lines[clitest.RunEvent](t, stdout)
		got, want := events[len(events)-1].Summary, alone(t, large, strings.Fields(flags)...)
		assert.Equal(t, want.Text, got.Text, flags)
		assert.Equal(t, want.Tokens, got.Tokens, flags)
		assert.Equal(t, want.Stop, got.Stop)
		assert.LessOrEqual(t, got.DraftsAccepted, got.Drafts)
		assert.Nil(t, got.Error)
		edge := 0
		for _, e := range events[:len(events)-1] {
			if e.Origin == "edge" {
				edge++
			} else {
				assert.Equal(t, "cloud", e.Origin)
			}
		}
		assert.LessOrEqual(t, edge, got.DraftsAccepted)
	}
	code, stdout, stderr := clitest.Call(t, "run", "-m", small, "--large", large, question)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, alone(t, large).Text+"\n", stdout)
	assert.Contains(t, stderr, "tokens that the small model drafted were accepted")
}

// TestRunLargeRefused: a file that is no model, and models with other tokens.
func TestRunLargeRefused(t *testing.T) {
	small, _, _ := clitest.DemoPairFiles(t)
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"--large=", "--large is empty", cli.ExitUsage},
		{"--large /nowhere/large.gguf", "/nowhere/large.gguf", cli.ExitFailed},
		{"--large " + clitest.OtherTokens(t), "its tokens are not those of", cli.ExitFailed},
	} {
		code, _, stderr := clitest.Call(t, append([]string{"run", "-m", small, "why?"}, strings.Fields(c.args)...)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr, c.want)
	}
}
