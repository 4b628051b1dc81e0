package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// open connects to the first address of the gateway that answers, and returns when the connection can be used: when the
// gateway said Welcome, or at once where 0-RTT is possible.
func (c *Client) open() (*link, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.ConnectTimeout)
	defer cancel()
	addresses, err := resolve(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, to := range addresses {
		l, err := c.openTo(ctx, to, len(addresses)-i)
		if err == nil {
			return l, nil
		}
		if lasting(err) {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// openTo connects to one address, in a fair part of the time that is left for several.
func (c *Client) openTo(ctx context.Context, to netip.AddrPort, of int) (*link, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(of))
		defer cancel()
	}
	s, err := newSocket(to)
	if err != nil {
		return nil, err
	}
	qc, err := s.transport.DialEarly(ctx, net.UDPAddrFromAddrPort(to), c.opt.tlsConfig(c.host, gatedTickets{c.tickets, s.gate}), c.quicConfig())
	if err != nil {
		c.tickets.refused(err)
		return nil, errors.Join(reason(err), s.close())
	}
	l := &link{c: c, qc: qc, to: to, sockets: []*socket{s}, ready: make(chan struct{})}
	l.early = !handshakeDone(qc)
	err = l.hello(l.early)
	s.gate.open()
	if err != nil {
		return nil, errors.Join(reason(err), l.close(netproto.NoReason))
	}
	c.mu.Lock()
	c.links[l] = struct{}{}
	c.mu.Unlock()
	c.tasks.Go(l.run)
	if l.early {
		return l, nil
	}
	if err := l.wait(ctx); err != nil {
		l.retire()
		return nil, err
	}
	return l, nil
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
		HandshakeIdleTimeout: c.opt.ConnectTimeout, MaxIdleTimeout: c.opt.IdleTimeout, KeepAlivePeriod: max(c.opt.KeepAlive, 0),
		MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		InitialStreamReceiveWindow: 16 << 10, MaxStreamReceiveWindow: 256 << 10,
		InitialConnectionReceiveWindow: 64 << 10, MaxConnectionReceiveWindow: 1 << 20,
	}
}

// forget drops a connection that is over.
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
	if w.Dictionary == 0 {
		return c.plain, nil
	}
	for _, d := range c.opt.Dictionaries {
		if d.ID == w.Dictionary {
			return netproto.NewCodec(c.opt.Identity.Vocab, d)
		}
	}
	return nil, ErrProtocol
}
