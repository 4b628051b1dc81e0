// Package gateway is the QUIC server in front of the large model. It receives asks of many edges, stores their
// contexts, and limits the asks of each. An upstream with a limited number of places is shared fairly between devices.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Gateway serves one upstream. It may serve several sockets at once, which share the stored sessions.
type Gateway struct {
	opt       Options
	up        Upstream
	info      Info
	tls       *tls.Config
	cert      atomic.Pointer[tls.Certificate]
	resetKey  quic.StatelessResetKey
	tokenKey  *quic.TokenGeneratorKey    // of address validation; nil: each Serve draws one
	codecs    map[uint32]*netproto.Codec // by dictionary; 0 is none
	clients   *clients
	sessions  *sessions
	admission *admission
	decoder   Decoder // nil: the upstream is none
	limiter   *connectionLimiter
	pending   atomic.Int64 // connections before the Hello
	serving   atomic.Int64 // sockets that accept clients
}

// New returns a gateway that is ready to serve.
func New(opt Options, up Upstream) (*Gateway, error) {
	info := up.Info()
	opt, err := opt.withDefaults(info)
	if err != nil {
		return nil, err
	}
	g := &Gateway{opt: opt, up: up, info: info, clients: newClients(opt), limiter: newConnectionLimiter(opt),
		codecs: map[uint32]*netproto.Codec{}}
	if err := g.initCryptoKeys(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	for _, d := range []netproto.Dictionary{{}, opt.Dictionary} {
		if g.codecs[d.ID], err = netproto.NewCodec(info.Identity.Vocab, d); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	g.sessions = newSessions(opt, func(s *session) {
		up.Forget(s.id)
		e := Event{Kind: Forgotten, Session: s.id}
		e.Client, e.Device = s.key.device.eventNames()
		g.emitEvent(e)
	})
	g.admission = newAdmission(opt, info.Parallel)
	if d, ok := up.(Decoder); ok {
		g.decoder = d
	}
	return g, nil
}

func (g *Gateway) emitEvent(e Event) {
	if g.opt.Events != nil {
		g.opt.Events(e)
	}
}

// keepAlive is the time between packets on a quiet connection that the device has to acknowledge, a little less than
// that of the device's own. What was sent to an address that the device has left is only sent again when something is
// acknowledged or the probe timer expires, which by then takes minutes.
const keepAlive = 8 * time.Second

func (g *Gateway) quicConfig() *quic.Config {
	return &quic.Config{
		Allow0RTT:                      true,
		HandshakeIdleTimeout:           g.opt.MessageTimeout,
		MaxIdleTimeout:                 g.opt.IdleTimeout,
		KeepAlivePeriod:                keepAlive,
		MaxIncomingStreams:             int64(g.opt.derived.MaxStreams) + 1, // the control stream
		MaxIncomingUniStreams:          -1,
		InitialStreamReceiveWindow:     16 << 10,
		MaxStreamReceiveWindow:         256 << 10,
		InitialConnectionReceiveWindow: 64 << 10,
		MaxConnectionReceiveWindow:     1 << 20,
		Tracer:                         qlog.DefaultConnectionTracer,
	}
}

// Serve serves clients on a socket until ctx ends. Then it accepts no new asks, waits for the open ones, at most a
// sixth of AskTimeout, and closes the connections. The socket stays open: its owner closes it. The error is nil after
// such an end.
func (g *Gateway) Serve(ctx context.Context, socket net.PacketConn) error {
	transport := &quic.Transport{Conn: socket, StatelessResetKey: &g.resetKey, TokenGeneratorKey: g.tokenKey,
		VerifySourceAddress: func(net.Addr) bool {
			return g.pending.Load() > int64(g.opt.MaxConns/4) // then new clients must validate their address first
		}}
	listener, err := transport.ListenEarly(g.tls, g.quicConfig())
	if err != nil {
		return errors.Join(fmt.Errorf("serve: %w", err), transport.Close())
	}
	open := &connections{all: map[*connection]struct{}{}}
	tidy, stopTidy := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { g.expirePeriodically(tidy) })
	g.serving.Add(1)
	err = g.acceptConnections(ctx, listener, open)
	g.serving.Add(-1)
	err = errors.Join(err, closeListener(listener))
	g.drainConnections(open)
	stopTidy()
	background.Wait()
	g.sessions.expireIdle(0) // the upstream may be used afterwards
	return errors.Join(err, transport.Close())
}

func (g *Gateway) drainConnections(open *connections) {
	began := time.Now()
	g.emitEvent(Event{Kind: Draining, Conns: open.forEachConnection(func(*connection) {})})
	closed := open.drainAll(g.opt.derived.DrainTimeout)
	g.emitEvent(Event{Kind: Drained, Lasted: time.Since(began), Conns: closed})
}

// closeListener stops accepting connections, and closes those that were not accepted yet.
func closeListener(l *quic.EarlyListener) error {
	if err := l.Close(); err != nil && !errors.Is(err, quic.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	for {
		qc, err := l.Accept(context.Background()) // never blocks now
		if err != nil {
			return nil
		}
		_ = qc.CloseWithError(quic.ApplicationErrorCode(netproto.Draining), "") // it has hardly begun
	}
}

func (g *Gateway) acceptConnections(ctx context.Context, listener *quic.EarlyListener, open *connections) error {
	for {
		qc, err := listener.Accept(ctx)
		if ctx.Err() != nil {
			if err == nil {
				_ = qc.CloseWithError(quic.ApplicationErrorCode(netproto.Draining), "") // it has hardly begun
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		g.pending.Add(1)
		open.startServing(g.newConnection(qc))
	}
}

func (g *Gateway) expirePeriodically(ctx context.Context) {
	tick := time.NewTicker(max(g.opt.derived.SessionIdle/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.sessions.expireIdle(g.opt.derived.SessionIdle)
			g.clients.removeDisconnected()
		}
	}
}
