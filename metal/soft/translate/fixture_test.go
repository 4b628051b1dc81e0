package translate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// open makes a compiler for a test, or skips the test without one.
func open(t testing.TB, o Options) *Compiler {
	t.Helper()
	c, err := NewCompiler(o)
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	return c
}

// source returns a source of the tests of the device, such as "features".
func source(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".metal"))
	require.NoError(t, err)
	return string(text)
}
