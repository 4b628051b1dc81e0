package router

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/trace"
)

// TestPairFlags: the flags of two models have their effects.
func TestPairFlags(t *testing.T) {
	clitest.OwnFolders(t)
	parse := func(args ...string) *measure.PairFlags {
		p, c := new(measure.PairFlags), new(cobra.Command)
		p.Register(c)
		require.NoError(t, c.ParseFlags(append([]string{"-m", clitest.DemoFile("small.gguf")}, args...)))
		require.NoError(t, p.Check(false))
		return p
	}
	large := clitest.DemoFile("large.gguf")
	for _, threads := range []string{"1", "2"} {
		got, err := parse("--large", large, "--threads", threads).Open(t.Context(), &cli.App{Stderr: io.Discard}, false)
		require.NoError(t, err)
		assert.Equal(t, threads, fmt.Sprint(got.Edge.Threads()))
		assert.Equal(t, threads, fmt.Sprint(got.Large.Threads()))
		got.Close()
	}
	wrong, c := new(measure.PairFlags), new(cobra.Command)
	wrong.Register(c)
	require.NoError(t, c.ParseFlags([]string{"-m", "m", "--large", large, "--backend=nonsense"}))
	assert.ErrorContains(t, wrong.Check(false), "--backend")

	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("sesame"), 0o600))
	p := parse("--cloud", "127.0.0.1:1", "--token-file", secret)
	o, err := p.Gateway.Parse(new(cli.App))
	require.NoError(t, err)
	assert.Equal(t, "sesame", o.Token)
	require.NoError(t, p.Gateway.Remember(new(cli.App), &o))
	assert.NotEmpty(t, o.TicketFolder)
}

// collected returns the output of `router collect --json` for a new file, its settings, and stderr.
func collected(t *testing.T, args ...string) (*collectEvent, trace.Settings, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "traces")
	line := append([]string{"router", "collect", "--json", "-o", dir}, args...)
	code, stdout, stderr := clitest.Call(t, line...)
	require.Equal(t, cli.ExitDone, code, stderr)
	var got struct{ Summary *collectEvent }
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.NotNil(t, got.Summary)
	assert.Equal(t, dir, got.Summary.File)
	set, err := trace.Open(dir)
	require.NoError(t, err)
	defer set.Close()
	return got.Summary, set.Settings(), stderr
}

// TestCollectTask: a public data set is asked as in eval.
func TestCollectTask(t *testing.T) {
	racing.Spare(t)
	file := filepath.Join(t.TempDir(), "gsm8k.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"question":"One and one?","answer":"1+1=2\n#### 2"}`), 0o600))
	pair := []string{"-m", clitest.DemoFile("small.gguf"), "--large", clitest.DemoFile("large.gguf"), "--data", file}
	sum, settings, _ := collected(t, append(pair, "--task", "gsm8k", "--label", "citer")...)
	set, err := task.Open(task.GSM8K, task.Options{Data: file})
	require.NoError(t, err)
	assert.Equal(t, set.Prompts, settings.Task)
	assert.Equal(t, 1, sum.Right)
	assert.Zero(t, settings.Shots)
	assert.Equal(t, "given", settings.Reference)
	two, settings, _ := collected(t, append(pair, "--task", "gsm8k", "--raw", "--shots", "1", "-n", "100")...)
	assert.Equal(t, 1, settings.Shots)
	assert.NotEqual(t, sum.Positions, two.Positions, "without a chat an answer begins with a space")
}

// TestCollectPair: the two models are the named ones, local or at a gateway.
func TestCollectPair(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	file := filepath.Join(t.TempDir(), "q.jsonl")
	questions, err := task.Open(task.Demo, task.Options{Most: 2})
	require.NoError(t, err)
	var lines []string
	for _, q := range questions.Questions {
		b, err := json.Marshal(map[string]string{"question": q.Text})
		require.NoError(t, err)
		lines = append(lines, string(b))
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	base := []string{"--data", file, "-m", small, "-n", "20", "--label", "disagreement"}
	here, settings, stderr := collected(t, append(base, "--large", large)...)
	assert.Contains(t, stderr, "answers: large")
	assert.NotContains(t, stderr, "graded")
	assert.Equal(t, "large", settings.Reference)
	assert.NotEmpty(t, settings.Large.Fingerprint)
	assert.Empty(t, settings.Small.Compute)
	same, settings, _ := collected(t, append(base, "--large", large, "--model", large)...)
	assert.Zero(t, same.Differ, "both are the same model")
	assert.Equal(t, settings.Small.Fingerprint, settings.Large.Fingerprint)
	_, settings, _ = collected(t, append(base, "--large", large, "--kv", "f32", "--ctx", "100")...)
	assert.Equal(t, "kv f32", settings.Small.Compute)
	assert.Equal(t, []int{100, 100}, []int{settings.Small.Context, settings.Large.Context})
	_, settings, _ = collected(t, append(base, "--large", large, "--exact", "-n", "2")...)
	assert.Equal(t, "exact true", settings.Small.Compute)

	address, pin := clitest.StartGateway(t, large, engine.Options{})
	there, settings, _ := collected(t, append(base, "--cloud", address, "--pin", pin)...)
	assert.Empty(t, settings.Large.Fingerprint)
	assert.Equal(t, "pilotfish-demo-large", settings.Large.Name)
	there.Hash, there.File, there.Seconds, there.Bytes = here.Hash, here.File, here.Seconds, here.Bytes
	assert.Equal(t, here, there)

	code, _, stderr := clitest.Call(t, append([]string{"router", "collect", "-o", filepath.Join(t.TempDir(), "t"),
		"--cloud", address,
		"--pin",
		strings.Repeat("a", 64)}, base...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--pin")
}

// TestTracesInPython: the program in docs/study/traces.md reads collected traces.
func TestTracesInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		sharedtest.Missing(t, err)
	}
	doc, err := os.ReadFile("../../../../docs/study/traces.md")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(doc), "```python\n")
	program, _, found := strings.Cut(program, "```")
	require.True(t, found)
	dir := filepath.Join(t.TempDir(), "t")
	code, _, stderr := clitest.Call(t, "router", "collect", "--data", "demo", "--questions", "5", "-o", dir)
	require.Equal(t, cli.ExitDone, code, stderr)
	out, err := exec.Command(python, "-c", program, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	set, err := trace.Open(dir)
	require.NoError(t, err)
	defer set.Close()
	differ, escalate := 0, 0
	for i := range set.Len() {
		if p := set.At(i); p.Small != p.Large {
			differ++
		}
		if set.At(i).Labels[0] == trace.Escalate {
			escalate++
		}
	}
	hidden := make([]float32, set.Width())
	set.Hidden(hidden, set.Len()-1)
	last := hidden[len(hidden)-1]
	assert.Equal(t, fmt.Sprintln(5, set.Len(), set.Width(), differ, escalate, float64(last)), string(out))
}

// TestCollectStories: models without a chat template and with a short context.
func TestCollectStories(t *testing.T) {
	racing.Spare(t)
	small := sharedtest.Shared(t, "data", "models", "stories-weak-qwen2-f32.gguf")
	large := sharedtest.Shared(t, "data", "models", "stories260k-qwen2-f32.gguf")
	file := filepath.Join(t.TempDir(), "q.jsonl")
	long := strings.Repeat(" Lily ran to the big red ball.", 40)
	two := `{"question":" Once upon a time"}` + "\n" + `{"question":"` + long + `"}`
	require.NoError(t, os.WriteFile(file, []byte(two), 0o600))
	pair := []string{"-m", small, "--large", large, "--data", file}
	sum, _, _ := collected(t, append(pair, "--raw", "-n", "1000", "--label", "disagreement")...)
	assert.Equal(t, 2, sum.Prompts)
	assert.Equal(t, 1, sum.LeftOut)
	assert.Equal(t, 1, sum.Cut)
	assert.Greater(t, sum.Positions, 200)
	assert.Positive(t, sum.Differ)
	code, _, stderr := clitest.Call(t, append([]string{"router", "collect", "-o", filepath.Join(t.TempDir(), "t")},
		pair...)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Regexp(t, "question [12]: ", stderr, "both are asked at the same time")
	assert.Contains(t, stderr, "--raw")
}
