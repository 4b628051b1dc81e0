package routing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestDemoCounts: with the policy always, all tokens are from the large model, and after a deadline none.
func TestDemoCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the demo: not with -short")
	}
	demo := func(args ...string) []outcome.Report {
		code, stdout, stderr := clitest.Call(t, append([]string{"routing", "--json", "--questions", "3",
			"--edge-tps", "0",
			"--modes", "paper,serial,pipelined-4"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return clitest.Lines[outcome.Report](t, stdout)
	}
	for _, r := range demo("--rtt", "1ms", "--cloud-ms", "0", "--policy", "always", "--deadline", "off") {
		assert.Equal(t, 1.0, r.Rates()["escalated_share"], r.Mode)
		assert.Zero(t, r.Sums.Timeouts)
	}
	for _, r := range demo("--rtt", "300ms", "--deadline", "5ms") {
		assert.Zero(t, r.Rates()["escalated_share"], r.Mode)
		assert.Positive(t, r.Sums.Timeouts)
		for _, of := range []string{"hidden_share", "hit_rate", "bytes_up", "bytes_down"} {
			assert.NotContains(t, r.Rates(), of, r.Mode)
		}
	}
}
