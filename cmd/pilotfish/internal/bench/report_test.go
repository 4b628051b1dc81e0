package bench

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestDemoReport: without --json the output of the demo fits a terminal of 80 columns: the settings in a line, tables,
// legend. --html writes a page with the same figures.
func TestDemoReport(t *testing.T) {
	racing.Spare(t)
	t.Chdir(t.TempDir())
	code, stdout, stderr := clitest.Call(t, "demo", "--questions", "4", "--rtt", "10ms", "--edge-tps", "0",
		"--cloud-ms", "0",
		"--deadline", "off", "--html", "page.html")
	require.Equal(t, cli.ExitDone, code, stderr)
	for line := range strings.Lines(stdout) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
	assert.True(t, strings.HasPrefix(stdout,
		"4 answers, RTT 10 ms, device at full speed, cloud 0 ms/token, deadline off\n\n"), stdout)
	all := strings.Split(strings.TrimSpace(stdout), "\n\n")
	require.Len(t, all, 6, "settings, three tables, legend, empty cells")

	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	for _, want := range []string{"<td>pipelined-4</td>", "<summary>cell1-waterfall-verified</summary>", "round trip 10 ms",
		"<code>pilotfish demo --", " GB/s"} {
		assert.True(t, strings.Contains(string(page), want), want)
	}
	code, _, stderr = clitest.Call(t, "demo", "--html", "nowhere/page.html")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--html nowhere/page.html: there is no folder nowhere")
	code, _, stderr = clitest.Call(t, "demo", "--html", ".")
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--html .: that is a folder, not a file")
}

// TestBenchReport: lines of files become a page; an invalid line is named.
func TestBenchReport(t *testing.T) {
	racing.Spare(t)
	t.Chdir(t.TempDir())
	for _, rtt := range []string{"0ms", "5ms"} {
		code, stdout, stderr := clitest.Call(t, "demo", "--json", "--questions", "2", "--rtt", rtt, "--edge-tps", "0",
			"--cloud-ms", "0", "--deadline", "off", "--modes", "local,pipelined-2")
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Len(t, clitest.Lines[outcome.Report](t, stdout), 2)
		require.NoError(t, os.WriteFile(rtt+".jsonl", []byte(stdout), 0o600))
	}
	code, stdout, stderr := clitest.Call(t, "bench", "report", "0ms.jsonl", "5ms.jsonl", "-o", "page.html")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, "page.html\n", stdout)
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(page), "<h2>pilotfish-demo-small asks"), "one study of two round trips")

	require.NoError(t, os.WriteFile("bad.jsonl", []byte("{\"run\":{}}\n"), 0o600))
	require.NoError(t,
		os.WriteFile("odd.jsonl", []byte(`{"mode":"local","cell":{},"answers":"many","run":{"measurement":"demo"}}`), 0o600))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"0ms.jsonl", cli.ExitUsage, "Give the file of the page with -o FILE"},
		{"bad.jsonl -o new.html", cli.ExitFailed, "bad.jsonl:1: "},
		{"odd.jsonl -o new.html", cli.ExitFailed, "odd.jsonl:1: "},
		{"nowhere.jsonl -o new.html", cli.ExitFailed, "nowhere.jsonl"},
		{"0ms.jsonl -o nowhere/new.html", cli.ExitFailed, "nowhere"},
		{"-o new.html", cli.ExitUsage, "pilotfish: bench report needs the files with results"},
	} {
		code, _, stderr := clitest.Call(t, append([]string{"bench", "report"}, strings.Fields(c.args)...)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr, c.want)
		assert.NoFileExists(t, "new.html")
	}
}
