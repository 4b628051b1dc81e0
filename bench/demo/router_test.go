package demo_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// shipped is the router file.
func shipped(t *testing.T) *router.File {
	t.Helper()
	f, err := gguf.Parse(demo.Router())
	require.NoError(t, err)
	r, err := router.Read(f)
	require.NoError(t, err)
	return r
}

// TestRouterFile: the router names the shipped models that it belongs to, and how it was made.
func TestRouterFile(t *testing.T) {
	r := shipped(t)
	fingerprint := func(b []byte) string {
		f, err := gguf.Parse(b)
		require.NoError(t, err)
		print, err := f.Fingerprint()
		require.NoError(t, err)
		return print
	}
	about := r.About
	assert.Equal(t, fingerprint(demo.Small()), about.Model)
	assert.Equal(t, fingerprint(demo.Large()), about.Large)
	assert.Equal(t, "pilotfish-demo-small", about.ModelName)
	assert.Equal(t, router.TapFinalNorm, about.Tap)
	assert.Equal(t, "disagreement", about.Label)
	assert.Equal(t, 7200, about.Prompts, "of 8,000")
	assert.Greater(t, about.AUC, 0.99)
	assert.Less(t, about.Calibration, 0.005)
	assert.True(t, r.Net.HeadFeatures)
	assert.Equal(t, 128, r.Net.Dim())
	assert.Equal(t, 64, r.Net.Layers[0].Out)
}
