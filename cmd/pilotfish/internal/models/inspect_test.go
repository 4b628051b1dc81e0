package models

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestShorten: a text has its characters, up to a number, unless some of them would change the table.
func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcdé": "abcdé", "abcdéf": "abcdé…", "a\tb": `"a\tb…`,
		"\x1b": `"\x1b…`, `a"b`: `"a\"b…`} {
		assert.Equal(t, want, shortenText(text, 5), text)
	}
}

// TestInspectGPU: the type and the size of weights on a GPU, which has no kernels for some types.
func TestInspectGPU(t *testing.T) {
	m := clitest.TinyModel(t, "q3_k")
	_, stdout, _ := clitest.Call(t, "inspect", m, "--json")
	for _, s := range clitest.Lines[inspection](t, stdout)[0].Types {
		if s.Type == "Q3_K" {
			assert.Equal(t, "Q6_K", s.GPUType)
			assert.Equal(t, s.Bytes/110*210, s.GPUBytes, "bytes of a block of 256 weights")
		} else {
			assert.Equal(t, s.Type, s.GPUType)
			assert.Equal(t, s.Bytes, s.GPUBytes, s.Type)
		}
	}
	_, stdout, _ = clitest.Call(t, "inspect", m)
	assert.Regexp(t, `(?m)^Q3_K +\d+ tensors +\d+ kB +on a GPU Q6_K, \d.*B$`, stdout)
	assert.Equal(t, 1, strings.Count(stdout, "on a GPU"))
}

// TestInspectLeftOut: the tensors without which a model is loaded are marked.
func TestInspectLeftOut(t *testing.T) {
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	s := synth.Tiny35(recipe, 1)
	s.Linear.Predictors = 1
	path := filepath.Join(t.TempDir(), "m.gguf")
	var b bytes.Buffer
	require.NoError(t, s.Write(&b, nil))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	_, stdout, _ := clitest.Call(t, "inspect", path, "--json")
	for _, x := range clitest.Lines[inspection](t, stdout)[0].Tensors {
		assert.Equal(t, strings.HasPrefix(x.Name, "blk.4."), x.LeftOut, x.Name)
	}
	_, stdout, _ = clitest.Call(t, "inspect", path)
	assert.Regexp(t, `(?m)^blk\.4\.nextn\.eh_proj\.weight .*left out$`, stdout)
	assert.NotRegexp(t, `(?m)^blk\.3\..*left out$`, stdout)
}

// TestInspectForeignNames: no name or text of a file can change the table, or control the terminal.
func TestInspectForeignNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	gguf.Put(w, "a.\x1b[2Jkey", "a\tb\x1b[2J")
	gguf.PutArray(w, "list", []string{"\x1b[3J"})
	w.Declare("blk.\x1b[2J\nname", gguf.F32, 1)
	require.NoError(t, w.WriteFloats([]float32{1}))
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	code, stdout, stderr := clitest.Call(t, "inspect", path)
	require.Equal(t, cli.ExitDone, code, stderr)
	head := fmt.Sprintf("%s: GGUF 3, %d B, 1 parameters in 1 tensors\n", path, b.Len())
	assert.True(t, strings.HasPrefix(stdout, head), "%s, not %s", stdout, head)
	assert.NotContains(t, stdout, "\x1b")
	for _, part := range []string{`"a.\x1b[2Jkey"  string`, `  "a\tb\x1b[2J"` + "\n", `  "[\x1b[3J]"` + "\n",
		`"blk.\x1b[2J\nname"  F32  1  4 B` + "\n"} {
		assert.Contains(t, stdout, part)
	}
	_, stdout, _ = clitest.Call(t, "inspect", path, "--json")
	in := clitest.Lines[inspection](t, stdout)[0]
	assert.Equal(t, "blk.\x1b[2J\nname", in.Tensors[0].Name)
	assert.Equal(t, "a\tb\x1b[2J", in.Metadata["a.\x1b[2Jkey"])
}

// TestInspectNumbers: a number has the digits that its type holds, as text and as JSON, in an array too. In JSON, NaN
// and infinities are texts.
func TestInspectNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	var b bytes.Buffer
	w := gguf.NewWriter(&b)
	gguf.Put(w, "single", float32(1e-6))
	gguf.Put(w, "double", 0.1)
	gguf.Put(w, "none", math.Inf(-1))
	gguf.PutArray(w, "list", []float32{0.1, float32(math.NaN())})
	gguf.PutArray(w, "empty", []float32{})
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	_, stdout, _ := clitest.Call(t, "inspect", path)
	assert.Regexp(t, `(?s)single +float32 +1e-06\n.*double +float64 +0\.1\n.*none +float64 +-Inf\n.*\[0\.1 NaN\]\n`,
		stdout)
	_, stdout, _ = clitest.Call(t, "inspect", path, "--json")
	for _, part := range []string{`"single":0.000001`, `"double":0.1`, `"none":"-Inf"`, `"list":[0.1,"NaN"]`,
		`"empty":[]`} {
		assert.Contains(t, stdout, part)
	}
}
