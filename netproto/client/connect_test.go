package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
)

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
