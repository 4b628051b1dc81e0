package main

import (
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestThreadsBesideTheNetwork: while a gateway is asked there are two more threads than those that compute, and
// afterwards as many as before.
func TestThreadsBesideTheNetwork(t *testing.T) {
	clitest.OwnFolders(t)
	small, large := clitest.DemoFile("small.gguf"), clitest.DemoFile("large.gguf")
	address, pin := clitest.StartGateway(t, large, engine.Options{})
	before := runtime.GOMAXPROCS(0)
	for _, line := range []string{"eval DATA", "router collect --data DATA -o OUT"} {
		line = strings.NewReplacer("DATA", clitest.DemoData(t, 1), "OUT", filepath.Join(t.TempDir(),
			"traces")).Replace(line) +
			" -n 2 --threads 7 -m " + small + " --cloud " + address + " --pin " + pin
		var stderr strings.Builder
		seen := 0
		errs := clitest.WriterFunc(func(b []byte) (int, error) {
			if len(b) > 0 && !strings.Contains(string(b), "0 of ") {
				seen = max(seen, runtime.GOMAXPROCS(0)) // while questions are answered
			}
			return stderr.Write(b)
		})
		require.Equal(t, cli.ExitDone, clitest.Run(t.Context(), strings.Fields(line), strings.NewReader(""), io.Discard,
			errs), &stderr)
		assert.Equal(t, 9, seen, line)
		assert.Equal(t, before, runtime.GOMAXPROCS(0))
	}
}
