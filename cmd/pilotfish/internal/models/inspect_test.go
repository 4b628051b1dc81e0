package models

import (
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/stretchr/testify/assert"
)

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
