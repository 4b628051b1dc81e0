package main

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestSchema: the schema of measurements, which cmd/pilotfish-bench writes, accepts what run prints, with its record.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/study/measurements.schema.json")
	require.NoError(t, err)
	small, at := clitest.StartPair(t)
	for _, args := range []string{
		"-n 4 hello", "-n 9 --policy always " + strings.Join(at, " ") + " hello",
		"--tokens 1,2 -n 2 --cloud " + clitest.ClosedPort + " --deadline 1ms --require-cloud=false",
	} {
		code, stdout, stderr := clitest.Call(t, strings.Fields("run --json -m "+small+" "+args)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		last, err := jsonschema.UnmarshalJSON(strings.NewReader(lines[len(lines)-1]))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(last), args)
		last.(map[string]any)["surprise"] = 1
		assert.Error(t, schema.Validate(last), "a field that no type has")
	}
}
