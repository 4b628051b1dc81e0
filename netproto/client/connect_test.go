package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
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
		_, err := c.openTo(t.Context(), gatewayAt, 1)
		closing(false)
		assert.ErrorIs(t, err, ErrClosed)
		assert.Len(t, c.links, 1, "the first one")
		a.set(func() { assert.Equal(t, 1, a.open) })
	})
}

// TestBackoff: the pauses grow to a max, with jitter.
func TestBackoff(t *testing.T) {
	assert.Zero(t, pauseAfter(0, 1))
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		low, high := pauseAfter(n, 0), pauseAfter(n, 1)
		assert.GreaterOrEqual(t, low, last)
		assert.Greater(t, high, low)
		assert.LessOrEqual(t, high, 6250*time.Millisecond)
		last = low
	}
}

// TestLasting: only lasting errors end the attempts.
func TestLasting(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("a: %w", &PinError{}):              true,
		netproto.Refusal{Code: netproto.WrongSecret}:  true,
		netproto.Refusal{Code: netproto.Busy}:         false,
		netproto.Refusal{Code: netproto.Draining}:     false,
		errors.Join(errors.New("b"), ErrClosed):       true,
		fmt.Errorf("%w: %w", ErrNoReply, ErrProtocol): true,
		errors.New("no route"):                        false,
	} {
		assert.Equal(t, want, lasting(err), err.Error())
	}
}
