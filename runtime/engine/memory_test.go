package engine

import (
	"math"
	"testing"

	"github.com/shirou/gopsutil/v4/mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFitSlots: the KV store takes half of the memory besides the weights, within its bounds.
func TestFitSlots(t *testing.T) {
	assert.Equal(t, 10_000, fitSlots(30_000_000, 10_000_000, 1000, 4096))
	assert.Equal(t, 4096, fitSlots(30_000_000, 29_000_000, 1000, 4096), "at least one context")
	assert.Equal(t, 4096, fitSlots(1, 2, 1000, 4096))
	assert.Equal(t, 256*64, fitSlots(1<<40, 0, 1000, 64), "at most 256 contexts")
	assert.Equal(t, 256*64, fitSlots(2*256*64*1000, 0, 1000, 64), "exactly as many")
	assert.Equal(t, 256*64-1, fitSlots(2*256*64*1000-1, 0, 1000, 64))
	assert.Equal(t, 64, fitSlots(2*65*1000-1, 0, 1000, 64))
	assert.Equal(t, 65, fitSlots(2*65*1000, 0, 1000, 64))
	assert.Equal(t, 65, fitSlots(2*65*1000+7, 7, 1000, 64), "besides the weights")
	assert.Equal(t, 64, fitSlots(1<<40, 1<<41, 1000, 64), "weights that do not fit at all")
}

// TestFits: more memory than the machine has is refused, also if the number of bytes overflows.
func TestFits(t *testing.T) {
	all, err := mem.VirtualMemory()
	require.NoError(t, err)
	limit := int(all.Total / 1000)
	assert.NoError(t, fits(limit, 1000))
	assert.ErrorContains(t, fits(limit+1, 1000), "more than this machine has memory for")
	assert.Error(t, fits(math.MaxInt, 1<<40))
	assert.NoError(t, fits(-1, 1000), "another check reports it")
}
