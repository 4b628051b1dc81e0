package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The KV store takes half of what the weights leave, within its bounds.
func TestFitSlots(t *testing.T) {
	assert.Equal(t, 10_000, fitSlots(30_000_000, 10_000_000, 1000, 4096))
	assert.Equal(t, 4096, fitSlots(30_000_000, 29_000_000, 1000, 4096), "at least one context")
	assert.Equal(t, 4096, fitSlots(1, 2, 1000, 4096))
	assert.Equal(t, 256*64, fitSlots(1<<40, 0, 1000, 64), "at most 256 contexts")
}

func TestFreeMemory(t *testing.T) {
	free, err := FreeMemory()
	require.NoError(t, err)
	assert.Positive(t, free)
	assert.Less(t, free, uint64(1)<<50)
}

// A limit of a control group counts, where there is one that is a number.
func TestGroupMemory(t *testing.T) {
	const none = ^uint64(0)
	dir := t.TempDir()
	set := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.Equal(t, none, groupMemory(dir))
	set("memory.max", "1000\n")
	assert.Equal(t, none, groupMemory(dir))
	set("memory.current", "300\n")
	assert.EqualValues(t, 700, groupMemory(dir))
	set("memory.current", "3000\n")
	assert.Zero(t, groupMemory(dir))
	set("memory.max", "max\n")
	assert.Equal(t, none, groupMemory(dir))
}
