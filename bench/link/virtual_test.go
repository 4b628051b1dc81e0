package link

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// TestWays: a datagram takes the delay of its direction, the recorded round trip is on the way down only, and no
// datagram overtakes another.
func TestWays(t *testing.T) {
	trace, err := ReadRTT(strings.NewReader("t_ms,rtt_ms\n0,20\n100,5\n200,\n300,7\n"), "x")
	require.NoError(t, err)
	up, down := Ways(Options{Up: Direction{Delay: 30 * ms}, Down: Direction{Delay: 40 * ms}, RTT: trace})
	for _, c := range []struct {
		name     string
		w        *Way
		at, want time.Duration
	}{
		{"up", up, 0, 30 * ms},
		{"up, later", up, 7 * ms, 37 * ms},
		{"down, at the end of a long round trip", down, 99 * ms, 159 * ms},
		{"down, not before the previous one", down, 100 * ms, 159 * ms},
		{"down, with a short round trip", down, 150 * ms, 195 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, ok := c.w.Send(c.at, 100, false)
			assert.True(t, ok)
			assert.Equal(t, c.want, at)
		})
	}
	for _, w := range []*Way{up, down} {
		_, ok := w.Send(250*ms, 100, false)
		assert.False(t, ok, "in an outage")
	}
}

// TestWayLost: a lost datagram takes its time on a narrow link, including headers, and delays no other datagram after
// that.
func TestWayLost(t *testing.T) {
	narrow, err := readCapacity(strings.NewReader("100\n"), "x")
	require.NoError(t, err)
	up, _ := Ways(Options{Up: Direction{Capacity: narrow, Loss: 1}})
	_, ok := up.Send(0, 1472, true)
	assert.False(t, ok)
	at, ok := up.Send(0, 2972, false)
	assert.True(t, ok, "the random number of the caller decides, not the loss in the options")
	assert.Equal(t, 300*ms, at)
	at, ok = up.Send(1001*ms, 1472, false)
	assert.True(t, ok)
	assert.Equal(t, 1100*ms, at)
}

// TestRoundTrip: the delays of both directions, and the mean of the trace without lost rows.
func TestRoundTrip(t *testing.T) {
	trace, err := ReadRTT(strings.NewReader("t_ms,rtt_ms\n0,100\n10,200\n20,\n30,150\n"), "x")
	require.NoError(t, err)
	o := Options{Up: Direction{Delay: 3 * ms}, Down: Direction{Delay: 4 * ms}}
	assert.Equal(t, 7*ms, o.RoundTrip())
	o.RTT = trace
	assert.Equal(t, 157*ms, o.RoundTrip())
}
