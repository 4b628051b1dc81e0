package netproto

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClockUnits: clocks are encoded in whole microseconds that never decrease, for any input.
func TestClockUnits(t *testing.T) {
	const longest = maxMillis * time.Millisecond // since the connection began
	for _, c := range []struct {
		name       string
		have, want Clock
	}{
		{"parts of a microsecond", Clock{1999 * time.Nanosecond, 3001 * time.Nanosecond},
			Clock{time.Microsecond, 3 * time.Microsecond}},
		{"before the connection", Clock{-time.Second, time.Second}, Clock{0, time.Second}},
		{"sent before received", Clock{time.Second, time.Millisecond}, Clock{time.Second, time.Second}},
		{"after the longest time", Clock{longest + time.Second, longest + 2*time.Second},
			Clock{longest, longest + time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := ParseClock(c.have.Append(nil))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}
