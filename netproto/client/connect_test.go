package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCloseWhileConnecting: whenever a client is closed, also while it connects, it leaves no connection, and the
// gateway learns at once of the end of one that was made.
func TestCloseWhileConnecting(t *testing.T) {
	for _, early := range []bool{false, true} {
		for after := time.Duration(0); after < 45*time.Millisecond; after += time.Millisecond {
			s := &script{reply: always(1)}
			inAir(t, s, func(t *testing.T, a *air) {
				shared := newCache()
				if early {
					first, _ := s.dial(t, func(o *Options) { o.Tickets = shared })
					_, err := first.Connect(t.Context())
					require.NoError(t, err)
					settle()
					require.NoError(t, first.Close())
				}
				c, _ := s.dial(t, func(o *Options) { o.Tickets = shared })
				time.Sleep(after)
				require.NoError(t, c.Close())
				assert.Empty(t, c.links)
				assert.Nil(t, c.current)
				settle()
				s.mu.Lock()
				defer s.mu.Unlock()
				assert.Len(t, s.ended, s.hellos, "after %v, early: %v", after, early)
			})
		}
	}
}

// TestClosedMeanwhile: a connection that is made after Close has begun is closed, and the attempt fails.
func TestClosedMeanwhile(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, _ := s.dial(t, nil)
		settle()
		closing := func(begun bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.closed = begun
		}
		closing(true)
		_, err := c.dialAddress(t.Context(), gatewayAt, 1)
		closing(false)
		assert.ErrorIs(t, err, ErrClosed)
		assert.Len(t, c.links, 1, "the first one")
		a.set(func() { assert.Equal(t, 1, a.open) })
	})
}

// TestConnected: whether there is a connection. Whoever asks while there is none makes one.
func TestConnected(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, _ *air) {
		c, _ := s.dial(t, nil)
		settle()
		assert.True(t, c.Connected())
		c.retireLink(c.current)
		assert.False(t, c.Connected())
		settle()
		assert.True(t, c.Connected(), "by the attempt that the question began")
		require.NoError(t, c.Close())
		assert.False(t, c.Connected())
	})
}
