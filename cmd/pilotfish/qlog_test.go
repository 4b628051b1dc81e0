package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestQlog: each side of a connection writes its own file to the given folder, to the end, without the access token.
func TestQlog(t *testing.T) {
	clitest.OwnFolders(t)
	t.Setenv("PILOTFISH_TOKEN", "a secret of sixteen bytes")
	m, here, there := clitest.TinyModel(t, "q8_0"), filepath.Join(t.TempDir(), "made"), t.TempDir()
	address, pin, stop := clitest.StartCloud(t, "-m", m, "--qlog", there)
	clitest.RoutedTokens(t, "-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off",
		"--tokens", "1", "-n", "3", "--qlog", here)
	stop()
	for folder, side := range map[string]string{here: "client", there: "server"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_"+side+".sqlog"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		b, err := os.ReadFile(files[0])
		require.NoError(t, err)
		assert.Contains(t, string(b), "transport:connection_closed")
		assert.NotContains(t, string(b), "sixteen bytes")
	}
}
