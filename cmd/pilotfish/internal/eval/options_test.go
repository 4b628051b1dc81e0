package eval

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestPairContext: --ctx is for both models.
func TestPairContext(t *testing.T) {
	var f evalFlags
	c := new(cobra.Command)
	f.register(c)
	m := clitest.TinyModel(t, "q8_0")
	require.NoError(t, c.ParseFlags([]string{"-m", m, "--large", m, "--ctx", "100", "-t", "1"}))
	models, err := f.pair.Open(t.Context(), &cli.App{Stderr: io.Discard, Env: os.Getenv}, true)
	require.NoError(t, err)
	defer models.Close()
	assert.Equal(t, []int{100, 100}, []int{models.Edge.Context(), models.Large.Context()})
	assert.Equal(t, []int{1, 1}, []int{models.Edge.Threads(), models.Large.Threads()})
}

// TestOneThread: two tiny models have one thread each, unless the user chose.
func TestOneThread(t *testing.T) {
	file := func(bytes int64) string {
		path := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, bytes))
		return path
	}
	small, large := file(tiny), file(tiny+1)
	for line, want := range map[string]int{
		"-m " + small + " --large " + small: 1, "-m " + small + " --large " + large: 0,
		"-m " + large + " --large " + small: 0, "-m " + small + " --cloud h:1": 0, "": 0,
		"-m " + small + " --large " + small + " -t 3": 3,
	} {
		f, c := new(evalFlags), new(cobra.Command)
		f.register(c)
		require.NoError(t, c.ParseFlags(strings.Fields(line)))
		f.oneThread()
		assert.Equal(t, want, f.pair.Model.Threads, line)
	}
}

// TestNoFolder: without a folder for questions the error says how to do without one.
func TestNoFolder(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	_, err := new(evalFlags).open("csqa", nil)
	assert.ErrorContains(t, err, "no folder for questions")
	assert.ErrorContains(t, err, "name one with --dir, and their file with --data")
}
