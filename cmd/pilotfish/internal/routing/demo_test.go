package routing

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestDemoShows: two questions with both answers, the words of the large model marked, a table, and what it means: the
// same bytes each time, whatever the machine does, and no figure that the table or the speeds do not give.
func TestDemoShows(t *testing.T) {
	show := func(args ...string) string {
		code, stdout, stderr := clitest.Call(t, append([]string{"demo", "--questions", "5"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		}
		return stdout
	}
	out := show()
	before := runtime.GOMAXPROCS(1)
	assert.Equal(t, out, show(), "with fewer processors")
	runtime.GOMAXPROCS(before)
	assert.LessOrEqual(t, strings.Count(out, "\n"), 25)
	for _, want := range []string{
		"    alone:  In the bog, and it eats eggs: …\n    asking: In the [barn], and it eats [mint]: …\n",
		"\n5 questions ", "the small one is right in 100%,\n",
		"The link takes 100ms; the device reads\n1450 and writes 60 tokens/s",
		"like Qwen2.5-Coder 0.5B and 1.5B", "pilotfish cloud -m",
	} {
		assert.Contains(t, out, want)
	}
	readme, err := os.ReadFile(filepath.Join(clitest.Root(), "README.md"))
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(readme), "```\n  Where does")
	example, _, _ = strings.Cut(example, "```")
	assert.Contains(t, out, "  Where does"+example, "as the README shows it")
	said := regexp.MustCompile(`(?s)\nsmall model alone +(\d+)% +\d+ ms +nothing.* streamed +(\d+)% +([\d,]+) ms +` +
		`([\d.]+) tokens.* asks the large +(\d+)% +(\d+) ms +([\d.]+) tokens.*With ([\d.]+)% of.* right in ` +
		`(\d+)%.* alone in (\d+)%.* is ([\d.]+) times as.* computes\s([\d.]+) s.* of ([\d.]+): ` +
		`enough for ([\d.]+) times`).FindStringSubmatch(out)
	require.Len(t, said, 15, out)
	var x []float64
	for _, text := range said[1:] {
		number, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		require.NoError(t, err)
		x = append(x, number)
	}
	assert.Less(t, x[0], x[4], "more right answers than the small model alone")
	assert.Equal(t, []float64{x[4], x[1]}, x[8:10])
	assert.Less(t, x[7], 7.0)
	assert.InDelta(t, x[2]/x[5], x[10], 0.06)
	assert.InDelta(t, (x[3]-x[6])*0.04, x[12]-x[11], 0.05, "the server reads the prompt in both cases")
	assert.InDelta(t, x[12]/x[11], x[13], 0.1)

	other := show("--rtt", "300ms", "--cloud-ms", "5")
	assert.Contains(t, other, "The link takes 300ms")
	assert.Contains(t, other, "takes 5 ms for each of\nits own.\n", "no longer the speeds of that pair")
	assert.NotContains(t, other, "Qwen")
	assert.Contains(t, show("--threshold", "0"), "asks for nothing.\n")
}

// TestDemoSpeeds: the demo's speeds are those at which the real pair was measured.
func TestDemoSpeeds(t *testing.T) {
	records, err := result.ReadFile(filepath.Join(clitest.Root(), "docs", "results", "real-times.jsonl.gz"))
	require.NoError(t, err)
	prompt, reads := 0.0, map[string]float64{} // mean tokens of a prompt; mean ms until it is read
	for i := range records {
		var r outcome.Report
		require.NoError(t, records[i].Into(&r))
		if r.Cell == nil {
			continue // the comparison of two modes
		}
		assert.Equal(t, realPairSpeeds(), speeds{r.Cell.EdgeTPS, r.Cell.RowCost, r.Cell.CloudMS})
		ms := 0.0
		for _, s := range r.Samples {
			if r.Mode == "cloud" {
				s.FirstToken = s.MS - r.Cell.RTT - r.Cell.CloudMS*float64(s.Tokens)
			}
			ms += s.FirstToken
		}
		reads[r.Mode] = ms / float64(len(r.Samples))
		if r.Mode == "cloud" {
			prompt = r.CloudTokens.Prefilled
		}
	}
	assert.InDelta(t, prompt/reads["local"]*1000, deviceReads, 1)
	assert.InDelta(t, prompt/reads["cloud"]*1000, serverReads, 1)
}

// TestRealTimes: the recording of the real pair gives its times in docs/results again, by the command that they name.
func TestRealTimes(t *testing.T) {
	racing.Spare(t)
	kept := filepath.Join(clitest.Root(), "docs", "results", "real-times.jsonl.gz")
	want, err := result.ReadFile(kept)
	require.NoError(t, err)
	command := strings.ReplaceAll(want[0].Run.Command, "=docs/results/", "="+filepath.Dir(kept)+"/")
	code, stdout, stderr := clitest.Call(t, strings.Fields(command)[1:]...)
	require.Equal(t, cli.ExitDone, code, stderr)
	have, err := result.Read(strings.NewReader(stdout), "stdout")
	require.NoError(t, err)
	require.Len(t, have, len(want))
	for i := range want {
		var w, h outcome.Report
		require.NoError(t, want[i].Into(&w))
		require.NoError(t, have[i].Into(&h))
		assert.Equal(t, w, h, "after a change of drafting: sh bench/results/study.sh OUT real-times, and adopt OUT")
	}
}

// TestDemo runs the whole system over a link that loses packets: routed answers equal serial ones, and are better than
// those of the small model alone.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("five times 30 questions: not with -short")
	}
	code, stdout, stderr := clitest.Call(t, "demo", "--json", "--questions", "30", "--rtt", "8ms", "--loss", "0.02",
		"--edge-tps", "0", "--cloud-ms", "0", "--deadline", "off", "--modes", "local,serial,pipelined-4")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 3)
	local, serial, pipelined := reports[0], reports[1], reports[2]
	assert.Equal(t, "pipelined-4", pipelined.Mode)
	assert.Equal(t, 30, pipelined.Answers)
	assert.True(t, *pipelined.EqualToSerial)
	assert.Equal(t, *serial.Accuracy, *pipelined.Accuracy)
	assert.GreaterOrEqual(t, *serial.Accuracy, 1.6**local.Accuracy)
	assert.LessOrEqual(t, *serial.EscalatedShare, 0.07)
	assert.Nil(t, local.EscalatedShare)
	assert.LessOrEqual(t, *serial.BytesUp, 100.0)
	assert.LessOrEqual(t, *pipelined.BytesUp, 150.0, "including questions about rejected guesses")
	for _, r := range reports[1:] {
		assert.LessOrEqual(t, *r.BytesDown, 40.0)
	}

	_, stdout, _ = clitest.Call(t, "demo", "--questions", "3", "--rtt", "0", "--edge-tps", "0", "--cloud-ms", "0",
		"--modes", "cloud,paper,pipelined-2")
	assert.Equal(t, 1, strings.Count(stdout, "\n"+"pipelined-2 "), stdout)
	code, stdout, stderr = clitest.Call(t, "demo", "--json", "--questions", "30", "--rtt", "0", "--edge-tps", "0",
		"--cloud-ms", "0", "--deadline", "off", "--policy", "learned", "--modes", "local,serial")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports = clitest.Lines[outcome.Report](t, stdout)
	assert.GreaterOrEqual(t, *reports[1].Accuracy, 1.6**reports[0].Accuracy, "with the shipped router")
	assert.LessOrEqual(t, *reports[1].EscalatedShare, 0.07)
}

// TestPageOfStopped: the page has the answers that were finished before the program was stopped.
func TestPageOfStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var stderr strings.Builder
	progress := clitest.WriterFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "4 of 8") {
			stop()
		}
		return stderr.Write(b)
	})
	page := filepath.Join(t.TempDir(), "page.html")
	code := clitest.Run(ctx, []string{"demo", "--questions", "4", "--parallel", "1", "--rtt", "0",
		"--edge-tps", "0", "--cloud-ms", "0", "--deadline", "off", "--modes", "local,serial", "--html", page},
		strings.NewReader(""), io.Discard, progress)
	require.NotEqual(t, cli.ExitDone, code)
	written, err := os.ReadFile(page)
	require.NoError(t, err, stderr.String())
	assert.Contains(t, string(written), "serial")
}

// TestDemoDictionary: questions are compressed with a dictionary that was trained on the demo's texts; without it they
// take 57 bytes instead of 39.
func TestDemoDictionary(t *testing.T) {
	racing.Spare(t)
	code, stdout, stderr := clitest.Call(t, "demo", "--json", "--questions", "8", "--parallel", "8", "--modes",
		"serial",
		"--deadline", "off", "--rtt", "0", "--cloud-ms", "0", "--edge-tps", "0", "--no-warm")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Less(t, *clitest.Lines[outcome.Report](t, stdout)[0].BytesUp, 48.0)
}

// TestEqualOverBadLinks: over QUIC and links that lose up to a fifth of the packets each way, with one branch or four,
// the tokens and their origins equal those of serial decoding.
func TestEqualOverBadLinks(t *testing.T) {
	racing.Spare(t)
	losses := []string{"0.2", "0.05"}
	if testing.Short() {
		losses = losses[:1]
	}
	for _, loss := range losses {
		code, stdout, stderr := clitest.Call(t, "demo", "--json", "--questions", "16", "--rtt", "5ms", "--loss", loss,
			"--seed",
			"3", "--edge-tps", "0", "--cloud-ms", "0", "--deadline", "off", "--modes", "serial,pipelined-1,pipelined-4",
			"--parallel", "4")
		require.Equal(t, cli.ExitDone, code, stderr)
		for _, r := range clitest.Lines[outcome.Report](t, stdout) {
			assert.True(t, *r.EqualToSerial, "%s at a loss of %s", r.Mode, loss)
			assert.Equal(t, 16, r.Answers)
			assert.Zero(t, *r.Timeouts)
			assert.Zero(t, *r.Differing)
			assert.Greater(t, *r.Asks, 1.0)
		}
	}
}

// TestBenchRoutingOwn measures explicit models and questions: --model is the small one and --large the other, and the
// answers have up to 256 tokens.
func TestBenchRoutingOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	edge, large := clitest.TinyModel(t, "q4_0"), clitest.TinyModel(t, "q8_0")
	_, stdout, _ := clitest.Call(t, "run", "-m", edge, "--json", "-n", "256", "where?")
	events := clitest.Lines[clitest.RunEvent](t, stdout)
	said := events[len(events)-1].Summary
	require.Equal(t, 256, said.GeneratedTokens, "the max length")
	question, err := json.Marshal(map[string]string{"question": "where?",
		"answer": strings.ToValidUTF8(said.Text[len(said.Text)-12:], "")})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(file, append(question, "\n"+`{"question":"who?","answer":""}`+"\n"...), 0o644))
	code, stdout, stderr := clitest.Call(t, "bench", "routing", "--workload", file, "-m", edge, "--large", large,
		"--rtt", "0",
		"--cloud-ms", "0", "--modes", "local,cloud,serial,pipelined-2", "--deadline", "off", "--policy", "random",
		"--threshold", "0.1", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.NotContains(t, stderr, "Energy", "energy needs one answer at a time")
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 4)
	assert.Equal(t, 2, reports[3].Answers)
	assert.True(t, *reports[3].EqualToSerial)
	assert.Equal(t, 1.0, *reports[0].Accuracy, "of the one question with an answer")
	assert.Zero(t, *reports[1].Accuracy)
}

// TestBenchRoutingEveryday: two explicit models are enough, and there are default questions for them. A column shows
// late answers.
func TestBenchRoutingEveryday(t *testing.T) {
	models := []string{"-m", clitest.TinyModel(t, "q4_0"), "--large", clitest.TinyModel(t, "q8_0")}
	routing := func(more ...string) (code int, stdout, stderr string) {
		return clitest.Call(t, append(append([]string{"bench", "routing"}, models...), more...)...)
	}
	code, stdout, stderr := routing("--questions", "2", "--modes", "local", "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	reports := clitest.Lines[outcome.Report](t, stdout)
	require.Len(t, reports, 1)
	assert.Equal(t, 2, reports[0].Answers)
	assert.Nil(t, reports[0].Accuracy, "no answer is graded")
	code, stdout, stderr = routing("--modes", "local", "--workload", "everyday", "--json", "-n", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, len(everydayQuestions()), clitest.Lines[outcome.Report](t, stdout)[0].Answers)

	for deadline, late := range map[string]bool{"off": false, "1ms": true} {
		code, stdout, stderr = routing("--questions", "1", "-n", "4", "--modes", "serial", "--policy", "always",
			"--deadline", deadline, "--rtt", "30ms")
		require.Equal(t, cli.ExitDone, code, stderr)
		table, _, _ := strings.Cut(stdout, "\n\n")
		assert.Equal(t, late, strings.Contains(table, "timed out"), stdout)
	}
}
