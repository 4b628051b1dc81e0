package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestClockOfGateway: an ask with a clock gets the times in the gateway: between sending and arrival, for as long as
// the gateway worked on it. Other asks get none, and both have the same answer, also with tokens ahead.
func TestClockOfGateway(t *testing.T) {
	const delay = 20 * time.Millisecond
	g := start(t, "", gateway.Options{}, &decoder{fake: &fake{delay: delay}})
	s := session(t, dial(t, g, nil))
	for i := range 8 {
		p := path(20+i, 1)
		plain, err := s.Ask(t.Context(), terms.Question{Context: p})
		require.NoError(t, err)
		assert.Zero(t, plain.Times)
		r, err := s.Ask(t.Context(), terms.Question{Context: p, Times: true, Ahead: i % 3})
		require.NoError(t, err)
		at := r.Times
		assert.Equal(t, plain.Token, r.Token)
		assert.False(t, at.Received.Before(at.Left))
		assert.GreaterOrEqual(t, at.Sent.Sub(at.Received), delay/2,
			"at least half of the model's time, within the error")
		assert.False(t, at.Arrived.Before(at.Sent))
		assert.Positive(t, at.Within)
		assert.LessOrEqual(t, at.Within, at.Arrived.Sub(at.Left))
		if n := i % 3; n > 0 {
			assert.Equal(t, continuation(p, n)[1:], append([]int32{}, read(r.Ahead)...))
		}
	}
}
