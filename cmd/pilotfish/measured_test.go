package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestMeasuredWithoutText: a measurement contains the flags of its command, but no text of a user.
func TestMeasuredWithoutText(t *testing.T) {
	for _, prompt := range [][]string{
		{"--system", "a secret word", "another secret"}, {"--tokens", "123,45"},
		{"--stop", "a secret", "another secret"},
		{"--json-schema", `{"const":"secret"}`, "a"},
	} {
		args := append([]string{"run", "-m", clitest.DemoFile("small.gguf"), "-n", "2", "--json"}, prompt...)
		code, stdout, stderr := clitest.Call(t, args...)
		require.Equal(t, cli.ExitDone, code, stderr)
		all := clitest.Lines[struct{ Run *result.Run }](t, stdout)
		about := all[len(all)-1].Run
		require.NotNil(t, about)
		assert.Equal(t, "run", about.Measurement)
		assert.Equal(t, "2", about.Flags["max-tokens"])
		for _, text := range append([]string{about.Command}, about.Flags["system"], about.Flags["tokens"]) {
			assert.NotContains(t, text, "secret")
			assert.NotContains(t, text, "123")
		}
	}
}
