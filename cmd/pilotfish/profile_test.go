package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestProfiledCommands: every command that runs for long has --profile.
func TestProfiledCommands(t *testing.T) {
	for _, name := range cli.ProfiledCommands() {
		c, rest, err := cli.NewRootCommand(&cli.App{Commands: commands}).Find(strings.Fields(name))
		require.NoError(t, err)
		assert.Empty(t, rest, name)
		assert.NotNil(t, c.Flags().Lookup("profile"), name)
	}
}

// TestProfileLabels: the samples of a CPU profile have phase labels, also those of the workers.
func TestProfileLabels(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	path := filepath.Join(t.TempDir(), "p")
	code, _, stderr := clitest.Call(t, "bench", "engine", "-m", m, "-p", "500", "-n", "490", "-r", "8", "-t", "2",
		"--profile", "cpu:"+path)
	require.Equal(t, cli.ExitDone, code, stderr)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	p, err := profile.Parse(f)
	require.NoError(t, err)
	samples := map[string]int64{}
	workers := int64(0)
	for _, s := range p.Sample {
		of := strings.Join(s.Label["phase"], " ")
		samples[of] += s.Value[0]
		for _, l := range s.Location {
			for _, line := range l.Line {
				if of != "" && strings.HasSuffix(line.Function.Name, "(*Pool).work") {
					workers += s.Value[0]
				}
			}
		}
	}
	assert.Positive(t, samples["prompt"], samples)
	assert.Positive(t, samples["draft"], samples)
	assert.Positive(t, workers, "of %v", samples)
}
