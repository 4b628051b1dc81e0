package measure

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestPairCloses: what was opened last is closed first: the service before the models that it uses.
func TestPairCloses(t *testing.T) {
	p, c := new(PairFlags), new(cobra.Command)
	p.Register(c)
	got, err := p.Open(t.Context(), &cli.App{Stderr: io.Discard}, true)
	require.NoError(t, err)
	var order []string
	for _, name := range []string{"model", "service"} {
		got.addCloser(func() { order = append(order, name) })
	}
	got.Close()
	assert.Equal(t, []string{"service", "model"}, order)
	assert.True(t, got.Far.(*engine.Service).Closed())
	for _, e := range []*engine.Engine{got.Edge, got.Large} {
		_, err := e.Serve(engine.ServeOptions{})
		assert.ErrorIs(t, err, engine.ErrClosed)
	}
}
