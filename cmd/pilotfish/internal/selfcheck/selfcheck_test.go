package selfcheck

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
)

func TestMain(m *testing.M) {
	clitest.Main(m, cli.Program{Name: "pilotfish", Commands: func(a *cli.App) []*cobra.Command {
		return []*cobra.Command{NewCommand(a)}
	}})
}

// TestSelfcheck: the software device passes; the page and the file say the same; a file that is there is kept.
func TestSelfcheck(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every kernel, for a minute: make long")
	}
	path := filepath.Join(t.TempDir(), "report.json")
	code, page, stderr := clitest.Call(t, "selfcheck", "--backend", "soft", "-n", "1", path)
	if strings.Contains(stderr, metal.ErrNoDevice.Error()) {
		sharedtest.Missing(t, errors.New(stderr))
	}
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, page, "; all of them ran\n")
	assert.Contains(t, page, "everything is right\n")
	assert.Contains(t, stderr, "checking texts of whole models")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var report struct {
		GPU      string           `json:"gpu"`
		Kernels  []map[string]any `json:"kernels"`
		Failures int              `json:"failures"`
	}
	require.NoError(t, json.Unmarshal(b, &report))
	assert.True(t, strings.HasPrefix(page, report.GPU+" on "), page)
	assert.Zero(t, report.Failures)
	assert.Greater(t, len(report.Kernels), 150)
	assert.ErrorIs(t, writeReport(path, nil), os.ErrExist)
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--backend", "cpu"}, cli.ExitUsage, "choose metal or soft"},
		{[]string{"--backend", "abacus"}, cli.ExitUsage, "is not a backend"},
		{[]string{"a", "b"}, cli.ExitUsage, "accepts at most 1 arg"},
		{[]string{"--backend", "soft", "-m", "nothing.gguf"}, cli.ExitFailed, "nothing.gguf"},
		{[]string{"--backend", "soft", "selfcheck.go"}, cli.ExitFailed, "is there already: name a new file"},
	} {
		code, stdout, stderr := clitest.Call(t, append([]string{"selfcheck"}, c.args...)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Contains(t, stderr, c.want)
		assert.Empty(t, stdout)
	}
}
