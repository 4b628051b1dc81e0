package eval

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
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
	assert.Equal(t, eval.Options{
		Edge: models.Edge, Far: models.Far, Context: models.Context(), Set: set, Runs: runs, Raw: true, MaxTokens: 11,
		Sampling: terms.Sampling{Temperature: 0.5, Seed: 13}, Parallel: 3, Every: 7,
	}, f.options(models, set, runs))
}
