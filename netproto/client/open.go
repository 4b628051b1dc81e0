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

// open connects to the first address of the gateway that answers. It returns when the connection can be used: after the
// Welcome, or at once if 0-RTT is possible.
func (c *Client) open() (*link, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.ConnectTimeout)
	defer cancel()
	addresses, err := resolve(ctx, c.opt.network, c.host, c.port)
	if err != nil {
		return nil, c.unresolved(err)
	}
	var failed error
	for i, to := range addresses {
		l, err := c.openTo(ctx, to, len(addresses)-i)
		if err == nil {
			return l, nil
		}
		if lasting(err) {
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

// unresolved returns the error of a lookup. If the host was found before, the error is temporary, as when the device
// has no network.
func (c *Client) unresolved(err error) error {
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

// openTo connects to one address. It uses an equal share of the remaining time if there are several.
func (c *Client) openTo(ctx context.Context, to netip.AddrPort, of int) (*link, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(of))
		defer cancel()
	}
	start := time.Now()
	s, err := newSocket(c.opt.network, to)
	if err != nil {
		return nil, c.at(to, reason(err))
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c.tasks.Go(func() { s.watch(ctx, to, func(err error) { giveUp(c.at(to, err)) }) })
	qc, err := s.transport.DialEarly(ctx, net.UDPAddrFromAddrPort(to),
		c.opt.tlsConfig(c.host, gatedTickets{c.tickets, s.conn.open}), c.quicConfig())
	if err != nil {
		c.tickets.refused(err)
		_ = s.close() // the first error is more useful
		return nil, s.slow(reason(err), to, start)
	}
	l := &link{c: c, qc: qc, to: to, socket: s, ready: make(chan struct{})}
	l.early = !handshakeDone(qc)
	err = l.hello(l.early)
	s.conn.open()
	if err != nil {
		_ = l.close(netproto.NoReason)
		return nil, s.slow(reason(err), to, start)
	}
	if !c.register(l) {
		return nil, errors.Join(ErrClosed, l.close(netproto.NoReason))
	}
	c.tasks.Go(l.run)
	if l.early {
		return l, nil
	}
	if err := l.wait(ctx); err != nil {
		l.retire()
		return nil, s.slow(err, to, start)
	}
	return l, nil
}

// register makes Close close a connection. It returns false if Close has begun.
func (c *Client) register(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.links[l] = struct{}{}
	}
	return !c.closed
}

// at adds the address to an error if there are several.
func (c *Client) at(to netip.AddrPort, err error) error {
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

// forget removes a connection that has ended.
func (c *Client) forget(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
	if c.current == l {
		c.current = nil
	}
}

// codecFor returns the codec of the dictionary that the gateway chose.
func (c *Client) codecFor(w netproto.Welcome) (*netproto.Codec, error) {
	switch w.Dictionary {
	case 0:
		return c.plain, nil
	case c.opt.Dictionary.ID:
		return netproto.NewCodec(c.opt.Identity.Vocab, c.opt.Dictionary)
	}
	return nil, ErrProtocol
}
