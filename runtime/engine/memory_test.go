package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shirou/gopsutil/v4/mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The KV store takes half of what the weights leave, within its bounds.
func TestFitSlots(t *testing.T) {
	assert.Equal(t, 10_000, fitSlots(30_000_000, 10_000_000, 1000, 4096))
	assert.Equal(t, 4096, fitSlots(30_000_000, 29_000_000, 1000, 4096), "at least one context")
	assert.Equal(t, 4096, fitSlots(1, 2, 1000, 4096))
	assert.Equal(t, 256*64, fitSlots(1<<40, 0, 1000, 64), "at most 256 contexts")
	assert.Equal(t, 256*64, fitSlots(2*256*64*1000, 0, 1000, 64), "exactly as many")
	assert.Equal(t, 256*64-1, fitSlots(2*256*64*1000-1, 0, 1000, 64))
	assert.Equal(t, 64, fitSlots(2*65*1000-1, 0, 1000, 64))
	assert.Equal(t, 65, fitSlots(2*65*1000, 0, 1000, 64))
	assert.Equal(t, 65, fitSlots(2*65*1000+7, 7, 1000, 64), "beside the weights")
	assert.Equal(t, 64, fitSlots(1<<40, 1<<41, 1000, 64), "weights that do not fit at all")
}

func TestFreeMemory(t *testing.T) {
	free, err := FreeMemory()
	require.NoError(t, err)
	assert.Positive(t, free)
	assert.Less(t, free, uint64(1)<<50)
	all, err := mem.VirtualMemory()
	require.NoError(t, err)
	assert.LessOrEqual(t, free, all.Total)
	dir := t.TempDir()
	none, err := freeMemory(dir)
	require.NoError(t, err)
	assert.InDelta(t, all.Available, none, float64(all.Total)/4, "what the system has, where no group says anything")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte("1000"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.current"), []byte("300"), 0o600))
	little, err := freeMemory(dir)
	require.NoError(t, err)
	assert.EqualValues(t, 700, little, "the limit of a container")
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
	set("memory.max", "18446744073709551615")
	assert.EqualValues(t, none-3000, groupMemory(dir))
	set("memory.current", "a lot")
	assert.Equal(t, none, groupMemory(dir))
	set("memory.current", "1000")
	set("memory.max", "1000")
	assert.Zero(t, groupMemory(dir), "exactly used up")
	set("memory.max", "-1")
	assert.Equal(t, none, groupMemory(dir))
	set("memory.max", "max\n")
	assert.Equal(t, none, groupMemory(dir))
}
