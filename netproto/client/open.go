package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// dialGateway connects to the first address of the gateway that answers. It returns when the connection can be used:
// after the Welcome, or at once if 0-RTT is possible.
func (c *Client) dialGateway() (*link, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.ConnectTimeout)
	defer cancel()
	addresses, err := resolveHost(ctx, c.opt.network, c.host, c.port)
	if err != nil {
		return nil, c.lookupError(err)
	}
	var failed error
	for i, to := range addresses {
		l, err := c.dialAddress(ctx, to, len(addresses)-i)
		if err == nil {
			return l, nil
		}
		if isLastingError(err) {
			return nil, err
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return nil, failed
}

// lookupError returns the error of a lookup. If the host was found before, the error is temporary, as when the device
// has no network.
func (c *Client) lookupError(err error) error {
	c.mu.Lock()
	before := c.stats.Connections > 0
	c.mu.Unlock()
	lookup, ok := errors.AsType[*net.DNSError](err)
	if !ok || !before {
		return err
	}
	temporary := *lookup
	temporary.IsTemporary = true
	return &temporary
}

// dialAddress connects to one address. It uses an equal share of the remaining time if there are several.
func (c *Client) dialAddress(ctx context.Context, to netip.AddrPort, of int) (*link, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(of))
		defer cancel()
	}
	start := time.Now()
	s, err := newSocket(c.opt.network, to)
	if err != nil {
		return nil, c.wrapWithAddress(to, convertError(err))
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c.tasks.Go(func() { s.watchReachability(ctx, to, func(err error) { giveUp(c.wrapWithAddress(to, err)) }) })
	qc, err := s.transport.DialEarly(ctx, net.UDPAddrFromAddrPort(to),
		c.opt.tlsConfig(c.host, gatedTickets{c.tickets, s.conn.open}), c.quicConfig())
	if err != nil {
		c.tickets.dropRefusedTicket(err)
		_ = s.close() // the first error is more useful
		return nil, s.explainTimeout(convertError(err), to, start)
	}
	l := &link{c: c, qc: qc, to: to, socket: s, ready: make(chan struct{})}
	l.early = !handshakeDone(qc)
	err = l.sendHello(l.early)
	s.conn.open()
	if err != nil {
		_ = l.closeWithSocket(netproto.NoReason)
		return nil, s.explainTimeout(convertError(err), to, start)
	}
	if !c.registerLink(l) {
		return nil, errors.Join(ErrClosed, l.closeWithSocket(netproto.NoReason))
	}
	c.tasks.Go(l.readUntilClosed)
	if l.early {
		return l, nil
	}
	if err := l.waitForWelcome(ctx); err != nil {
		l.closeWhenIdle()
		return nil, s.explainTimeout(err, to, start)
	}
	return l, nil
}

// registerLink makes Close close a connection. It returns false if Close has begun.
func (c *Client) registerLink(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.links[l] = struct{}{}
	}
	return !c.closed
}

// wrapWithAddress adds the address to an error if there are several.
func (c *Client) wrapWithAddress(to netip.AddrPort, err error) error {
	if to.String() == c.addr {
		return err
	}
	return fmt.Errorf("%s: %w", to, err)
}

func handshakeDone(qc *quic.Conn) bool {
	select {
	case <-qc.HandshakeComplete():
		return true
	default:
		return false
	}
}

func (c *Client) quicConfig() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: c.opt.ConnectTimeout, MaxIdleTimeout: idleTimeout,
		KeepAlivePeriod: keepAlive, MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		InitialStreamReceiveWindow: 16 << 10, MaxStreamReceiveWindow: 256 << 10,
		InitialConnectionReceiveWindow: 64 << 10, MaxConnectionReceiveWindow: 1 << 20,
		Tracer: qlog.DefaultConnectionTracer,
	}
}

func (c *Client) removeLink(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
	if c.current == l {
		c.current = nil
	}
}

func (c *Client) codecFor(w netproto.Welcome) (*netproto.Codec, error) {
	switch w.Dictionary {
	case 0:
		return c.plain, nil
	case c.opt.Dictionary.ID:
		return netproto.NewCodec(c.opt.Identity.Vocab, c.opt.Dictionary)
	}
	return nil, ErrProtocol
}
