package bench

import (
	"os"
	"path/filepath"
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
// legend, and the conclusion. --html writes a page with the same figures.
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
	require.Len(t, all, 7, "settings, three tables, legend, empty cells, conclusion")
	said := strings.Join(strings.Fields(all[6]), " ")
	assert.Regexp(t,
		`^With (serial|pipelined-2|pipelined-4|verified), 100% of the answers are right \(small model alone: `, said)
	assert.Regexp(t, `% of the tokens are the large model's, in place of all\.$`, said)

	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	for _, want := range []string{"<td>pipelined-4</td>", "<summary>One answer of verified,", "round trip 10 ms",
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

// TestDemoFailed: a mode with late answers does not win, and the conclusion says so if no other mode is left.
func TestDemoFailed(t *testing.T) {
	racing.Spare(t)
	code, stdout, stderr := clitest.Call(t, "demo", "--questions", "2", "--rtt", "300ms", "--edge-tps", "0",
		"--cloud-ms", "0",
		"--deadline", "1ms", "--modes", "local,serial,pipelined-2")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stdout, "\n\nWith ")
	assert.Regexp(t, `\n\nNothing is won here: no mode that asks the large model succeeded: serial\s\(\d+\stokens`,
		stdout)
}

// TestBenchReport: lines of files and of stdin become a page and pictures; an invalid line is named.
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
	code, stdout, stderr := clitest.Call(t, "bench", "report", "0ms.jsonl", "5ms.jsonl", "-o", "page.html", "--svg",
		"figures")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "page.html\n")
	assert.Contains(t, stdout, filepath.Join("figures", "study1-time-over-rtt.svg")+"\n",
		"one study of two round trips")
	for name := range strings.Lines(stdout) {
		assert.FileExists(t, strings.TrimSpace(name))
	}
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(page), `<option value="1">round trip 5 ms</option>`))

	require.NoError(t, os.WriteFile("link.jsonl", []byte(`{"run":{"measurement":"bench link"}}`+"\n"), 0o600))
	code, stdout, stderr = clitest.Call(t, "bench", "report", "link.jsonl", "--svg", "none")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, []string{"", "there is nothing to draw in these results\n"}, []string{stdout, stderr})

	require.NoError(t, os.WriteFile("bad.jsonl", []byte("{\"run\":{}}\n"), 0o600))
	require.NoError(t,
		os.WriteFile("odd.jsonl", []byte(`{"mode":"local","answers":"many","run":{"measurement":"demo"}}`), 0o600))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"0ms.jsonl", cli.ExitUsage, "Give -o FILE"},
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
