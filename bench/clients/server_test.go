//go:build clients

package clients

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
)

// apiKey is the key of the servers in these tests.
const apiKey = "key-of-the-clients-0123"

// randomModel writes a tiny model of random weights with a context that is long enough for definitions of tools.
func randomModel(t *testing.T) string {
	t.Helper()
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	spec := synth.Tiny(recipe, 1)
	spec.Context = 8192
	path := filepath.Join(t.TempDir(), "random.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, spec.Write(f, nil))
	require.NoError(t, f.Close())
	return path
}

// server is `pilotfish serve` as a process.
type server struct {
	url string // base URL, with /v1
	pid int
}

// buildProgram returns the path of the program.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pilotfish")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/pilotfish").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// startServer builds the program and starts it. The server ends with the test.
func startServer(t *testing.T, model string, args ...string) *server {
	t.Helper()
	c := exec.Command(buildProgram(t), append([]string{"serve", "-m", model, "--listen", "127.0.0.1:0", "--log", "off"},
		args...)...)
	c.Env = append(os.Environ(), "PILOTFISH_API_KEY="+apiKey)
	c.Stderr = os.Stderr
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		require.NoError(t, c.Process.Signal(os.Interrupt))
		_ = c.Wait() // exit status 130, as after Ctrl-C
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return &server{url: strings.TrimSpace(url), pid: c.Process.Pid}
}

// command runs a program with a time limit and logs its output.
func command(t *testing.T, dir, name string, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimRight(line, "\n"))
	}
	return err
}

// copied returns a copy of a folder, so that packages are not installed in the source tree.
func copied(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, f := range files {
		in, err := os.Open(filepath.Join(from, f.Name()))
		require.NoError(t, err)
		out, err := os.Create(filepath.Join(to, f.Name()))
		require.NoError(t, err)
		_, err = io.Copy(out, in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, out.Close())
	}
	return to
}
