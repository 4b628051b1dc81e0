package demo

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestDemoShows: two questions with both answers, the words of the large model marked, a table, and what it means: the
// same bytes each time, whatever the machine does, and no figure that the table or the speeds do not give.
func TestDemoShows(t *testing.T) {
	show := func(args ...string) string {
		code, stdout, stderr := clitest.Call(t, append([]string{"demo"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		assert.Contains(t, stderr, "answers: 150 of 150\n")
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
		}
		return stdout
	}
	out := show()
	before := runtime.GOMAXPROCS(1)
	assert.Equal(t, out, show(), "with fewer processors")
	runtime.GOMAXPROCS(before)
	assert.LessOrEqual(t, strings.Count(out, "\n"), 30)
	for _, want := range []string{
		"    alone:  In the bog, and it eats eggs: …\n    asking: In the [barn], and it eats [mint]: …\n",
		"\n50 questions ", "the small one is right in 100%,\n",
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
	assert.InDelta(t, x[12]/x[11], x[13], 0.3)

	far := show("--rtt", "300ms")
	assert.Contains(t, far, "The link takes 300ms")
	slower := func(out, who string) string { return regexp.MustCompile(who + ` .*`).FindString(out) }
	assert.Equal(t, slower(out, "small model alone"), slower(far, "small model alone"))
	assert.NotEqual(t, slower(out, "small model that"), slower(far, "small model that"))
}

// TestDemoSpeeds: the demo's speeds are those at which the real pair was measured.
func TestDemoSpeeds(t *testing.T) {
	file, err := os.Open(filepath.Join(clitest.Root(), "docs", "results", "real-times.jsonl.gz"))
	require.NoError(t, err)
	defer file.Close()
	lines, err := gzip.NewReader(file)
	require.NoError(t, err)
	prompt, reads := 0.0, map[string]float64{} // mean tokens of a prompt; mean ms until it is read
	for d := json.NewDecoder(lines); ; {
		var r struct {
			Mode string `json:"mode"`
			Cell *struct {
				RTT     float64 `json:"rtt_ms"`
				EdgeTPS float64 `json:"edge_tps"`
				RowCost float64 `json:"edge_row_cost"`
				ModelMS float64 `json:"model_ms"`
			} `json:"cell"`
			Answers float64 `json:"answers"`
			Sums    struct {
				Prefilled float64 `json:"prefilled"`
			} `json:"sums"`
			Samples []struct {
				MS         float64 `json:"ms"`
				FirstToken float64 `json:"first_token_ms"`
				Tokens     float64 `json:"tokens"`
			} `json:"samples"`
		}
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if r.Cell == nil {
			continue // the comparison of two modes
		}
		assert.Equal(t, deviceWrites, r.Cell.EdgeTPS)
		assert.Equal(t, rowCost, r.Cell.RowCost)
		assert.EqualValues(t, serverPace.Milliseconds(), r.Cell.ModelMS)
		ms := 0.0
		for _, s := range r.Samples {
			if r.Mode == "cloud" {
				s.FirstToken = s.MS - r.Cell.RTT - r.Cell.ModelMS*s.Tokens
				prompt = r.Sums.Prefilled / r.Answers
			}
			ms += s.FirstToken / float64(len(r.Samples))
		}
		reads[r.Mode] = ms
	}
	assert.InDelta(t, prompt/reads["local"]*1000, deviceReads, 1)
	assert.InDelta(t, prompt/reads["cloud"]*1000, serverReads, 1)
}

// TestDemoStops: a signal ends the demo.
func TestDemoStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	progress := clitest.WriterFunc(func(b []byte) (int, error) {
		stop(&cli.Interruption{Signal: syscall.SIGINT})
		return len(b), nil
	})
	assert.Equal(t, 130, clitest.Run(ctx, []string{"demo"}, strings.NewReader(""), io.Discard, progress))
}
