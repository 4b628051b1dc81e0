package client

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// versions returns the versions of the received Hellos.
func (s *script) versions() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.said {
		all = append(all, h.Version)
	}
	return all
}

// TestOldGateway: a gateway of version 3 is tried with each older version at once. That is not a failure for the ask,
// for Attempted, or for the pause before the next attempt. The client remembers the version; a new client tries 5
// again.
func TestOldGateway(t *testing.T) {
	s := &script{reply: always(1)}
	s.old.Store(true)
	inAir(t, s, func(t *testing.T, a *air) {
		var seen attempts
		c, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
		start := time.Now()
		r, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Ahead: 8, Within: time.Minute})
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 15*a.hop, "three handshakes, and no pause")
		assert.Nil(t, r.Ahead, "no tokens ahead")
		assert.Equal(t, 3, r.Prefilled)
		settle()
		assert.Equal(t, 3, c.Welcome().Version)
		s.retire(c)
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(4), Within: time.Minute})
		require.NoError(t, err)
		settle()
		assert.Equal(t, []int{5, 4, 3, 3}, s.versions())
		assert.Equal(t, []error{nil, nil}, seen.get())
		assert.Equal(t, 3, c.Stats().Connections, "a refused connection counts only if it used the ticket of the first")
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(5), AuditFrom: 2, Verify: terms.EachChoice})
		require.ErrorIs(t, err, netproto.CannotVerify)
		assert.ErrorContains(t, err, "the gateway speaks version 3 of the protocol, verification takes version 4")
		_, asks := s.count()
		assert.Equal(t, 2, asks)
		for i := range asks {
			assert.False(t, s.ask(i).Tail())
		}
		_, session = s.dial(t, nil)
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(4), Within: time.Minute})
		require.NoError(t, err)
		assert.Equal(t, []int{5, 4, 3, 3, 5, 4, 3}, s.versions())
	})
}

// TestOldGatewayDialled: the same for Dial.
func TestOldGatewayDialled(t *testing.T) {
	s := &script{reply: always(1)}
	s.old.Store(true)
	inAir(t, s, func(t *testing.T, a *air) {
		c, err := Dial(t.Context(), s.addr, s.opt)
		require.NoError(t, err)
		assert.Equal(t, 3, c.Welcome().Version)
		w, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.Equal(t, c.Welcome(), w)
		require.NoError(t, c.Close())
		_, err = c.Connect(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
		lazy, _ := s.dial(t, nil)
		require.NoError(t, lazy.Migrate(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.silence(true)
		other, _ := s.dial(t, nil)
		_, err = other.Connect(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		patient, _ := s.dial(t, func(o *Options) { o.Patience = time.Second })
		_, err = patient.Connect(t.Context())
		assert.ErrorIs(t, err, ErrNoReply)
	})
}

// TestGatewayBecomesOld: with an old ticket, asks are sent with the Hello, including their tails. A gateway that was
// replaced by an older version refuses it, and each ask is sent again in the old format.
func TestGatewayBecomesOld(t *testing.T) {
	for _, verify := range []bool{false, true} {
		s := &script{reply: always(1), ahead: 8}
		inAir(t, s, func(t *testing.T, a *air) {
			shared := newCache()
			c, session := s.dial(t, func(o *Options) { o.Tickets = shared })
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Ahead: 4, Within: time.Minute})
			require.NoError(t, err)
			assert.Equal(t, 4, s.ask(0).Ahead)
			settle()
			s.retire(c)
			s.old.Store(true)
			var seen attempts
			c, session = s.dial(t, func(o *Options) { o.Attempted, o.Tickets = seen.add, shared })
			var asks sync.WaitGroup
			for i := range 12 {
				asks.Go(func() {
					q := terms.Question{Context: ids(4 + i), Ahead: 4, Within: time.Minute}
					if verify {
						q.Verify, q.AuditFrom = terms.EachScore, 2
					}
					r, err := session.Ask(t.Context(), q)
					if verify {
						assert.ErrorIs(t, err, netproto.CannotVerify)
						return
					}
					assert.NoError(t, err)
					assert.Nil(t, r.Ahead)
				})
			}
			asks.Wait()
			settle()
			assert.Equal(t, []int{5, 5, 4, 3}, s.versions())
			assert.Equal(t, []bool{false, true}, s.resumed[:2])
			assert.Equal(t, []error{nil}, seen.get())
			_, n := s.count()
			assert.Equal(t, map[bool]int{false: 13, true: 1}[verify], n)
			for i := range n - 1 {
				assert.False(t, s.ask(1+i).Tail())
			}
			c.mu.Lock()
			assert.Zero(t, c.failures)
			c.mu.Unlock()
		})
	}
}

// TestGatewayBecomesOldDialled: Dial with a ticket also continues after the refusal of the version.
func TestGatewayBecomesOldDialled(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		o := s.opt
		o.Tickets = newCache()
		for i := range 2 {
			c, err := Dial(t.Context(), s.addr, o)
			require.NoError(t, err)
			assert.Equal(t, 5-2*i, c.Welcome().Version)
			settle()
			require.NoError(t, c.Close())
			s.old.Store(true)
		}
		assert.Equal(t, []int{5, 5, 4, 3}, s.versions())
		for range 2 {
			c, _ := s.dial(t, func(lazy *Options) { lazy.Tickets = o.Tickets })
			w, err := c.Connect(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 3, w.Version)
			settle()
			require.NoError(t, c.Close())
		}
		assert.Equal(t, []int{5, 5, 4, 3, 5, 4, 3, 5, 4, 3}, s.versions())
	})
}

// TestOldGatewayReplaced: a gateway that was replaced by version 5 accepts the Hello of version 3; a new client has all
// features.
func TestOldGatewayReplaced(t *testing.T) {
	s := &script{reply: always(1), ahead: 8}
	s.old.Store(true)
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		for i := range 2 {
			r, err := session.Ask(t.Context(), terms.Question{Context: ids(3 + i), Ahead: 2, Within: time.Minute})
			require.NoError(t, err)
			assert.Nil(t, r.Ahead)
			settle()
			if i == 0 {
				s.retire(c)
				s.stop()
				s.old.Store(false)
				s.listen(t, s.pair, netproto.ALPN)
			}
		}
		assert.Equal(t, []int{5, 4, 3, 3}, s.versions())
		assert.Equal(t, 3, c.Welcome().Version)
		_, session = s.dial(t, nil)
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(9), Ahead: 2, Within: time.Minute})
		require.NoError(t, err)
		assert.Equal(t, 2, s.ask(2).Ahead)
	})
}

// TestNoVersion: a gateway that accepts no version is a configuration error; each attempt tries all versions.
func TestNoVersion(t *testing.T) {
	s := &script{hello: func(int) []byte { return refuse(netproto.WrongVersion) }}
	inAir(t, s, func(t *testing.T, a *air) {
		var seen attempts
		_, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
		for range 2 {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Minute})
			require.ErrorIs(t, err, netproto.WrongVersion)
			assert.True(t, lasting(err))
			synctest.Wait()
		}
		assert.Equal(t, []int{5, 4, 3, 5, 4, 3}, s.versions())
		for _, err := range seen.get() {
			assert.ErrorIs(t, err, netproto.WrongVersion)
		}
		assert.Len(t, seen.get(), 2)
	})
}

// TestVersionOfWelcome: the version of a Welcome must be one that the client speaks, and not later than that of the
// Hello.
func TestVersionOfWelcome(t *testing.T) {
	for version, good := range map[int]bool{0: false, 2: false, 3: true, 4: true, 5: true, 6: false} {
		welcome := netproto.Welcome{Version: version}
		s := &script{reply: always(1), hello: func(int) []byte { return welcome.Append(nil) }}
		inAir(t, s, func(t *testing.T, a *air) {
			c, err := Dial(t.Context(), s.addr, s.opt)
			if !good {
				assert.ErrorIs(t, err, ErrProtocol, "version %d", version)
				return
			}
			require.NoError(t, err)
			assert.NoError(t, c.Close())
		})
	}
}

// TestBytesOfVersion3: without new features, a client of version 5 sends the same bytes as version 3: those of the last
// client of version 3.
func TestBytesOfVersion3(t *testing.T) {
	for _, old := range []bool{false, true} {
		var have []string
		s := &script{ahead: 8, raw: func(stream *quic.Stream) {
			b, err := io.ReadAll(stream)
			assert.NoError(t, err)
			have = append(have, hex.EncodeToString(b))
			stream.Write(netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil))
			stream.Close()
		}}
		s.old.Store(old)
		inAir(t, s, func(t *testing.T, a *air) {
			_, session := s.dial(t, nil)
			session.number = 0x01020304
			for i, q := range []terms.Question{{}, {K: 4, AuditFrom: 2,
				Sampling: terms.Sampling{Temperature: 0.8, Seed: 1}, Within: time.Minute}} {
				q.Context = ids(30 + i)
				_, err := session.Ask(t.Context(), q)
				require.NoError(t, err)
			}
			_, _, err := session.Sync(t.Context(), ids(40))
			require.ErrorIs(t, err, ErrProtocol, "an Answer instead of an Ack")
			assert.Equal(t, []string{
				"041b04030201001e000f10325476981032547698103254769800000000",
				"0427040302011ea02e4c79a35ad7cc010001000402099a9999999999e93f0100000000000000e0d403",
				"0715040302011f1c3bd5856b892f110900052143658709",
			}, have)
		})
	}
}

// TestTemplateOfOlderVersion: a client sends no template to a gateway of an older version, because there the digest has
// another meaning and a different one is refused.
func TestTemplateOfOlderVersion(t *testing.T) {
	s := &script{reply: always(1)}
	s.old.Store(true)
	inAir(t, s, func(t *testing.T, a *air) {
		who := netproto.Identity{Tokenizer: netproto.Digest{1}, Vocab: 10, Template: netproto.Digest{2}}
		_, session := s.dial(t, func(o *Options) { o.Identity = who })
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Minute})
		require.NoError(t, err)
		bare := who
		bare.Template = netproto.Digest{}
		for i, want := range []netproto.Identity{who, bare, bare} {
			assert.Equal(t, want, s.said[i].Identity, "version %d", s.said[i].Version)
		}
	})
}

// TestOffers: before the Welcome, and after a failed connection, a connection offers what its Hello asks for;
// afterwards, what the Welcome states.
func TestOffers(t *testing.T) {
	open, over := make(chan struct{}), make(chan struct{})
	close(over)
	for _, c := range []struct {
		l    *link
		want []int
	}{
		{&link{said: 4, ready: open}, []int{4, netproto.MaxAhead}},
		{&link{said: 3, ready: open}, []int{3, 0}},
		{&link{said: 4, ready: over, err: ErrNoReply}, []int{4, netproto.MaxAhead}},
		{&link{said: 4, ready: over, agreed: netproto.Welcome{Version: 4, Ahead: 7}}, []int{4, 7}},
		{&link{said: 4, ready: over, agreed: netproto.Welcome{Version: 3}}, []int{3, 0}},
	} {
		version, ahead := c.l.offers()
		assert.Equal(t, c.want, []int{version, ahead})
		_, err := new(Session).ask(t.Context(), c.l, netproto.Path{}, terms.Question{Verify: terms.EachChoice})
		assert.Equal(t, version == 3, errors.Is(err, netproto.CannotVerify))
	}
}
