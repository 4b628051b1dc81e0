package engine

import (
	"math"
	"testing"

	"github.com/shirou/gopsutil/v4/mem"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
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
	assert.NoError(t, checkSlotMemory(limit, 1000))
	assert.ErrorContains(t, checkSlotMemory(limit+1, 1000), "more than this machine has memory for")
	assert.Error(t, checkSlotMemory(math.MaxInt, 1<<40))
	assert.NoError(t, checkSlotMemory(-1, 1000), "another check reports it")
}

// TestFitContext: the context that is chosen for a number of sessions is the model's limit if memory allows, and never
// less than the usual one.
func TestFitContext(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		free, weights uint64
		perToken      int64
		sessions      int
		limit, want   int
	}{
		"room for all":                {18 * gib, gib, 28 << 10, 8, 32768, 32768},
		"eight sessions":              {5 * gib, gib, 28 << 10, 8, 32768, 13 * 1024},
		"four sessions":               {5 * gib, gib, 28 << 10, 4, 32768, 27 * 1024},
		"less than the usual context": {2 * gib, gib, 28 << 10, 8, 32768, 4096},
		"no room for the weights":     {gib, 2 * gib, 28 << 10, 8, 32768, 4096},
		"a short context":             {gib, 2 * gib, 28 << 10, 8, 2000, 2000},
		"huge memory":                 {1 << 60, 0, 1, 1, 1000, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, fitContext(c.free, c.weights, c.perToken, c.sessions, c.limit))
		})
	}
	for sessions, want := range map[int]int{0: 4096, 8: 6000} {
		e := small(t, Options{Sessions: sessions}, func(s *synth.Spec) { s.Context = 6000 })
		assert.Equal(t, want, e.Context())
		assert.Equal(t, 6000, e.ContextLimit())
	}
}
