package serve

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestServeGivesBack: a server and a gateway that end leave no connection, mapping or goroutine.
func TestServeGivesBack(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	folder := filepath.Join(t.TempDir(), "kv")
	held.Same(t, func() {
		cloud := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		s := clitest.StartServe(t, "-m", m, "--cloud", cloud.Address, "--pin", cloud.Pin, "--policy", "always",
			"--kv-folder", folder)
		s.Answer(t, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
		s.Stop()
		cloud.Stop()
		assert.Equal(t, []int{cli.ExitDone, cli.ExitDone}, []int{s.Code, cloud.Code})
	})
}
