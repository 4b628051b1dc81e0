package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimits: no sum of times overflows at large values of all options.
func TestLimits(t *testing.T) {
	const maxQueue = 64 << 20
	d := Direction{Delay: time.Hour, Queue: maxQueue, Capacity: read(t, readCapacity, "86400000\n")}
	rtt := read(t, ReadRTT, "t_ms,rtt_ms\n0,3600000\n86400000,3600000\n")
	o := Options{Target: "127.0.0.1:9", Up: d, Down: d, RTT: rtt, TraceStart: 365 * 24 * time.Hour}
	e, at, last := newEmulator(o, directionDown), 365*24*time.Hour, time.Duration(0)
	for range maxQueue/65_535 + 10 {
		f := e.emulatePacket(at, 65_535)
		if f.end == departs {
			require.Greater(t, f.across, last)
			require.Greater(t, f.due, f.across)
			last = f.across
		}
	}
}
