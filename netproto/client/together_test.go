package client

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestTogether: goroutines may do all of this at the same time. The race detector finds a missing lock: each function
// runs in two goroutines, beside all others.
func TestTogether(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		l, now := c.current, time.Now()
		wrong := &quic.TransportError{Remote: true, ErrorCode: 0x100}
		var all sync.WaitGroup
		for _, do := range []func(){
			func() { c.Welcome() },
			func() { c.Stats() },
			func() { c.recordFailure(errors.New("a reason")) },
			func() { c.recordSuccess(netproto.Welcome{}, true) },
			func() { _ = c.addTimeoutCause(l, netproto.TooLate, 0, now) },
			func() { _ = c.noConnectionError(t.Context(), now) },
			func() { _ = c.lookupError(errors.New("a reason")) },
			func() {
				if c.startTask() {
					c.tasks.Done()
				}
			},
			func() { s.retire(c) },
			func() { l.clock.addSample(now, now, netproto.Clock{}) },
			func() { c.tickets.Get("a"); c.tickets.Put("a", nil); c.tickets.dropRefusedTicket(wrong) },
			func() { session.Left() },
			func() { _ = session.applyNeed(netproto.Need{Hash: netproto.RootHash}.Append(nil), ids(3)) },
			func() { _, _ = session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Second}) },
			func() {
				if other, err := c.NewSession(t.Context()); err == nil {
					other.Close()
				}
			},
		} {
			for range 2 {
				all.Go(func() {
					for range 3 {
						do()
					}
				})
			}
		}
		all.Go(func() { _ = c.Close() })
		all.Wait()
	})
}
