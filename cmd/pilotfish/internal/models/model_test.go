package models

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
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
	_, whole, _ := clitest.Call(t, "logits", "-m", m, "--tokens", "1", "--json")
	all, last := clitest.Lines[logitsResult](t, whole)[0].Logits, float32(math.Inf(1))
	for line := range strings.Lines(stdout) {
		var id int
		var logit float32
		_, err := fmt.Sscanf(line, "%d\t%g\n", &id, &logit)
		require.NoError(t, err, line)
		assert.Equal(t, all[id], logit)
		assert.LessOrEqual(t, logit, last, "the best first")
		last = logit
	}
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
	assert.EqualValues(t, 3, in.Version)
	assert.Equal(t, "+Inf", jsonFloat(math.Inf(1), 32, 0.), "JSON has no such number")
	assert.Equal(t, "-Inf", jsonFloat(math.Inf(-1), 64, 0.))
	assert.Equal(t, "NaN", jsonFloat(math.NaN(), 64, 0.))
	assert.Equal(t, 1.5, jsonFloat(1.5, 64, 1.5))
	assert.Equal(t, "qwen2", in.Metadata["general.architecture"])
	assert.EqualValues(t, 2, in.Metadata["qwen2.block_count"])
	assert.Equal(t, map[string]any{"type": "array of string", "length": 512.0}, in.Metadata["tokenizer.ggml.tokens"])
	assert.Len(t, in.Tensors, 2+2*12)
	var sum, parameters int64
	byType := map[string]typeSize{}
	for _, x := range in.Tensors {
		elements := 1
		for _, n := range x.Shape {
			elements *= n
		}
		sum, parameters = sum+int64(x.Bytes), parameters+int64(elements)
		s := byType[x.Type]
		byType[x.Type] = typeSize{Type: x.Type, Tensors: s.Tensors + 1, Bytes: s.Bytes + int64(x.Bytes)}
	}
	assert.Len(t, in.Types, len(byType))
	for i, x := range in.Types {
		assert.Positive(t, x.GPUBytes)
		assert.Equal(t, byType[x.Type], typeSize{Type: x.Type, Tensors: x.Tensors, Bytes: x.Bytes})
		assert.True(t, i == 0 || x.Bytes <= in.Types[i-1].Bytes, "largest first")
	}
	assert.Equal(t, sum, in.TensorBytes)
	assert.Equal(t, parameters, in.Parameters)

	_, stdout, _ = clitest.Call(t, "inspect", m)
	parts := strings.Split(stdout, "\n\n")
	require.Len(t, parts, 4)
	assert.Contains(t, parts[0], "in 26 tensors")
	assert.Contains(t, parts[1], "qwen2.block_count")
	assert.Regexp(t, `(?m)^blk\.1\.ffn_down\.weight +Q\d_K +\d+×\d+ +\d`, parts[2])
	assert.Regexp(t, `(?m)^Q6_K +\d+ tensors +\d`, parts[3])
}
