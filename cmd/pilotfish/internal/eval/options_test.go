package eval

import (
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestEvalOptions: each flag reaches the option of its name.
func TestEvalOptions(t *testing.T) {
	var f evalFlags
	c := new(cobra.Command)
	f.register(c)
	require.NoError(t, c.ParseFlags([]string{"--parallel", "3", "--verify-every", "7", "-n", "11", "--temp", "0.5",
		"--seed", "13", "--raw"}))
	models, err := f.pair.Open(t.Context(), &cli.App{Env: os.Getenv}, true)
	require.NoError(t, err)
	defer models.Close()
	set, runs := &task.Set{}, []eval.Run{{}}
	o := f.options(models, set, runs)
	assert.Same(t, models.Edge, o.Edge)
	assert.Same(t, models.Far, o.Far)
	o.Edge, o.Far = nil, nil // too large to print
	assert.Equal(t, eval.Options{Context: models.Context(), Set: set, Runs: runs, Raw: true, MaxTokens: 11,
		Sampling: terms.Sampling{Temperature: 0.5, Seed: 13}, Parallel: 3, Every: 7}, o)
}

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
