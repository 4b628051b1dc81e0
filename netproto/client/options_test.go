package client

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestOptionsRefused: invalid options are refused by name, before anything is sent.
func TestOptionsRefused(t *testing.T) {
	for text, change := range map[string]func(*Options){
		"a vocabulary of 0":          func(o *Options) { o.Identity.Vocab = 0 },
		"a vocabulary of 16777217":   func(o *Options) { o.Identity.Vocab = netproto.MaxVocab + 1 },
		"ConnectTimeout is negative": func(o *Options) { o.ConnectTimeout = -1 },
	} {
		t.Run(text, func(t *testing.T) {
			o := Options{Identity: netproto.Identity{Vocab: 10}, Lazy: true}
			change(&o)
			_, err := Dial(t.Context(), "10.0.0.1:1", o)
			assert.ErrorContains(t, err, "client: "+text)
		})
	}
	for _, vocab := range []int{1, netproto.MaxVocab} {
		_, err := Options{Identity: netproto.Identity{Vocab: vocab}}.withDefaults()
		assert.NoError(t, err)
	}
	o, err := Options{Identity: netproto.Identity{Vocab: 1}, TicketFolder: "f"}.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, ticketFolder("f"), o.Tickets)
}

// TestHello: the options about the client and its device are sent with the Hello, also if it is repeated.
func TestHello(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		who := netproto.Identity{Tokenizer: netproto.Digest{1}, Vocab: 10, Template: netproto.Digest{2}}
		c, session := s.dial(t, func(o *Options) {
			o.Identity, o.Secret, o.Device, o.ServerName = who, "open sesame", netproto.Device{3}, "a.name"
			o.Dictionary.ID = 9
		})
		mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
		want := netproto.Hello{Version: netproto.Version, Identity: who, Device: netproto.Device{3},
			Dictionary: 9, Secret: "open sesame"}
		assert.Equal(t, []netproto.Hello{want}, s.said)
		assert.Equal(t, []string{"a.name"}, s.names)
		assert.Equal(t, s.addr, c.Addr())
		w := c.Welcome()
		assert.Equal(t, netproto.Welcome{Model: "large", Context: 1000}, w)
		settle()
		s.retire(c)
		mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
		settle()
		assert.Equal(t, []netproto.Hello{want, want}, s.said)
		assert.Equal(t, Stats{Connections: 2, Early: 1}, c.Stats())
		for range 2 {
			other, _ := s.dial(t, nil)
			require.NoError(t, other.connectOnce(t.Context()))
		}
		assert.NotEqual(t, s.said[2].Device, s.said[3].Device, "each client has a random device")
		assert.NotZero(t, s.said[2].Device)
		assert.NotZero(t, s.said[3].Device)
	})
}

// TestServerName: the certificate must be for the host if it is a name.
func TestServerName(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		a.hosts["the.gateway"] = append(a.hosts["the.gateway"], gatewayAt.Addr())
		c, err := Dial(t.Context(), "the.gateway:4433", s.opt)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		assert.Equal(t, []string{"the.gateway"}, s.names)
	})
}

// TestTickets: clients that share a cache share its ticket; a client without a cache makes its own. With a ticket an
// ask is sent with the Hello, and answered after one round trip.
func TestTickets(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		shared := newCache()
		for i := range 3 {
			c, session := s.dial(t, func(o *Options) { o.Tickets = shared })
			start := time.Now()
			mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
			assert.Equal(t, map[bool]time.Duration{true: 6, false: 2}[i == 0]*a.hop, time.Since(start))
			settle()
			assert.Equal(t, min(i, 1), c.Stats().Early)
			require.NoError(t, c.Close())
		}
		c, session := s.dial(t, nil)
		for i := range 3 {
			mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
			settle()
			assert.Equal(t, i, c.Stats().Early)
			s.retire(c)
		}
	})
}

// TestPinOfResumed: the pin is also checked for a session that is resumed, whatever the cache of tickets returns.
func TestPinOfResumed(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		o := s.opt
		o.Tickets = &one{}
		c, err := Dial(t.Context(), s.addr, o)
		require.NoError(t, err)
		settle()
		require.NoError(t, c.Close())
		o.Pin[0]++
		_, err = Dial(t.Context(), s.addr, o)
		_, wrong := errors.AsType[*PinError](err)
		assert.True(t, wrong, "%v", err)
		assert.Equal(t, []bool{false, true}, s.resumed)
	})
}

// TestTicketBrokenOff: a ticket with which the gateway aborts the handshake costs one attempt; the next one has none.
func TestTicketBrokenOff(t *testing.T) {
	for _, no0RTT := range []bool{true, false} {
		s := &script{reply: always(1), no0RTT: no0RTT, broken: func(n int) bool { return n == 2 }}
		inAir(t, s, func(t *testing.T, a *air) {
			var seen attempts
			c, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
			for range 2 {
				mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
				settle()
				s.retire(c)
			}
			assert.Equal(t, []bool{false, true, false}, s.resumed)
			assert.Zero(t, c.Stats().Early)
			all := seen.get()
			require.Len(t, all, 3)
			assert.Equal(t, []bool{true, false, true}, []bool{all[0] == nil, all[1] == nil, all[2] == nil})
		})
	}
}

// TestEarlyRejected: a restarted gateway accepts no 0-RTT: early data is sent again, once.
func TestEarlyRejected(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		mustAsk(t, session, terms.Question{Context: ids(3)})
		settle()
		s.retire(c)
		s.stop()
		s.listen(t, s.pair, netproto.ALPN)
		for i := range 12 {
			r := mustAsk(t, session, terms.Question{Context: ids(4 + i)})
			_, asks := s.count()
			require.Equal(t, 2+i, asks)
			once := len(s.ask(asks - 1).Append(nil))
			assert.Equal(t, i > 0, r.BytesUp == once, "ask %d: %d bytes in frames of %d", i, r.BytesUp, once)
			assert.Less(t, r.BytesUp, 3*once, "ask %d", i)
		}
		assert.Equal(t, []bool{false, true}, s.resumed)
		assert.Len(t, s.said, 2, "the Hello was repeated")
		assert.Equal(t, s.said[0], s.said[1])
		assert.Equal(t, 2, c.Stats().Connections)
		assert.Zero(t, c.Stats().Early)
	})
}

// secondRefused is a gateway that refuses a client's second connection after a second.
func secondRefused() *script {
	return &script{reply: always(1), hello: func(conn int) []byte {
		if conn == 2 {
			time.Sleep(time.Second)
			return refuse(netproto.Busy)
		}
		return nil
	}}
}

// retired returns a client with a single connection that takes no more asks.
func (s *script) retired(t *testing.T) (*Client, *Session) {
	t.Helper()
	c, session := s.dial(t, nil)
	mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
	settle()
	s.retire(c)
	return c, session
}

// TestEarlyUnwelcome: asks that were sent before a Welcome that never arrives, and those that wait for it, are sent
// again on the next connection.
func TestEarlyUnwelcome(t *testing.T) {
	s := secondRefused()
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.retired(t)
		var asks sync.WaitGroup
		for i := range 24 {
			asks.Go(func() {
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(4 + i), Within: time.Minute})
				assert.NoError(t, err)
			})
		}
		asks.Wait()
		assert.Equal(t, 3, c.Stats().Connections)
	})
}

// TestEarlyAsks: eight asks are sent before the Welcome; more wait for it, and are answered, too.
func TestEarlyAsks(t *testing.T) {
	var slow atomic.Bool
	s := &script{reply: always(1), hello: func(int) []byte {
		if slow.Load() {
			time.Sleep(time.Second)
		}
		return nil
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.retired(t)
		slow.Store(true)
		l, err := c.waitForLink(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.earlyStreams, 8)
		var asks sync.WaitGroup
		for i := range 12 {
			asks.Go(func() {
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(4 + i), Within: time.Minute})
				assert.NoError(t, err)
			})
		}
		asks.Wait()
		_, n := s.count()
		assert.Equal(t, 13, n)
	})
}

// TestFewStreams: if the gateway permits few streams, fewer asks are sent before the Welcome and the others wait; one
// that permits none cannot be used.
func TestFewStreams(t *testing.T) {
	s := &script{reply: always(1), streams: 3}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.retired(t)
		l, err := c.waitForLink(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.earlyStreams, 2, "and the control stream")
		var asks sync.WaitGroup
		for i := range 6 {
			asks.Go(func() {
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(4 + i), Within: time.Minute})
				assert.NoError(t, err)
			})
		}
		asks.Wait()
	})
	s = &script{streams: -1}
	inAir(t, s, func(t *testing.T, a *air) {
		start := time.Now()
		_, err := Dial(t.Context(), s.addr, s.opt)
		assert.ErrorContains(t, err, "too many open streams")
		assert.Less(t, time.Since(start), time.Second)
	})
}

// TestRestartedUnwelcome: if a restarted gateway accepts no 0-RTT, and then refuses the repeated Hello or has another
// certificate, an ask returns that, and is not sent there again.
func TestRestartedUnwelcome(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s := &script{reply: always(1), hello: refuseSecond(netproto.WrongSecret)}
		inAir(t, s, func(t *testing.T, a *air) {
			_, session := s.retired(t)
			s.stop()
			pair := s.pair
			if replaced {
				certificate, key, err := gateway.NewCertificate("localhost")
				require.NoError(t, err)
				pair, err = tls.X509KeyPair(certificate, key)
				require.NoError(t, err)
			}
			s.listen(t, pair, netproto.ALPN)
			start := time.Now()
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(4), Within: time.Minute})
			_, pin := errors.AsType[*PinError](err)
			assert.Equal(t, replaced, pin, "%v", err)
			assert.Equal(t, !replaced, errors.Is(err, netproto.WrongSecret), "%v", err)
			assert.NotErrorIs(t, err, netproto.TooLate)
			assert.Less(t, time.Since(start), time.Second)
			_, asks := s.count()
			assert.Equal(t, 1, asks)
		})
	}
}

// TestRestartedBusy: if a restarted gateway accepts no 0-RTT, and then is too busy for the repeated Hello, an ask with
// time left is sent again.
func TestRestartedBusy(t *testing.T) {
	s := &script{reply: always(1), hello: refuseSecond(netproto.Busy)}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.retired(t)
		s.stop()
		s.listen(t, s.pair, netproto.ALPN)
		r := mustAsk(t, session, terms.Question{Context: ids(4), Within: time.Minute})
		assert.Equal(t, int32(1), r.Token)
		_, asks := s.count()
		assert.Equal(t, 2, asks, "one before the restart, and one after the refusal")
	})
}

// TestLazy: a lazy client returns at once, and connects without being asked. Connect returns the Welcome or the
// refusal.
func TestLazy(t *testing.T) {
	s := &script{hello: refuseSecond(netproto.WrongSecret)}
	inAir(t, s, func(t *testing.T, a *air) {
		start := time.Now()
		c, _ := s.dial(t, nil)
		assert.Zero(t, time.Since(start))
		settle()
		hellos, _ := s.count()
		assert.Equal(t, 1, hellos)
		assert.Equal(t, 1, c.Stats().Connections)
		w, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "large", w.Model)
		c, _ = s.dial(t, nil)
		w, err = c.Connect(t.Context())
		assert.ErrorIs(t, err, netproto.WrongSecret)
		assert.ErrorContains(t, err, "connect: ")
		assert.Zero(t, w)
	})
}

// deaf is a network without sockets.
type deaf struct{ *air }

func (deaf) listenUDP(netip.AddrPort) (packetConn, error) { return nil, unreachable }

// TestNoSocket: a device that can open no socket is told so.
func TestNoSocket(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		o := s.opt
		o.network = deaf{a}
		_, err := Dial(t.Context(), s.addr, o)
		_, failed := errors.AsType[*ConnectError](err)
		assert.True(t, failed)
		assert.ErrorIs(t, err, syscall.ENETUNREACH)
	})
}

// TestUnwelcome: an ask on a refused connection that is not closed yet is sent on another one, unless that is useless.
// No Bye is sent before a Welcome.
func TestUnwelcome(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		for code, repeat := range map[netproto.Code]bool{netproto.Busy: true, netproto.WrongSecret: false} {
			c, session := s.dial(t, nil)
			require.NoError(t, c.connectOnce(t.Context()))
			l := &link{c: c, qc: c.current.qc, ready: make(chan struct{})}
			l.err = &ConnectError{s.addr, netproto.Refusal{Code: code}}
			assert.False(t, l.helloFailed(), "not yet")
			assert.Zero(t, l.sendBye(1))
			close(l.ready)
			assert.True(t, l.helloFailed())
			assert.Zero(t, l.sendBye(1))
			err := l.exchangeError(t.Context(), l.waitForWelcome(t.Context()))
			assert.ErrorIs(t, err, code)
			assert.Equal(t, repeat, errors.Is(err, errRepeat))
			assert.False(t, l.isUsable())
			_, _, err = session.encodePath(l, ids(3))
			assert.ErrorIs(t, err, code)
			assert.Equal(t, repeat, errors.Is(err, errRepeat))
		}
	})
}

// TestRetiredMeanwhile: a connection that is retired before an ask has registered takes nothing from it: the ask is
// sent on another one.
func TestRetiredMeanwhile(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.retired(t)
		l := &link{c: c, retired: true}
		made := &attempt{done: make(chan struct{}), link: l}
		close(made.done)
		c.attempt = made
		_, up, err := session.sendOnce(t.Context(), ids(3), func(*link, netproto.Path) message {
			t.Error("it encodes the ask")
			return message{}
		})
		assert.Equal(t, errRepeat, err)
		assert.Zero(t, up+l.open)
		c.attempt = nil
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Minute})
		assert.NoError(t, err)
	})
}

// TestDictionary: the dictionary that the gateway chose is used after the Welcome; an unknown one breaks the protocol.
func TestDictionary(t *testing.T) {
	var paths [][]int32
	for i := range 20 {
		p := ids(60 + i)
		for j := range p {
			p[j] = int32((j*j + i*j/7 + i) % 10)
		}
		paths = append(paths, p)
	}
	dict, err := netproto.TrainDictionary(7, 10, paths)
	require.NoError(t, err)
	for chosen, want := range map[uint32]netproto.Coding{0: netproto.Packed, 7: netproto.Trained} {
		t.Run(fmt.Sprint("dictionary ", chosen), func(t *testing.T) {
			s := &script{reply: always(1), dictionary: chosen}
			inAir(t, s, func(t *testing.T, a *air) {
				c, session := s.dial(t, func(o *Options) { o.Dictionary = dict })
				require.NoError(t, c.connectOnce(t.Context()))
				mustAsk(t, session, terms.Question{Context: paths[19], Within: time.Minute})
				delta := s.ask(0).Path.Delta
				assert.Equal(t, want, delta.Coding)
				l, err := c.waitForLink(t.Context())
				require.NoError(t, err)
				_, err = l.codec.Decode(nil, delta)
				require.NoError(t, err)
				s.retire(c)
				settle()
				_, err = l.codec.Decode(nil, delta)
				assert.Equal(t, chosen != 0, err != nil,
					"the codec of the dictionary is closed with the connection: %v", err)
			})
		})
	}
	s := &script{dictionary: 8}
	inAir(t, s, func(t *testing.T, a *air) {
		o := s.opt
		o.Dictionary = dict
		_, err := Dial(t.Context(), s.addr, o)
		assert.ErrorIs(t, err, ErrProtocol)
	})
}

// TestMaxKnown: a session keeps four contexts of the gateway of acknowledged paths.
func TestMaxKnown(t *testing.T) {
	for _, c := range []struct{ context, holds int }{{20, 80}, {30, 120}} {
		t.Run(fmt.Sprint("context of ", c.context), func(t *testing.T) {
			s := &script{reply: always(1), context: c.context}
			inAir(t, s, func(t *testing.T, a *air) {
				client, _ := s.dial(t, nil)
				require.NoError(t, client.connectOnce(t.Context()))
				session, err := client.NewSession(t.Context())
				require.NoError(t, err)
				other := ids(c.holds - 20 + 1)
				other[0] = 9
				for _, path := range [][]int32{ids(20), other[:len(other)-1], ids(20), other, ids(20)} {
					mustAsk(t, session, terms.Question{Context: path, Within: time.Minute})
				}
				assert.Equal(t, []int{0, 0, 20, c.holds - 20, 0}, s.bases())
				assert.Equal(t, 20, session.known.Tokens(), "in both sets")
				assert.Equal(t, 20, session.sent.Tokens(), "in both sets")
			})
		})
	}
}

// TestAttempted: each attempt is reported once.
func TestAttempted(t *testing.T) {
	var seen attempts
	s := &script{reply: always(1), hello: func(conn int) []byte {
		if conn <= 2 {
			return refuse(netproto.Busy)
		}
		return nil
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
		mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
		settle()
		all := seen.get()
		require.Len(t, all, 3)
		for _, err := range all[:2] {
			failed, ok := errors.AsType[*ConnectError](err)
			require.True(t, ok)
			assert.Equal(t, s.addr, failed.Addr)
			assert.ErrorIs(t, failed, netproto.Busy)
			assert.EqualError(t, failed, "no connection to the gateway at 10.0.0.1:4433: refused: the gateway is busy")
		}
		assert.NoError(t, all[2])
	})
}

// TestQUICConfig: each limit of the options is that of QUIC which it is for, and a gateway cannot make a device store
// much.
func TestQUICConfig(t *testing.T) {
	c := &Client{opt: Options{ConnectTimeout: 3 * time.Second}}
	q := c.quicConfig()
	assert.Equal(t, 3*time.Second, q.HandshakeIdleTimeout)
	assert.Equal(t, 30*time.Second, q.MaxIdleTimeout)
	assert.Equal(t, 10*time.Second, q.KeepAlivePeriod)
	assert.LessOrEqual(t, q.InitialStreamReceiveWindow, uint64(16<<10))
	assert.LessOrEqual(t, q.InitialConnectionReceiveWindow, uint64(64<<10))
	assert.LessOrEqual(t, q.MaxStreamReceiveWindow, uint64(256<<10))
	assert.LessOrEqual(t, q.MaxConnectionReceiveWindow, uint64(1<<20))
	for _, window := range []uint64{q.InitialStreamReceiveWindow, q.InitialConnectionReceiveWindow,
		q.MaxStreamReceiveWindow, q.MaxConnectionReceiveWindow} {
		assert.NotZero(t, window, "the default of QUIC is larger")
	}
}

// refusedConnection is a cause of a failed connection.
type refusedConnection struct {
	name                   string
	err                    error
	configuration, lasting bool
}

// alert is an alert of TLS: from the gateway if remote, else from the client.
func alert(number int, remote bool) error {
	return &quic.TransportError{ErrorCode: quic.TransportErrorCode(0x100 + number), Remote: remote}
}

// closedWith is the error of a connection that the gateway closed, if remote, or else the client.
func closedWith(code netproto.Code, remote bool) error {
	return convertError(&quic.ApplicationError{ErrorCode: quic.ApplicationErrorCode(code), Remote: remote})
}

var (
	errSystem    = &os.SyscallError{Syscall: "read", Err: syscall.ECONNREFUSED}
	errUntrusted = &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
)

func refusedConnections() []refusedConnection {
	return []refusedConnection{
		{"another pin", &PinError{}, true, true},
		{"an untrusted certificate", errUntrusted, true, true},
		{"no such name", &net.DNSError{IsNotFound: true}, true, true},
		{"no such name for now", &net.DNSError{IsNotFound: true, IsTemporary: true}, false, false},
		{"a temporary error of DNS", &net.DNSError{IsTemporary: true}, false, false},
		{"a timeout of DNS", &net.DNSError{IsTimeout: true}, false, false},
		{"no protocol in common", alert(120, true), true, true},
		{"no protocol in common for the client", alert(120, false), false, false},
		{"another alert", alert(121, true), false, false},
		{"a closed port", errSystem, false, false},
		{"WrongVersion", netproto.Refusal{Code: netproto.WrongVersion}, true, true},
		{"WrongTokenizer", netproto.Refusal{Code: netproto.WrongTokenizer}, true, true},
		{"WrongSecret", netproto.Refusal{Code: netproto.WrongSecret}, true, true},
		{"Malformed", netproto.Refusal{Code: netproto.Malformed}, false, true},
		{"TooLarge", netproto.Refusal{Code: netproto.TooLarge}, false, true},
		{"Busy", netproto.Refusal{Code: netproto.Busy}, false, false},
		{"TooFast", netproto.Refusal{Code: netproto.TooFast}, false, false},
		{"Draining", netproto.Refusal{Code: netproto.Draining}, false, false},
		{"closed with WrongSecret", closedWith(netproto.WrongSecret, true), true, true},
		{"closed by the client with WrongSecret", closedWith(netproto.WrongSecret, false), false, false},
		{"closed with Draining", closedWith(netproto.Draining, true), false, false},
		{"a closed client", ErrClosed, false, true},
		{"a broken protocol", fmt.Errorf("%w: no", ErrProtocol), false, true},
		{"no route", errors.New("no route"), false, false},
	}
}

// TestReasons: configuration errors, temporary errors and lasting errors are distinguished.
func TestReasons(t *testing.T) {
	for _, c := range refusedConnections() {
		t.Run(c.name, func(t *testing.T) {
			err := &ConnectError{"g:1", fmt.Errorf("around: %w", c.err)}
			assert.Equal(t, c.configuration, err.Configuration())
			assert.Equal(t, c.lasting, isLastingError(err))
			assert.ErrorIs(t, err, ErrNoReply)
		})
	}
	for err, want := range map[error]bool{
		errSystem: true, noReplyError("g:1", time.Now()): true, &net.DNSError{IsNotFound: true}: true,
		netproto.Refusal{Code: netproto.Busy}: false, closedWith(netproto.Draining, true): false,
	} {
		assert.Equal(t, want, (&ConnectError{"g:1", fmt.Errorf("around: %w", err)}).Unreachable(), "%v", err)
	}
}

// TestConvertError: errors of the system, of certificates and the codes of the protocol are taken out of the errors of
// QUIC.
func TestConvertError(t *testing.T) {
	assert.Equal(t, alert(1, true), convertError(alert(1, true)), "unchanged")
	assert.Equal(t, syscall.ECONNREFUSED, convertError(&net.OpError{Err: errSystem}))
	assert.Equal(t, errUntrusted, convertError(fmt.Errorf("CRYPTO: %w", errUntrusted)))
	for code, want := range map[uint64]netproto.Code{
		0: netproto.NoReason, 7: netproto.Busy, 255: 255, 256: netproto.Failed, 1 << 40: netproto.Failed,
	} {
		assert.ErrorIs(t, convertError(&quic.StreamError{ErrorCode: quic.StreamErrorCode(code), Remote: true}), want)
		assert.ErrorIs(t,
			convertError(&quic.ApplicationError{ErrorCode: quic.ApplicationErrorCode(code), Remote: true}), want)
	}
	_, own := errors.AsType[netproto.Code](convertError(&quic.StreamError{ErrorCode: 8}))
	assert.False(t, own, "a stream that the client reset")
}

// TestTimeoutOrClosed: a timeout, and a connection that the client closed, are recognized.
func TestTimeoutOrClosed(t *testing.T) {
	assert.True(t, isTimeout(&quic.IdleTimeoutError{}))
	assert.True(t, isTimeout(fmt.Errorf("around: %w", os.ErrDeadlineExceeded)))
	assert.False(t, isTimeout(&net.DNSError{}))
	assert.False(t, isTimeout(errors.New("none")))
	assert.True(t, isClosedLocally(&quic.ApplicationError{}))
	assert.False(t, isClosedLocally(&quic.ApplicationError{Remote: true}))
	assert.False(t, isClosedLocally(errors.New("none")))
}

// recorder is an empty cache that records its keys.
type recorder struct {
	one
	keys []string
}

func (r *recorder) Get(key string) (*tls.ClientSessionState, bool) {
	r.keys = append(r.keys, key)
	return nil, false
}

// TestTicketKey: a ticket is for one gateway at one address with one pin.
func TestTicketKey(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		var r recorder
		c, _ := s.dial(t, func(o *Options) { o.Tickets, o.ServerName = &r, "a.name" })
		require.NoError(t, c.connectOnce(t.Context()))
		assert.Equal(t, []string{s.opt.Pin.String() + " a.name 10.0.0.1:4433"}, r.keys)
	})
}

// TestReasonPrintable: what a peer wrote in an error of QUIC or of its certificate cannot control the terminal, and the
// error is still what it was.
func TestReasonPrintable(t *testing.T) {
	const evil = "\x1b]0;title\a\u009b2J\r\n\u202e"
	name := pkix.Name{CommonName: evil, Organization: []string{evil}}
	certificate := &x509.Certificate{Subject: name, Issuer: name, DNSNames: []string{evil}}
	for _, err := range []error{
		&quic.TransportError{Remote: true, ErrorCode: quic.InternalError, ErrorMessage: evil},
		&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: evil},
		&quic.TransportError{Remote: true, ErrorCode: 0x100 + 42, ErrorMessage: evil},
		&quic.ApplicationError{Remote: true, ErrorCode: 3, ErrorMessage: evil},
		&tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{certificate},
			Err: x509.HostnameError{Certificate: certificate, Host: "gateway"}},
		&tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{certificate},
			Err: x509.UnknownAuthorityError{Cert: certificate}},
		&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: certificate, Detail: evil}},
		fmt.Errorf("handshake: %w", errors.New(evil)),
	} {
		got := convertError(err)
		for _, r := range got.Error() {
			require.True(t, unicode.IsPrint(r), "%T: %q", err, got.Error())
		}
		if _, own := err.(*quic.TransportError); !own {
			assert.ErrorIs(t, got, err)
		}
	}
	plain := &quic.ApplicationError{Remote: true, ErrorCode: 3, ErrorMessage: "busy"}
	assert.Contains(t, convertError(plain).Error(), "busy")
}
