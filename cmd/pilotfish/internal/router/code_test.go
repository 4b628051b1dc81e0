package router

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
)

// programFile returns a file with two problems in the format of MBPP: the reference of the first passes its tests, that
// of the second does not.
func programFile(t *testing.T, first int) string {
	t.Helper()
	const line = `{"text":"Add one.","code":"def add(x):\r\n  return x + %d","task_id":%d,"test_setup_code":"",` +
		`"test_list":["assert add(2) == 3"]}` + "\n"
	path := filepath.Join(t.TempDir(), "mbpp.jsonl")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, line+line, 1, first, 2, first+1), 0o600))
	return path
}

// TestRunCode: answers that are programs are graded by running them, only with --run-code.
func TestRunCode(t *testing.T) {
	racing.Spare(t)
	if _, err := exec.LookPath("python3"); err != nil {
		sharedtest.Missing(t, err)
	}
	clitest.OwnFolders(t)
	pair := []string{"-m", clitest.DemoFile("small.gguf"), "--large", clitest.DemoFile("large.gguf")}
	given := append(pair, "--data", programFile(t, 601), "--task", "mbpp-train", "--run-code")
	sum, _, stderr := collected(t, given...)
	assert.Equal(t, []int{2, 1}, []int{sum.Graded, sum.Right}, stderr)
	assert.Contains(t, stderr, "1 of 2 graded answers are right")
	sum, _, _ = collected(t, append(given, "--raw")...)
	assert.Equal(t, 1, sum.Right)

	_, _, router := clitest.DemoPairFiles(t)
	steps, _, stderr := calibrated(t, cli.ExitDone, append(given, "--router", router, "-o", filepath.Join(t.TempDir(),
		"r"),
		"-n", "2", "--threshold", "0.000001", "--budget", "0.9", "--confidence", "0.1", "--json")...)
	assert.Equal(t, []int{2, 0}, []int{steps[0].Graded, steps[0].Right}, stderr)

	line := append([]string{"eval", "mbpp", "--run-code", "--policy", "never", "-n", "4", "--data", programFile(t, 11)},
		pair...)
	code, stdout, stderr := clitest.Call(t, line...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^run +pass@1 +interval`, stdout)
	assert.Regexp(t, `(?m)^never +0\.0%`, stdout)
	code, stdout, stderr = clitest.Call(t, append(line, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, `"accuracy":0`)
	assert.NotContains(t, stdout, `"chance"`)

	t.Setenv("PATH", t.TempDir())
	code, _, stderr = clitest.Call(t, line...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--run-code: running programs needs Python 3.8 or later as python3 in PATH")
}

// TestRunCodeRefused: without --run-code nothing is opened, and the flag is only for programs.
func TestRunCodeRefused(t *testing.T) {
	const allow = "add --run-code to allow that; it needs python3 and sets limits"
	for args, want := range map[string]string{
		"eval humaneval PAIR":                                            "humaneval grades answers by running",
		"eval mbpp PAIR --data z":                                        allow,
		"eval mbpp-train PAIR --run-code":                                "judge them with mbpp",
		"router collect PAIR --data z --task humaneval -o w":             allow,
		"router collect PAIR --data z --task mbpp-train -o w":            allow,
		"router collect PAIR --data z --task bbh -o w":                   "humaneval, mbpp, mbpp-train",
		"router calibrate PAIR --router r --data z --task mbpp -o w":     allow,
		"router calibrate PAIR --router r --data z --task mbpp -o w -n0": "-n 0 is out of range",
	} {
		code, stdout, stderr := clitest.Call(t, strings.Fields(strings.Replace(args, "PAIR", "-m x --large y", 1))...)
		assert.Equal(t, cli.ExitUsage, code, "%s: %s", args, stderr)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want, args)
	}
	for _, name := range []string{"humaneval", "arc"} {
		clitest.OwnFolders(t)
		line := []string{"eval", name, "-m", "x", "--large", "y"}
		if name == "humaneval" {
			line = append(line, "--run-code")
		}
		code, _, stderr := clitest.Call(t, line...)
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, "fetch them with `pilotfish eval fetch "+name+"`")
	}
}
