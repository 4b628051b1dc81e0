package main

import (
	"io"
	"os"
	"path/filepath"
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

	small, large, _ := clitest.DemoPairFiles(t)
	address, pin, _ := clitest.StartCloud(t, "-m", large, "--threads", "9", "--log", "off")
	for _, line := range []string{"eval DATA", "router collect --data DATA -o OUT"} {
		line = strings.NewReplacer("DATA", clitest.DemoData(t, 1), "OUT", filepath.Join(t.TempDir(),
			"traces")).Replace(line) +
			" -n 2 --threads 7 -m " + small + " --cloud " + address + " --pin " + pin
		var stderr strings.Builder
		seen = 0
		errs := clitest.WriterFunc(func(b []byte) (int, error) {
			if len(b) > 0 && !strings.Contains(string(b), "0 of ") {
				seen = max(seen, runtime.GOMAXPROCS(0)) // while questions are answered
			}
			return stderr.Write(b)
		})
		require.Equal(t, cli.ExitDone, clitest.Run(t.Context(), strings.Fields(line), strings.NewReader(""), io.Discard,
			errs), &stderr)
		assert.Equal(t, 9, seen, line)
		assert.Equal(t, 11, runtime.GOMAXPROCS(0), "that of the gateway")
	}
}
