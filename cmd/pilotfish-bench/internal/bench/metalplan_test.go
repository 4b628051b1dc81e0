package bench

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/metalplan"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestBenchMetalPlan: the prediction for a token, as a table and as JSON; a faster GPU is faster.
func TestBenchMetalPlan(t *testing.T) {
	code, stdout, stderr := clitest.Call(t, "metal-plan", "m4pro", "--type", "q4_0")
	require.Zero(t, code, stderr)
	for _, want := range []string{"M4 Pro, 20 cores, 273 GB/s; shape 0.5b, q4_0", "gateup_q4_0_1", "head_q8_0_1",
		"predicted, with 100 tokens of context:"} {
		assert.Contains(t, stdout, want)
	}
	plan := func(args ...string) (p metalplan.Plan) {
		args = append([]string{"metal-plan", "--shape", "tiny", "--json"}, args...)
		code, stdout, stderr := clitest.Call(t, args...)
		require.Zero(t, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &p))
		return p
	}
	slow, fast := plan(), plan("m4pro")
	assert.Equal(t, "M1", slow.GPU.Chip)
	assert.Equal(t, 100, slow.Context)
	assert.Less(t, slow.Tokens, fast.Tokens)
	for _, kind := range synth.RecipeNames() {
		code, _, stderr := clitest.Call(t, "metal-plan", "--type", kind, "--shape", "tiny")
		assert.Zero(t, code, "%s: %s", kind, stderr)
	}
}
