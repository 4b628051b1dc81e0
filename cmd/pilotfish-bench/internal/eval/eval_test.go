package eval

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// TestScripts runs testdata/script.
func TestScripts(t *testing.T) { clitest.Scripts(t) }

// answersIn returns the answers in a file, without their times and the names of shared runs.
func answersIn(t *testing.T, path string) map[string]eval.Answer {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[string]eval.Answer{}
	for i, a := range clitest.Lines[eval.Answer](t, string(b)) {
		if i > 0 {
			a.Milliseconds, a.Same = 0, ""
			all[a.Question+" "+a.Run] = a
		}
	}
	return all
}

// TestEvalCertified: policies have a budget of 7% unless others or thresholds are given. A certified router is also
// evaluated at the threshold that run would use, in the order of thresholds, and once.
func TestEvalCertified(t *testing.T) {
	parsed := func(line string) (f evalFlags) {
		c := new(cobra.Command)
		f.registerFlags(c)
		require.NoError(t, c.ParseFlags(strings.Fields(line)))
		return f
	}
	for line, want := range map[string][]string{
		"--policy never,margin": {"never", "margin 7%"}, "--policy margin --budget 0.03": {"margin 3%"},
		"--policy margin --threshold 0.3 --budget 0.1": {"margin 0.3", "margin 10%"},
		"--policy margin --threshold 0":                {"margin 0"},
	} {
		f := parsed(line)
		runs, err := f.listRuns("demo")
		require.NoError(t, err)
		assert.Equal(t, want, eval.Names(runs), line)
	}
	names := func(line string, at float64) []string {
		f, low, high := parsed(line), 0.3, 0.9
		runs := []eval.Run{{Policy: router.Never}, {Policy: router.Learned, Threshold: &low},
			{Policy: router.Learned, Threshold: &high}, {Policy: router.Margin, Threshold: &high}}
		return eval.Names(f.addCertifiedRun(runs, &router.Certificate{Policy: router.Learned, Threshold: at}))
	}
	assert.Equal(t, []string{"never", "learned 0.3", "learned 0.45", "learned 0.9", "margin 0.9"},
		names("", 0.45))
	assert.Equal(t, []string{"never", "learned 0.3", "learned 0.9", "learned 0.999958", "margin 0.9"},
		names("", 0.999958))
	assert.Equal(t, []string{"never", "learned 0.1", "learned 0.3", "learned 0.9", "margin 0.9"},
		names("", 0.1))
	given, low := parsed(""), 0.3
	for p, want := range map[router.Policy][]string{
		router.Verify: {"learned 0.3", "never verified 2"}, router.Margin: {"learned 0.3", "margin 0.1353352832366127"},
		router.Never: {"learned 0.3"},
	} {
		runs := given.addCertifiedRun([]eval.Run{{Policy: router.Learned, Threshold: &low}},
			&router.Certificate{Policy: p, Threshold: math.Exp(-2)})
		assert.Equal(t, want, eval.Names(runs))
	}
	usual := []string{"never", "learned 0.3", "learned 0.9", "margin 0.9"}
	assert.Equal(t, usual, names("", 0.9))
	assert.Equal(t, usual, names("--threshold 0.3,0.9", 0.45))
	budgets := []eval.Run{{Policy: router.Margin, Budget: 0.1}, {Policy: router.Learned, Budget: 0.05},
		{Policy: router.Learned, Budget: 0.1}}
	f := parsed("--budget 0.05,0.1")
	with := f.addCertifiedRun(budgets,
		&router.Certificate{Policy: router.Learned, Threshold: 0.45})
	assert.Equal(t, []string{"margin 10%", "learned 0.45", "learned 5%", "learned 10%"}, eval.Names(with))
	assert.Len(t, (&evalFlags{}).addCertifiedRun(make([]eval.Run, 3), nil), 3)

	file := &router.File{Net: new(router.Net), Confidences: []float32{0.5},
		Certificate: &router.Certificate{Policy: router.Learned, Threshold: 0.45}}
	o := eval.Options{Runs: []eval.Run{{Policy: router.Learned, Budget: 0.1}}}
	f.applyRouter(file, &o)
	assert.Equal(t, []string{"learned 0.45", "learned 10%"}, eval.Names(o.Runs))
	assert.Same(t, file.Net, o.Net)
	assert.Equal(t, file.Confidences, o.Expected, "a budget begins with them")
}

// TestEvalInterrupted: after a signal there is a report of the answers so far, and how to go on if they are kept.
func TestEvalInterrupted(t *testing.T) {
	for _, out := range []string{"", filepath.Join(t.TempDir(), "a.jsonl")} {
		ctx, stop := context.WithCancelCause(t.Context())
		var stdout, stderr strings.Builder
		progress := clitest.WriterFunc(func(b []byte) (int, error) {
			if strings.Contains(string(b), "40 of 80") {
				stop(&cli.Interruption{Signal: os.Interrupt})
			}
			return stderr.Write(b)
		})
		args := strings.Fields("eval demo --questions 40 --policy never,margin --threshold 0.5")
		more := ""
		if out != "" {
			args, more = append(args, "-o", out), "; the same command continues"
		}
		assert.Equal(t, 130, clitest.Run(ctx, args, strings.NewReader(""), &stdout, progress))
		assert.Regexp(t, `pilotfish-bench: interrupted: \d\d of 80 answers are done`+more+"\n$", stderr.String())
		assert.Regexp(t, `demo: \d+ of 40 questions`, stdout.String())
	}
}

// TestEvalFetch: a file with another content is refused; eval finds the downloaded file, and not another one in its
// place.
func TestEvalFetch(t *testing.T) {
	clitest.OwnFolders(t)
	var content []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer s.Close()
	var stdout, stderr bytes.Buffer
	a := &cli.App{Stdout: &stdout, Stderr: &stderr}
	for name, set := range measure.Published() {
		assert.Regexp(t, "^https://", set.URL)
		content, set.URL = bytes.Repeat([]byte("x"), int(set.Size)), s.URL
		assert.ErrorContains(t, fetchQuestions(t.Context(), a, set), "it should be "+set.SHA256, name)
	}
	folder, err := measure.DataDir()
	require.NoError(t, err)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
	path := filepath.Join(folder, "csqa-dev.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	own := []string{"eval", "csqa", "-m", clitest.DemoFile("small.gguf"), "--large", clitest.DemoFile("large.gguf"),
		"--policy", "never", "-n", "2", "--questions", "3"}
	code, _, said := clitest.Call(t, own...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, said, "csqa-dev.jsonl")
	require.NoError(t, os.Remove(path))
	for name, path := range map[string]string{"csqa-train": "csqa/train_rand_split.jsonl",
		task.GSM8K: "gsm8k/test.jsonl", task.CSQA: "csqa/dev_rand_split.jsonl"} {
		content, err = os.ReadFile(sharedtest.Shared(t, "data", path))
		require.NoError(t, err)
		set := measure.Published()[name]
		set.URL = s.URL
		require.NoError(t, fetchQuestions(t.Context(), a, set), name)
	}
	assert.Contains(t, stdout.String(), path+"\n")
	for _, split := range [][]string{nil, {"--split", "development"}, {"--split", "training"}} {
		code, _, said = clitest.Call(t, append(own, split...)...)
		assert.Equal(t, cli.ExitDone, code, said)
	}
	clitest.OwnFolders(t)
	code, _, said = clitest.Call(t, append(own, "--split", "calibration")...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, said, "fetch them with `pilotfish-bench eval fetch csqa-train`, or give their file with --data")
}
