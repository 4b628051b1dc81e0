package main

import (
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestThreadsBesideTheNetwork: while the network is used there are two more threads than those that compute, and
// afterwards as many as before.
func TestThreadsBesideTheNetwork(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	before := runtime.GOMAXPROCS(0)
	t.Setenv("GOGC", "")
	require.NoError(t, os.Unsetenv("GOGC"))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	_, _, stop := clitest.StartCloud(t, "-m", m, "--threads", "9")
	assert.Equal(t, 11, runtime.GOMAXPROCS(0))
	assert.Greater(t, clitest.GcPercent(), 100, "with a small model and much free memory")
	stop()
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	assert.Equal(t, 100, clitest.GcPercent())

	var seen int
	out := clitest.WriterFunc(func(b []byte) (int, error) { seen = runtime.GOMAXPROCS(0); return len(b), nil })
	line := "run -m " + m + " --threads 7 --tokens 1 -n 1 --policy never --require-cloud=false --cloud " +
		clitest.ClosedPort
	require.Equal(t, cli.ExitDone, clitest.Run(t.Context(), strings.Fields(line), strings.NewReader(""), out,
		io.Discard))
	assert.Equal(t, before, runtime.GOMAXPROCS(0))
	assert.Equal(t, 9, seen)
}
