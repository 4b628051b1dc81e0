package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCloud: two models with one vocabulary over a real connection, with equal serial and pipelined results; then the
// cloud is stopped.
func TestCloud(t *testing.T) {
	clitest.OwnFolders(t)
	t.Setenv("PILOTFISH_TOKEN", "a secret of sixteen bytes")
	edge, large := clitest.TinyModel(t, "q4_0"), clitest.TinyModel(t, "f32")
	address, pin, stop := clitest.StartCloud(t, "-m", large)
	args := []string{"-m", edge, "--cloud", address, "--pin", pin, "--policy", "random", "--threshold", "0.3",
		"--tokens", "5,6,7", "-n", "40"}

	ids, origins, s, _ := clitest.RoutedTokens(t, append(args, "--mode", "serial", "--deadline", "off")...)
	require.Len(t, ids, 40)
	assert.Contains(t, origins, "cloud")
	assert.Contains(t, origins, "edge")
	assert.Positive(t, s.CloudTokens)
	assert.Positive(t, s.BytesUp)
	ids2, origins2, s2, _ := clitest.RoutedTokens(t, append(args, "--branches", "3", "--deadline", "off")...)
	assert.Equal(t, ids, ids2)
	assert.Equal(t, origins, origins2)
	assert.Equal(t, s.CloudTokens, s2.CloudTokens)

	_, pin2, stop2 := clitest.StartCloud(t, "-m", large)
	assert.Equal(t, pin, pin2, "the certificate is kept")
	stop2()

	alone, _, _, _ := clitest.RoutedTokens(t, "-m", edge, "--tokens", "5,6,7", "-n", "40")
	stop()
	ids3, origins3, s3, stderr := clitest.RoutedTokens(t, append(args, "--deadline", "300ms",
		"--require-cloud=false")...)
	assert.Equal(t, alone, ids3, "complete without the cloud")
	assert.NotContains(t, origins3, "cloud")
	assert.Contains(t, origins3, "edge-timeout")
	assert.Positive(t, s3.Timeouts)
	assert.Contains(t, stderr, "no answer from the cloud")
}

// TestCloudResumes: a run leaves a ticket for the next one, which uses it and leaves another; --no-resume leaves the
// ticket alone.
func TestCloudResumes(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", m)
	args := []string{"-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--tokens", "1", "-n", "40",
		"--mode", "serial", "--deadline", "off"}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	ticket := func() string {
		names, err := filepath.Glob(filepath.Join(cache, "pilotfish", "tickets", "*"))
		require.NoError(t, err)
		if len(names) == 0 {
			return ""
		}
		require.Len(t, names, 1)
		b, err := os.ReadFile(names[0])
		require.NoError(t, err)
		return string(b)
	}
	clitest.RoutedTokens(t, append(args, "--no-resume")...)
	assert.Empty(t, ticket())
	clitest.RoutedTokens(t, args...)
	first := ticket()
	assert.NotEmpty(t, first)
	clitest.RoutedTokens(t, append(args, "--no-resume")...)
	assert.Equal(t, first, ticket())
	clitest.RoutedTokens(t, args...)
	assert.NotEmpty(t, ticket())
	assert.NotEqual(t, first, ticket())
}
