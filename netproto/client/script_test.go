package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// script is a gateway that behaves as set by a test.
type script struct {
	hello func(conn int) []byte                 // answer to the Hello of the conn-th connection; nil: a Welcome
	reply func(conn int, a netproto.Ask) []byte // answer to an ask; empty: the connection is closed
	early []byte                                // answer to an ask before it is read
	sync  func(netproto.Sync) []byte            // answer to a sync; nil: an Ack
	open  func(*quic.Conn)                      // handles each connection at its start
	raw   func(*quic.Stream)                    // handles the stream of an ask at its start
	hold  func(*quic.Stream)                    // handles the stream of an ask after the ask is read
	mute  func(conn int) bool                   // the conn-th Hello and all later messages are not answered

	broken     func(n int) bool // the handshake of the n-th connection is aborted
	ahead      int              // in the Welcome
	no0RTT     bool
	streams    int64  // that a client may open; 0: quic-go's default
	dictionary uint32 // in the Welcome
	context    int    // limit in the Welcome; 0 means 1000
	air        *air   // network with it, at gatewayAt; nil: the real network

	addr string
	opt  Options // for its clients
	pair tls.Certificate
	stop func()

	mu       sync.Mutex
	hellos   int
	said     []netproto.Hello
	names    []string // requested server names
	ended    []error  // errors that ended connections
	resumed  []bool   // connections with a ticket
	asks     []netproto.Ask
	syncs    []netproto.Sync
	byes     []uint32
	controls []*quic.Stream
}

// start serves until stop or the end of the test.
func (s *script) start(t *testing.T) *script {
	t.Helper()
	certificate, key, err := gateway.NewCertificate("localhost")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	s.pair = pair
	s.listen(t, pair, netproto.ALPN)
	s.opt = Options{Identity: netproto.Identity{Vocab: 10}, Pin: sha256.Sum256(pair.Certificate[0])}
	if s.air != nil {
		s.opt.network = s.air
	}
	return s
}

func (s *script) listen(t *testing.T, pair tls.Certificate, protocol string) {
	t.Helper()
	var socket net.PacketConn
	var err error
	if s.air != nil {
		socket = s.air.conn(gatewayAt)
	} else {
		socket, err = net.ListenPacket("udp4", "127.0.0.1:0")
		require.NoError(t, err)
	}
	transport := &quic.Transport{Conn: socket}
	keys := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}}
	keys.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.names = append(s.names, hello.ServerName)
		const preSharedKey = 41
		s.resumed = append(s.resumed, slices.Contains(hello.Extensions, preSharedKey))
		if s.broken != nil && s.broken(len(s.names)) {
			return nil, errors.New("broken off")
		}
		return nil, nil
	}
	l, err := transport.ListenEarly(keys, &quic.Config{Allow0RTT: !s.no0RTT, MaxIdleTimeout: 5 * time.Minute,
		MaxIncomingStreams: s.streams})
	require.NoError(t, err)
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	s.stop = sync.OnceFunc(func() {
		cancel()
		transport.Close()
		socket.Close()
		tasks.Wait()
	})
	t.Cleanup(s.stop)
	tasks.Go(func() {
		for {
			qc, err := l.Accept(ctx)
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer context.AfterFunc(ctx, func() { qc.CloseWithError(0, "") })()
				s.serve(ctx, qc, &tasks)
			})
		}
	})
}

// serve handles a connection: its Hello, and then each of its streams.
func (s *script) serve(ctx context.Context, qc *quic.Conn, tasks *sync.WaitGroup) {
	if s.open != nil {
		s.open(qc)
	}
	control, err := qc.AcceptStream(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.hellos++
	conn := s.hellos
	s.controls = append(s.controls, control)
	s.mu.Unlock()
	context.AfterFunc(qc.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, context.Cause(qc.Context()))
	})
	if !s.welcome(conn, control) {
		return
	}
	tasks.Go(func() { s.farewells(control) })
	for {
		stream, err := qc.AcceptStream(ctx)
		if err != nil {
			return
		}
		tasks.Go(func() { s.answer(conn, qc, stream) })
	}
}

// welcome reads the Hello of a connection and reports whether it was answered with a Welcome.
func (s *script) welcome(conn int, control *quic.Stream) bool {
	_, b, err := netproto.ReadFrame(control, netproto.MaxMessage)
	if err != nil || s.mute != nil && s.mute(conn) {
		return false
	}
	said, _, err := netproto.ParseHello(b)
	if err != nil {
		return false
	}
	s.mu.Lock()
	s.said = append(s.said, said)
	s.mu.Unlock()
	if s.hello != nil {
		if b := s.hello(conn); b != nil {
			control.Write(b)
			return false
		}
	}
	control.Write(netproto.Welcome{Model: "large", Context: cmp.Or(s.context, 1000), Dictionary: s.dictionary,
		Ahead: s.ahead}.Append(nil))
	return true
}

// answer reads an ask or a sync from its stream and answers it.
func (s *script) answer(conn int, qc *quic.Conn, stream *quic.Stream) {
	if s.raw != nil {
		s.raw(stream)
		return
	}
	if s.early != nil {
		stream.CancelRead(1)
		stream.Write(s.early)
		stream.Close()
		return
	}
	kind, b, err := netproto.ReadFrame(stream, netproto.MaxMessage)
	if err != nil {
		return
	}
	if kind == netproto.KindSync {
		s.answerSync(stream, b)
		return
	}
	ask, _, err := netproto.ParseAsk(b)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asks = append(s.asks, ask)
	s.mu.Unlock()
	if s.hold != nil {
		s.hold(stream)
	} else if b := s.reply(conn, ask); b != nil {
		stream.Write(b)
		stream.Close()
	} else {
		qc.CloseWithError(quic.ApplicationErrorCode(netproto.NoReason), "")
	}
}

// farewells records the sessions that end.
func (s *script) farewells(control *quic.Stream) {
	for {
		_, b, err := netproto.ReadFrame(control, netproto.MaxMessage)
		if err != nil {
			return
		}
		if bye, _, err := netproto.ParseBye(b); err == nil {
			s.mu.Lock()
			s.byes = append(s.byes, bye.Session)
			s.mu.Unlock()
		}
	}
}

func (s *script) answerSync(stream *quic.Stream, b []byte) {
	sync, _, err := netproto.ParseSync(b)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.syncs = append(s.syncs, sync)
	s.mu.Unlock()
	answer := netproto.Ack{Position: sync.Path.Position()}.Append(nil)
	if s.sync != nil {
		answer = s.sync(sync)
	}
	stream.Write(answer)
	stream.Close()
}

// count returns the number of received Hellos and asks.
func (s *script) count() (hellos, asks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hellos, len(s.asks)
}

// ask returns the i-th received ask.
func (s *script) ask(i int) netproto.Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[i]
}

// dial returns a client that does not wait until it is connected, and begins a session.
func (s *script) dial(t *testing.T, change func(*Options)) (*Client, *Session) {
	t.Helper()
	o := s.opt
	o.Lazy = true
	if change != nil {
		change(&o)
	}
	c, err := Dial(t.Context(), s.addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	session, err := c.NewSession(t.Context())
	require.NoError(t, err)
	return c, session
}

// retire takes the connection of a client out of use.
func (s *script) retire(c *Client) {
	c.mu.Lock()
	l := c.current
	c.mu.Unlock()
	if l != nil {
		c.retireLink(l)
	}
}

// mustAsk is Ask without an error.
func mustAsk(t testing.TB, s *Session, q terms.Question) terms.Answer {
	t.Helper()
	a, err := s.Ask(t.Context(), q)
	require.NoError(t, err)
	return a
}

// refuseSecond refuses the Hello of the second connection.
func refuseSecond(code netproto.Code) func(conn int) []byte {
	return func(conn int) []byte {
		if conn == 2 {
			return refuse(code)
		}
		return nil
	}
}

// always answers with a token.
func always(token int32) func(int, netproto.Ask) []byte {
	return func(int, netproto.Ask) []byte { return netproto.Answer{Reply: terms.Reply{Token: token}}.Append(nil) }
}

// refuse returns the frame of a refusal.
func refuse(code netproto.Code) []byte { return netproto.Refusal{Code: code}.Append(nil) }

// ids returns the path 0, 1, … of n tokens of a vocabulary of ten.
func ids(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i % 10)
	}
	return p
}

const aWhile = 20 * time.Second // for events that are due at once
