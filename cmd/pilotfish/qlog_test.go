package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// connectionFiles counts the files in a folder by side of the connection, and checks that each is complete.
func connectionFiles(t *testing.T, folder string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.sqlog"))
	require.NoError(t, err)
	sides := map[string]int{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(b), "transport:connection_closed", "to the end")
		assert.NotContains(t, string(b), "sixteen bytes")
		_, side, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".sqlog"), "_")
		sides[side]++
	}
	return sides
}

// TestQlog: each side of a connection writes its own file to the given folder, without the access token.
func TestQlog(t *testing.T) {
	clitest.OwnFolders(t)
	t.Setenv("PILOTFISH_TOKEN", "a secret of sixteen bytes")
	m, here, there := clitest.TinyModel(t, "q8_0"), filepath.Join(t.TempDir(), "made"), t.TempDir()
	address, pin, stop := clitest.StartCloud(t, "-m", m, "--qlog", there)
	run := []string{"-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off", "--tokens",
		"1", "-n", "3"}
	clitest.RoutedTokens(t, append(run, "--qlog", here)...)
	clitest.RoutedTokens(t, run...)
	assert.Equal(t, map[string]int{"client": 1}, connectionFiles(t, here))
	stop()
	assert.Equal(t, map[string]int{"server": 2}, connectionFiles(t, there))

	file := filepath.Join(there, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	code, _, stderr := clitest.Call(t, append([]string{"run", "--qlog", file}, run...)...)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--qlog")
	code, _, stderr = clitest.Call(t, "run", "-m", m, "--tokens", "1", "--qlog", here)
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--qlog has no effect without a gateway")
}

// TestRoutingQlog: a measurement writes a file for each side of each connection.
func TestRoutingQlog(t *testing.T) {
	racing.Spare(t)
	for _, command := range []string{"demo", "bench routing"} {
		folder := t.TempDir()
		code, _, stderr := clitest.Call(t,
			append(strings.Fields(command), "--questions", "1", "--modes", "serial", "--rtt", "1ms", "--edge-tps", "0",
				"--cloud-ms", "1", "--json", "--qlog", folder)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		sides := connectionFiles(t, folder)
		assert.Equal(t, sides["client"], sides["server"])
		assert.Positive(t, sides["client"])
	}
	folder := t.TempDir()
	code, _, stderr := clitest.Call(t, "bench", "link", "--rtt", "1ms", "--tokens", "0", "--connects", "2",
		"--outages", "0",
		"--with", "loopback=0", "--json", "--qlog", folder)
	require.Equal(t, cli.ExitDone, code, stderr)
	sides := connectionFiles(t, folder)
	assert.Equal(t, sides["client"], sides["server"])
	assert.GreaterOrEqual(t, sides["client"], 4, "new and resumed connections")
	code, _, stderr = clitest.Call(t, "demo", "--modes", "local", "--qlog", t.TempDir())
	assert.Equal(t, cli.ExitUsage, code)
	assert.Contains(t, stderr, "--qlog has no effect")
}
