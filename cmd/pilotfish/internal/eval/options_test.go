package eval

import (
	"io"
	"os"
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
