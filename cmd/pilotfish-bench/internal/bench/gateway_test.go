package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchGateway: each flag has its effect on the measurement.
func TestBenchGateway(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	t.Chdir(t.TempDir())
	measure := func(args string) *wire.GatewayReport {
		code, stdout, stderr := clitest.Call(t, append([]string{"gateway", "--json"},
			strings.Fields(args)...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return clitest.Lines[*wire.GatewayReport](t, stdout)[0]
	}
	r := measure("--devices 3 --rate 10 --model-ms 30 --seconds 0.5")
	assert.Equal(t, 15, r.Answers)
	assert.GreaterOrEqual(t, r.Time.P50, 29.9)
	code, stdout, stderr := clitest.Call(t, strings.Fields(
		"gateway --devices 1 --rate 50 --seconds 0.2")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^devices .* answered .*\n1 .* 10 of 10 `, stdout)
	r = measure("--devices 3 --rate 40 --model-ms 20 --seconds 0.5 --parallel 1")
	assert.Equal(t, 60, r.Asks)
	assert.GreaterOrEqual(t, r.Time.Max, 200., "more asks are due than can be served one at a time")
}

// TestRefused: each reason has its number of questions.
func TestRefused(t *testing.T) {
	var errs strings.Builder
	printRefusals(&cli.App{Stderr: &errs}, &wire.GatewayReport{Refusals: map[string]int{"too fast": 6, "busy": 3}})
	assert.Equal(t, "3 questions refused: busy\n6 questions refused: too fast\n", errs.String())
}
