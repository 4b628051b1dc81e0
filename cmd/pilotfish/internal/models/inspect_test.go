package models

import (
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/stretchr/testify/assert"
)

// TestShorten: a text has its characters, up to a number, unless some of them would change the table.
func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcdé": "abcdé", "abcdéf": "abcdé…", "a\tb": `"a\tb…`,
		"\x1b": `"\x1b…`, `a"b`: `"a\"b…`} {
		assert.Equal(t, want, shorten(text, 5), text)
	}
}

// TestInspectElements: long arrays are printed as their length.
func TestInspectElements(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	for elements, whole := range map[string]bool{"511": false, "512": true, "-1": true} {
		_, stdout, _ := clitest.Call(t, "inspect", m, "--with", "elements="+elements, "--json")
		_, list := clitest.Lines[inspection](t, stdout)[0].Metadata["tokenizer.ggml.tokens"].([]any)
		assert.Equal(t, whole, list, elements)
		_, stdout, _ = clitest.Call(t, "inspect", m, "--with", "elements="+elements)
		assert.Equal(t, !whole, strings.Contains(stdout, "512 elements"), elements)
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
			assert.Equal(t, []any{s.Type, s.Bytes}, []any{s.GPUType, s.GPUBytes})
		}
	}
	_, stdout, _ = clitest.Call(t, "inspect", m)
	assert.Regexp(t, `(?m)^Q3_K +\d+ tensors +\d+ kB +on a GPU Q6_K, \d.*B$`, stdout)
	assert.Equal(t, 1, strings.Count(stdout, "on a GPU"))
}
