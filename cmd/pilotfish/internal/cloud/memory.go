package cloud

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/freemem"
)

// Times of the control of the garbage collector.
const (
	collectorTick = time.Second
	quietTime     = time.Minute // without a step of the model, after which unused memory goes back to the system
)

// collectorControl makes the garbage collector run rarely, since questions wait for it: only when the garbage takes a
// fixed number of bytes. The collector itself is controlled by a percentage of what is alive, which changes.
type collectorControl struct {
	garbage int64         // bytes
	kv      int64         // bytes of keys and values if all slots are in use: alive, and allocated by and by
	alive   func() int64  // bytes, at the last collection
	steps   func() uint64 // of the model, since the start

	percent int
	last    uint64 // steps at the last tick
	quiet   time.Duration
}

// tuneCollector controls the garbage collector until stop is called, which restores its setting: the garbage takes at
// most an eighth of the free memory and 1 GiB. If GOGC is set, tuneCollector does nothing.
func tuneCollector(kv int64, steps func() uint64) (stop func()) {
	const most = 1 << 30
	free, err := freemem.Bytes()
	if _, set := os.LookupEnv("GOGC"); set || err != nil {
		return func() {}
	}
	m := &collectorControl{garbage: int64(min(free/8, most)), kv: kv, alive: liveHeapBytes, steps: steps}
	m.percent = m.wantedPercent()
	before := debug.SetGCPercent(m.percent)
	end := runInBackground(collectorTick, func(time.Time) { m.adjustPercent(collectorTick) }, nil, nil)
	return func() {
		end()
		debug.SetGCPercent(before)
	}
}

func liveHeapBytes() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// wantedPercent returns the percentage for the collector. Keys and values count as if all were allocated, so that the
// garbage stays within its limit while they grow.
func (m *collectorControl) wantedPercent() int {
	const rest = 64 << 20 // bytes: approximate memory of a gateway without keys and values
	return int(max(m.garbage*100/max(m.kv+rest, m.alive()), 1))
}

func (m *collectorControl) adjustPercent(since time.Duration) {
	if p := m.wantedPercent(); p < m.percent*9/10 || p > m.percent*11/10 {
		m.percent = p
		debug.SetGCPercent(p)
	}
	if now := m.steps(); now != m.last {
		m.last, m.quiet = now, 0
		return
	}
	before := m.quiet
	if m.quiet += since; before < quietTime && m.quiet >= quietTime {
		debug.FreeOSMemory()
	}
}
