package freemem

import (
	"testing"

	"github.com/shirou/gopsutil/v4/mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBytes: free memory is at most the total, and the limit of a container counts.
func TestBytes(t *testing.T) {
	free, err := Bytes()
	require.NoError(t, err)
	assert.Positive(t, free)
	all, err := mem.VirtualMemory()
	require.NoError(t, err)
	assert.LessOrEqual(t, free, all.Total)
	free, err = freeBytes(groupsOf(t, map[string]string{
		"mountinfo": "30 20 0:26 / @/fs rw - cgroup2 cgroup rw\n", "cgroup": "0::/a\n",
		"fs/a/memory.max": "1000", "fs/a/memory.current": "300",
	}))
	require.NoError(t, err)
	assert.EqualValues(t, 700, free, "the limit of a container")
}
