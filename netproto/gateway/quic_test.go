package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestQUICConfig: each limit of the options is that of QUIC which it is for.
func TestQUICConfig(t *testing.T) {
	g := &Gateway{opt: Options{MessageTimeout: 3 * time.Second, IdleTimeout: 7 * time.Second,
		derived: derivedLimits{MaxStreams: 5}}}
	c := g.quicConfig()
	assert.True(t, c.Allow0RTT)
	assert.Equal(t, 3*time.Second, c.HandshakeIdleTimeout)
	assert.Equal(t, 7*time.Second, c.MaxIdleTimeout)
	assert.EqualValues(t, 6, c.MaxIncomingStreams, "and the control stream")
	assert.Negative(t, c.MaxIncomingUniStreams, "none")
	assert.LessOrEqual(t, c.InitialStreamReceiveWindow, uint64(16<<10), "of a client that is not known yet")
	assert.LessOrEqual(t, c.InitialConnectionReceiveWindow, uint64(64<<10))
	assert.LessOrEqual(t, c.MaxStreamReceiveWindow, uint64(256<<10))
	assert.LessOrEqual(t, c.MaxConnectionReceiveWindow, uint64(1<<20))
}
