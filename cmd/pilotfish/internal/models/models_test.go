package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/hub"
)

// pullQuantisations pulls the demo's small model as o/n:q8_0 to path, in the folder dir, and o/n:F16 with its parts.
func pullQuantisations(t *testing.T) (dir, path string) {
	t.Helper()
	dir = clitest.ModelFolderWith(t, nil)
	clitest.HubOf(t, map[string][]byte{"m-Q8_0.gguf": demo.Small(), "m-f16-00001-of-00002.gguf": []byte("a"),
		"m-f16-00002-of-00002.gguf": []byte("b")})
	code, stdout, stderr := clitest.Call(t, "pull", "o/n:q8_0")
	require.Equal(t, cli.ExitDone, code, stderr)
	path = filepath.Join(dir, "o", "n", "m-Q8_0.gguf")
	assert.Equal(t, path+"\n", stdout)
	code, stdout, stderr = clitest.Call(t, "pull", "o/n:F16")
	require.Equal(t, cli.ExitDone, code, stderr)
	parts, err := filepath.Glob(filepath.Join(dir, "o", "n", "m-f16-*.gguf"))
	require.NoError(t, err)
	require.Len(t, parts, 2, "all parts")
	assert.Equal(t, parts[0]+"\n", stdout)
	code, _, stderr = clitest.Call(t, "pull", "o/n:Q2_K")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "pull o/n:Q2_K: it has no file of the quantisation Q2_K; there are:\n  o/n:m-Q8_0.gguf")
	return dir, path
}

// TestModelNames: pull takes a quantisation, and every command takes the pulled name.
func TestModelNames(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	dir, path := pullQuantisations(t)
	for _, args := range [][]string{
		{"run", "-n", "1", "-m", "o/n:q8_0", "hello"}, {"run", "-n", "1", "-m", "O/N:Q8_0", "hello"},
		{"run", "o/n:q8_0", "-n", "1", "hello"}, {"run", "-n", "1", path, "two", "words"},
		{"run", "-n", "1", path, "--tokens", "1"}, {"tokenize", "-m", "o/n:Q8_0", "hello"},
		{"logits", "-m", "o/n:Q8_0", "--tokens", "1"}, {"inspect", "o/n:Q8_0"},
		{"chat", "-m", "o/n:m-Q8_0.gguf"},
	} {
		code, _, stderr := clitest.Call(t, args...)
		assert.Equal(t, cli.ExitDone, code, "%v: %s", args, stderr)
	}
	_, want, _ := clitest.Call(t, "run", "-n", "3", "-m", path, "two", "words")
	t.Setenv("PILOTFISH_MODEL", "not-this-one.gguf")
	_, got, said := clitest.Call(t, "run", "-n", "3", path, "two", "words")
	assert.Equal(t, want, got, said)
	t.Setenv("PILOTFISH_MODEL", path)
	code, _, stderr := clitest.Call(t, "run", "-n", "3", "describe m.gguf")
	assert.Equal(t, cli.ExitDone, code, "a sentence is a prompt: %s", stderr)
	t.Setenv("PILOTFISH_MODEL", "")
	m, err := pilotfish.Open("o/n:Q8_0", pilotfish.Options{})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	_, err = pilotfish.Open("x/y", pilotfish.Options{})
	assert.ErrorContains(t, err, `"pilotfish pull x/y"`)

	for name, want := range map[string]string{
		"o/n": "--model: o/n can be any of these: name one of them: o/n:Q8_0, o/n:F16",
		"o/n:Q4_0": `--model: there is no file o/n:Q4_0, and no such model in ` + dir +
			`: fetch it with "pilotfish pull o/n:Q4_0", or name one that is here: o/n:Q8_0, o/n:F16`,
		"x.gguf": "x.gguf: no such file",
	} {
		code, stdout, stderr := clitest.Call(t, "run", "-m", name, "hello")
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, want)
		assert.Empty(t, stdout)
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("o", 0o700))
	require.NoError(t, os.WriteFile("o/n", demo.Large(), 0o600))
	_, _, stderr = clitest.Chat(t, "", "-m", "o/n")
	assert.Empty(t, stderr, "an existing file takes precedence")
}

// TestListTimes: times are in UTC, without parts of a second.
func TestListTimes(t *testing.T) {
	var out strings.Builder
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	require.NoError(t, printModelsJSON(&cli.App{Stdout: &out}, []hub.Model{{Modified: at}}))
	assert.Contains(t, out.String(), `"modified":"2026-03-04T04:06:07Z"`)
}
