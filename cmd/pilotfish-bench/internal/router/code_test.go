package router

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
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
	assert.Equal(t, 2, sum.Graded, stderr)
	assert.Equal(t, 1, sum.Right)
	assert.Contains(t, stderr, "1 of 2 graded answers are right")
	sum, _, _ = collected(t, append(given, "--raw")...)
	assert.Equal(t, 1, sum.Right)

	router := clitest.DemoFile("router.gguf")
	steps, _, stderr := calibrated(t, cli.ExitFailed, append(given, "--router", router, "-o",
		filepath.Join(t.TempDir(), "r"), "-n", "2", "--policy", "learned", "--threshold", "0.995", "--budget", "0.9",
		"--confidence", "0.1", "--json")...)
	assert.Equal(t, 2, steps[0].Graded, stderr)
	assert.Equal(t, 0, steps[0].Right)

	line := append([]string{"eval", "mbpp", "--run-code", "--policy", "never", "-n", "4", "--data", programFile(t, 11)},
		pair...)
	code, stdout, stderr := clitest.Call(t, line...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Regexp(t, `(?m)^run +right +interval`, stdout)
	assert.Regexp(t, `(?m)^never +0\.0%`, stdout)
	code, stdout, stderr = clitest.Call(t, append(line, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, `"accuracy":0,`)
	assert.NotContains(t, stdout, `"chance"`)

	t.Setenv("PATH", t.TempDir())
	code, _, stderr = clitest.Call(t, line...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "--run-code: running programs needs Python 3.8 or later as python3 in PATH")
}
