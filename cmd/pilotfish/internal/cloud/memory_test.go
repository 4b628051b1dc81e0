package cloud

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestGarbage: the garbage stays within its limit, also when more is alive than was expected.
func TestGarbage(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name               string
		garbage, kv, alive int64
		percent            int
	}{
		{"garbage like keys and values", 1024 * mib, 960 * mib, 0, 100},
		{"half as much", 512 * mib, 960 * mib, 900 * mib, 50},
		{"little alive", 1024 * mib, 0, 10 * mib, 1600},
		{"twice the keys and values", 1024 * mib, 1984 * mib, 0, 50},
		{"much alive", 1024 * mib, 0, 512 * mib, 200},
		{"more alive than keys and values", 1024 * mib, 960 * mib, 2048 * mib, 50},
		{"at least 1%", mib, 64 << 30, 0, 1},
		{"no garbage", 0, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := collectorControl{garbage: c.garbage, kv: c.kv, alive: func() int64 { return c.alive }}
			assert.Equal(t, c.percent, m.wantedPercent())
		})
	}
}

// TestSpendMemory: GOGC is lower with a large KV store and higher with a small one, and is restored at the end. A GOGC
// set by the user is kept.
func TestSpendMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	require.NoError(t, os.Unsetenv("GOGC"))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	none := func() uint64 { return 0 }
	stop := tuneCollector(1<<20, none)
	small := clitest.GcPercent()
	stop()
	stop = tuneCollector(64<<30, none)
	large := clitest.GcPercent()
	stop()
	assert.Positive(t, large)
	assert.Less(t, large, 3)
	assert.Greater(t, small, large)
	assert.Equal(t, 100, clitest.GcPercent())
	t.Setenv("GOGC", "70")
	tuneCollector(64<<30, none)()
	assert.Equal(t, 100, clitest.GcPercent())
}

// TestMemoryControl: the percentage follows what is alive, and after a quiet minute unused memory goes back to the
// system, once.
func TestMemoryControl(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	alive, steps := int64(512<<20), uint64(0)
	m := &collectorControl{garbage: 1 << 30, alive: func() int64 { return alive },
		steps: func() uint64 { return steps }}
	ticks := func(n int) (forced uint64) {
		before := forcedCollections()
		for range n {
			m.adjustPercent(time.Second)
		}
		return forcedCollections() - before
	}
	assert.Zero(t, ticks(59))
	assert.Equal(t, 200, clitest.GcPercent())
	assert.EqualValues(t, 1, ticks(1))
	assert.Zero(t, ticks(100), "once")
	alive, steps = 500<<20, 7
	ticks(1)
	assert.Equal(t, 200, clitest.GcPercent(), "a small change is none")
	alive = 2 << 30
	assert.Zero(t, ticks(30))
	assert.Equal(t, 50, clitest.GcPercent())
	steps++
	assert.Zero(t, ticks(60), "a step was made meanwhile")
	assert.EqualValues(t, 1, ticks(1))
}

// forcedCollections returns the number of collections that the program asked for.
func forcedCollections() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
