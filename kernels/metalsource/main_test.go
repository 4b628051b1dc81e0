package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/kernels"
)

// TestWrite: each source is in a file of its own, in both forms.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeSource(dir))
	for _, weight := range append(kernels.Types(), "") {
		for form, equal := range map[string]bool{"": false, "_equal": true} {
			text, err := os.ReadFile(filepath.Join(dir, "kernels"+weight+form+".metal"))
			require.NoError(t, err)
			assert.Equal(t, kernels.Source(weight, equal), string(text), "%s%s", weight, form)
		}
	}
	assert.ErrorIs(t, writeSource(filepath.Join(dir, "none")), os.ErrNotExist)
}
