package routing

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// recordDemo records some questions of the demo.
func recordDemo(t *testing.T, questions string, args ...string) (path, stdout string) {
	path = filepath.Join(t.TempDir(), "run.zst")
	return path, clitest.MeasureDemo(t, questions, append(args, "--record", path)...)
}

// replayed is a line of a replay.
type replayed struct {
	outcome.Report
	Run      record.Run `json:"run"`
	Recorded record.Run `json:"recorded_run"`
}

// TestRecordReplay: a recording is replayed with its own flags, to the same bytes each time, and with others.
func TestRecordReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	path := filepath.Join(t.TempDir(), "run.zst")
	stdout := clitest.MeasureDemo(t, "6", "--modes", "serial,pipelined-2,verified", "--policy", "learned", "--ahead",
		"3",
		"--record", path)
	recorded := clitest.Lines[replayed](t, stdout)
	replay := func(args ...string) (string, []replayed) {
		args = append([]string{"routing", "--json", "--replay", path}, args...)
		code, stdout, stderr := clitest.Call(t, args...)
		require.Equal(t, cli.ExitDone, code, stderr)
		_, again, _ := clitest.Call(t, args...)
		require.Equal(t, stdout, again, "the same bytes")
		return stdout, clitest.Lines[replayed](t, stdout)
	}
	_, got := replay()
	require.Len(t, got, 3)
	for i, r := range got {
		want := recorded[i]
		assert.Equal(t, want.Mode, r.Mode)
		require.NotNil(t, r.Assumed)
		assert.Equal(t, want.Cell, r.Cell)
		assert.Equal(t, want.Accuracy, r.Accuracy)
		assert.Equal(t, want.Run.Machine.CPU, r.Run.Machine.CPU)
		assert.Equal(t, want.Run.Date, r.Run.Date, "its times are of that day")
		assert.Equal(t, want.Run.Command, r.Recorded.Command)
		assert.Equal(t, "bench routing", r.Run.Measurement)
		assert.Equal(t, "8ms", r.Run.Flags["rtt"])
		assert.Equal(t, "learned", r.Run.Flags["policy"])
		assert.Equal(t, "off", r.Run.Flags["deadline"])
		for k, s := range r.Samples {
			assert.Equal(t, want.Samples[k].Text, s.Text, "%s %d", r.Mode, k)
		}
	}
	_, got = replay("--modes", "serial,pipelined-4,speculative-4", "--rtt", "0,300ms", "--edge-tps", "50", "--cloud-ms",
		"30", "--questions", "4", "--ahead", "1")
	var modes []replayed
	for _, r := range got {
		if r.Mode != "" {
			modes = append(modes, r)
		}
	}
	require.Len(t, modes, 6)
	assert.Equal(t, 4, modes[0].Answers)
	assert.Equal(t, []float64{0, 300}, []float64{modes[0].Cell.RTT, modes[3].Cell.RTT})
	assert.Equal(t, 50., modes[0].Cell.EdgeTPS)
	assert.Equal(t, 30., modes[0].Cell.ModelMS)
	assert.Greater(t, modes[3].Time.Mean, modes[0].Time.Mean+290*modes[0].Rates()["asks"])
	assert.Zero(t, *modes[4].Differing)
	code, text, stderr := clitest.Call(t, "routing", "--replay", path, "--rtt", "1s", "--branches", "3",
		"--modes",
		"verified")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^verified +1,000 `, text)
	assert.Contains(t, text, "verified: the recording lacks")
	assert.Contains(t, text, "\np90       nine of ten")
}

// TestReplayRefused: invalid calls are refused with what to do.
func TestReplayRefused(t *testing.T) {
	racing.Spare(t)
	path, _ := recordDemo(t, "1", "--modes", "serial")
	broken, b := filepath.Join(t.TempDir(), "broken.zst"), []byte(nil)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(broken, b[:len(b)/2], 0o600))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it contains text of users")
	for args, want := range map[string]string{
		"--record " + path:                                   "exists already: choose another name",
		"--record x --rtt 0,10ms":                            "--record keeps one link",
		"--record /nowhere/x --questions 1 --modes local":    "/nowhere/x",
		"--replay /nowhere":                                  "/nowhere",
		"--replay " + broken:                                 "not a recording that this program can read",
		"--replay " + path + " --modes cloud":                "record that mode as well",
		"--replay " + path + " --modes paper":                "never recorded",
		"--replay " + path + " --modes verified:1":           "record that mode",
		"--replay " + path + " --policy learned":             "record with it",
		"--replay " + path + " --rtt 1h":                     "--rtt",
		"--replay " + path + " --trace /nowhere.rtt.csv":     "/nowhere.rtt.csv",
		"--replay " + path + " --threshold 0.3 --budget 0.2": "exclude each other",
	} {
		code, stdout, stderr := clitest.Call(t, append([]string{"routing"}, strings.Fields(args)...)...)
		assert.NotEqual(t, cli.ExitDone, code, args)
		assert.Empty(t, stdout, args)
		assert.Contains(t, stderr, want, args)
	}
}

// TestReplayUseless: a flag of what the recording has is accepted, and said to change nothing.
func TestReplayUseless(t *testing.T) {
	racing.Spare(t)
	path, _ := recordDemo(t, "1", "--modes", "serial")
	call := func(args ...string) (string, string) {
		code, stdout, stderr := clitest.Call(t, append([]string{"routing", "--json", "--replay", path},
			args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return stdout, stderr
	}
	_, stderr := call()
	assert.NotContains(t, stderr, "no effect")
	stdout, stderr := call("--max-tokens", "9", "--repeat", "2")
	assert.Contains(t, stderr, "--max-tokens has no effect with --replay: the recording has it\n--repeat has no effect")
	assert.Contains(t, stdout, `"mode":"serial"`)
}

// TestReplayPolicies: flags of the policy belong together: a given one replaces all recorded ones.
func TestReplayPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	path, stdout := recordDemo(t, "4", "--modes", "serial,pipelined-1", "--budget", "0.2", "--window", "9")
	asks := func(args ...string) float64 {
		code, stdout, stderr := clitest.Call(t, append([]string{"routing", "--json", "--replay", path},
			args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		r := clitest.Lines[replayed](t, stdout)[0]
		assert.Equal(t, "9", r.Run.Flags["window"], "other flags are as recorded")
		return r.Rates()["asks"]
	}
	was := clitest.Lines[replayed](t, stdout)[0].Rates()["asks"]
	assert.Equal(t, was, asks())
	assert.Equal(t, was, asks("--modes", "serial,pipelined-2"))
	assert.Zero(t, asks("--policy", "never"))
	assert.Less(t, asks("--threshold", "0.1"), was)

	own, err := group.ParseRouter(demo.Router())
	require.NoError(t, err)
	own.Confidences = []float32{1, 1}
	var b bytes.Buffer
	require.NoError(t, own.Write(gguf.NewWriter(&b)))
	file := filepath.Join(t.TempDir(), "own.gguf")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	path, stdout = recordDemo(t, "4", "--modes", "serial,pipelined-1", "--budget", "0.3", "--window", "9", "--router",
		file)
	assert.Equal(t, clitest.Lines[replayed](t, stdout)[0].Rates()["asks"], asks(), "with the router of the recording")
}

// TestReplayTraces: four modes over the five recorded round trips.
func TestReplayTraces(t *testing.T) {
	racing.Spare(t)
	dir := sharedtest.Shared(t, "data", "traces")
	traces, err := filepath.Glob(filepath.Join(dir, "*.rtt.csv"))
	require.NoError(t, err)
	require.Len(t, traces, 5)
	path, _ := recordDemo(t, "4", "--modes", "serial,pipelined-2,pipelined-4,verified")
	args := []string{"routing", "--json", "--replay", path, "--edge-tps", "60", "--trace",
		strings.Join(traces, ",")}
	code, first, stderr := clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	_, second, _ := clitest.Call(t, args...)
	assert.Equal(t, first, second)
	all := clitest.Lines[replayed](t, first)
	require.Len(t, all, 20)
	seen := map[string]bool{}
	for _, r := range all {
		seen[r.Cell.Trace] = true
		assert.Positive(t, r.Time.Mean)
		assert.Zero(t, r.Assumed.Text, "%s over %s", r.Mode, r.Cell.Trace)
		if r.Differing != nil {
			assert.Zero(t, *r.Differing, "%s over %s", r.Mode, r.Cell.Trace)
		}
	}
	assert.Len(t, seen, 5)
}
