package client

import (
	"context"
	"encoding/hex"
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

// versions returns the versions of the Hellos that came.
func (s *script) versions() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.said {
		all = append(all, h.Version)
	}
	return all
}

// A gateway of version 3 is asked in each older version at once, and that is no failure: not to the ask, nor to
// whoever is told of attempts, nor to the pause before the next one. The client remembers it; a new one tries 5
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
		assert.Nil(t, r.Ahead, "it gives none")
		assert.Equal(t, 3, r.Prefilled)
		settle()
		assert.Equal(t, 3, c.Welcome().Version)
		s.retire(c)
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(4), Within: time.Minute})
		require.NoError(t, err)
		settle()
		assert.Equal(t, []int{5, 4, 3, 3}, s.versions())
		assert.Equal(t, []error{nil, nil}, seen.get())
		assert.Equal(t, 3, c.Stats().Connections, "a refused one counts only if it began with the ticket of the first")
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

// So it is where somebody waits for the connection alone.
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

// With a ticket from before, asks go out with the Hello, and their tails with them: a gateway that has become an old
// one refuses it, and each ask goes out again as the old version has it.
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

// Dial with a ticket: also there the refusal of the version is not the last word.
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

// A gateway that is replaced by one of version 5 takes the Hello of version 3; a new client has all of it.
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

// A gateway that takes no version is one that only a change of the configuration helps against; each attempt tries
// all of them.
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

// A Welcome is of a version that the client can speak and has not been told of a later one than the Hello's.
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

// Where nothing new is wanted, what a client of version 5 sends is what one of version 3 sent, to the byte: these bytes
// are those of the last client of version 3.
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
			require.ErrorIs(t, err, ErrProtocol, "an Answer is no Ack")
			assert.Equal(t, []string{
				"041b04030201001e000f10325476981032547698103254769800000000",
				"0427040302011ea02e4c79a35ad7cc010001000402099a9999999999e93f0100000000000000e0d403",
				"0715040302011f1c3bd5856b892f110900052143658709",
			}, have)
		})
	}
}

// To a gateway of an older version a client states no template: there the digest has another meaning, and the gateway
// would refuse one that differs.
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

// Before the Welcome a connection offers what its Hello asks for, and so does one that failed meanwhile; after it, what
// the Welcome says.
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
	}
}
