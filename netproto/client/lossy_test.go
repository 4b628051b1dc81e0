package client

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestAskBehindLostSync: an ask after a sync that is not acknowledged yet builds on it and does not send the path
// again. If the connection has lost packets and the whole path fits into a packet, the ask sends it again, and is
// answered in time even if the sync is lost.
func TestAskBehindLostSync(t *testing.T) {
	for _, c := range []struct {
		name  string
		lossy bool
		path  []int32
		base  int // base of the ask
	}{
		{"nothing was lost", false, ids(40), 40},
		{"something was", true, ids(40), 0},
		{"but it is too long", true, scattered(3000), 3000},
		{"1000 bytes", true, scattered(399), 0},
		{"1003 bytes", true, scattered(400), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{reply: always(1), context: 10_000}
			inAir(t, s, func(t *testing.T, a *air) {
				cl, first := s.dial(t, func(o *Options) { o.Identity.Vocab = 1 << 20 })
				ask := func(session *Session, path []int32) (time.Duration, terms.Answer) {
					begin := time.Now()
					r := mustAsk(t, session, terms.Question{Context: path, Within: time.Minute})
					return time.Since(begin), r
				}
				ask(first, ids(1))
				if c.lossy {
					a.loseOne(t, first)
				}
				time.Sleep(time.Second)

				session, err := cl.NewSession(t.Context())
				require.NoError(t, err)
				var sync sync.WaitGroup
				var took time.Duration
				a.set(func() { a.lost = func(from, _ netip.AddrPort) bool { return c.lossy && from != gatewayAt } })
				sync.Go(func() {
					begin := time.Now()
					_, _, err := session.Sync(t.Context(), c.path)
					assert.NoError(t, err)
					took = time.Since(begin)
				})
				time.Sleep(time.Millisecond)
				a.silence(false)
				wait, r := ask(session, append(c.path[:len(c.path):len(c.path)], 7))
				sync.Wait()
				_, n := s.count()
				asked := s.ask(n - 1)
				assert.Equal(t, c.base, asked.Path.Base)
				assert.Equal(t, len(c.path)+1-c.base, asked.Path.Delta.Count)
				assert.Equal(t, 1, r.Prefilled, "repeated tokens are not new")
				assert.Equal(t, 2*len(c.path)+1-c.base, session.Left().Tokens, "they have left the device again")
				if c.lossy && c.base == 0 {
					assert.Less(t, wait, 3*a.hop, "one round trip")
					assert.Greater(t, took, 3*a.hop, "a lost sync takes longer")
				}
			})
		})
	}
}

// TestLoses: a connection counts as lossy from one lost packet of a hundred.
func TestLoses(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		l, err := c.waitForLink(t.Context())
		require.NoError(t, err)
		assert.False(t, l.losesPackets())
		a.loseOne(t, session)
		lossy := false
		for i := range 250 {
			mustAsk(t, session, terms.Question{Context: ids(i + 1)})
			stats := l.qc.ConnectionStats()
			assert.Equal(t, stats.PacketsLost == 1 && stats.PacketsSent <= 100, l.losesPackets(),
				"%d sent", stats.PacketsSent)
			lossy = lossy || l.losesPackets()
		}
		assert.True(t, lossy)
		assert.False(t, l.losesPackets(), "old losses are forgotten")
	})
}

// loseOne drops the first packet of some asks that follow each other, so that later ones reveal the loss.
func (a *air) loseOne(t *testing.T, session *Session) {
	t.Helper()
	time.Sleep(time.Second) // so that it is not an acknowledgement of earlier packets
	n := 0
	a.set(func() {
		a.lost = func(from, _ netip.AddrPort) bool {
			if from != gatewayAt {
				n++
			}
			return from != gatewayAt && n == 1
		}
	})
	var asks sync.WaitGroup
	for i := range 5 {
		asks.Go(func() {
			_, err := session.Ask(t.Context(), terms.Question{Context: []int32{9, int32(i)}, Within: time.Minute})
			assert.NoError(t, err)
		})
		time.Sleep(time.Millisecond)
	}
	asks.Wait()
}
