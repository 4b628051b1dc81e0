package models

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestRunAgreesWithLogits: the first token of a run is the argmax of the logits command.
func TestRunAgreesWithLogits(t *testing.T) {
	m := clitest.TinyModel(t, "q4_k_m")
	for _, exact := range []string{"--exact=false", "--exact"} {
		_, stdout, _ := clitest.Call(t, "run", "-m", m, "--tokens", "9,8,7,6", "-n", "1", "--json", exact,
			"--ignore-eos")
		id := clitest.Lines[clitest.RunEvent](t, stdout)[0].ID
		code, stdout, stderr := clitest.Call(t, "logits", "-m", m, "--tokens", "9,8,7,6", "--json", exact)
		require.Equal(t, cli.ExitDone, code, stderr)
		r := clitest.Lines[logitsResult](t, stdout)[0]
		assert.Equal(t, id, r.Argmax)
		assert.Len(t, r.Logits, 512)
		for _, l := range r.Logits {
			assert.LessOrEqual(t, l, r.Logits[id])
		}
	}
	code, stdout, _ := clitest.Call(t, "logits", "-m", m, "--tokens", "1")
	assert.Equal(t, cli.ExitDone, code)
	assert.Equal(t, 10, strings.Count(stdout, "\n"))
}

func TestInspect(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q4_k_m")
	code, stdout, stderr := clitest.Call(t, "inspect", m, "--json")
	require.Equal(t, cli.ExitDone, code, stderr)
	in := clitest.Lines[inspection](t, stdout)[0]
	info, err := os.Stat(m)
	require.NoError(t, err)
	assert.Equal(t, info.Size(), in.Bytes)
	assert.Equal(t, "qwen2", in.Metadata["general.architecture"])
	assert.EqualValues(t, 2, in.Metadata["qwen2.block_count"])
	assert.Equal(t, map[string]any{"type": "array of string", "length": 512.0}, in.Metadata["tokenizer.ggml.tokens"])
	assert.Len(t, in.Tensors, 2+2*12)
	var sum, byType int64
	for _, x := range in.Tensors {
		sum += int64(x.Bytes)
	}
	for _, x := range in.Types {
		byType += x.Bytes
	}
	assert.Equal(t, in.TensorBytes, sum)
	assert.Equal(t, in.TensorBytes, byType)

	_, stdout, _ = clitest.Call(t, "inspect", m)
	assert.Contains(t, stdout, "blk.1.ffn_down.weight")
	assert.Contains(t, stdout, "Q6_K")
	_, stdout, _ = clitest.Call(t, "inspect", m, "--json", "--with", "elements=-1")
	assert.Len(t, clitest.Lines[inspection](t, stdout)[0].Metadata["tokenizer.ggml.tokens"], 512)
}
