package bench

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestRoutingTable: without --json the output is a table with its legend for a terminal of 80 columns, below what it
// means and the settings.
func TestRoutingTable(t *testing.T) {
	racing.Spare(t)
	code, stdout, stderr := clitest.Call(t, "routing", "--questions", "4", "--rtt", "10ms", "--edge-tps", "0",
		"--cloud-ms", "0",
		"--deadline", "off")
	require.Equal(t, cli.ExitDone, code, stderr)
	for i, line := range strings.Split(stdout, "\n") {
		assert.True(t, i < 3 || utf8.RuneCountInString(line) <= 80, line)
	}
	all := strings.Split(strings.TrimSpace(stdout), "\n\n")
	require.Len(t, all, 2, "a table and its legend")
}

// TestBenchReport: lines of files become a page; an invalid line is named.
func TestBenchReport(t *testing.T) {
	racing.Spare(t)
	t.Chdir(t.TempDir())
	for _, rtt := range []string{"0ms", "5ms"} {
		code, stdout, stderr := clitest.Call(t, "routing", "--json", "--questions", "2", "--rtt", rtt,
			"--edge-tps", "0",
			"--cloud-ms", "0", "--deadline", "off", "--modes", "local,pipelined-2")
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Len(t, clitest.Lines[outcome.Report](t, stdout), 2)
		require.NoError(t, os.WriteFile(rtt+".jsonl", []byte(stdout), 0o600))
	}
	code, stdout, stderr := clitest.Call(t, "report", "0ms.jsonl", "5ms.jsonl", "-o", "page.html")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "page.html\n", stdout)
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(page), "<h2>pilotfish-demo-small asks"), "one study of two round trips")
}
