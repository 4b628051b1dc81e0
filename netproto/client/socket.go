package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// socket is a UDP socket with what QUIC keeps for it.
type socket struct {
	udp       *net.UDPConn
	transport *quic.Transport
	gate      *gate
	source    netip.Addr   // where packets to the gateway start; the socket itself is bound to no address
	heard     *atomic.Bool // something has been received
}

// newSocket opens a socket for packets to a gateway.
func newSocket(to netip.AddrPort) (*socket, error) {
	source, err := sourceOf(to)
	if err != nil {
		return nil, err
	}
	network := "udp6"
	if to.Addr().Is4() {
		network = "udp4"
	}
	udp, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err
	}
	g, heard := &gate{}, new(atomic.Bool)
	transport := &quic.Transport{Conn: gatedConn{udp, udp, g, heard}}
	return &socket{udp: udp, transport: transport, gate: g, source: source, heard: heard}, nil
}

func (s *socket) close() error {
	s.gate.open()
	return errors.Join(s.transport.Close(), s.udp.Close())
}

// watch calls unreachable when the network says that packets cannot get to an address, until ctx ends or the gateway is
// heard. The network's message (ICMP) reaches only a socket that is bound to the address, which the one of QUIC is not.
// So empty packets go out from another one, but only if the gateway has not been heard within a moment.
func (s *socket) watch(ctx context.Context, to netip.AddrPort, unreachable func(error)) {
	const moment = 50 * time.Millisecond
	for pause := moment; ; pause *= 2 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(moment):
		}
		if s.heard.Load() {
			return
		}
		if err := probe(ctx, to, pause); err != nil && ctx.Err() == nil {
			unreachable(reason(err))
			return
		}
	}
}

// probe sends an empty packet, and returns the error that the network answers with within a pause, or nil.
func probe(ctx context.Context, to netip.AddrPort, pause time.Duration) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(nil); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(pause)) // it never errs
	if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
		return err
	}
	return nil
}

// slow says what an error means that came because something took too long, or because nobody waited any more; other
// errors are returned as they are.
func (s *socket) slow(err error, to netip.AddrPort, since time.Time) error {
	switch {
	case !isTimeout(err) && !hungUp(err):
		return err
	case s.heard.Load():
		return fmt.Errorf("%s replies, but did not welcome us within %v", to, time.Since(since).Round(time.Millisecond))
	}
	return noReply(to.String(), since)
}

// sourceOf asks the system for the local address that packets to an address start from. Nothing is sent.
func sourceOf(to netip.AddrPort) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), nil
}

// resolve returns the addresses of a host, those of IPv4 first.
func resolve(ctx context.Context, host string, port uint16) ([]netip.AddrPort, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var four, six []netip.AddrPort
	for _, ip := range ips {
		ip = ip.Unmap()
		if to := netip.AddrPortFrom(ip, port); ip.Is4() {
			four = append(four, to)
		} else {
			six = append(six, to)
		}
	}
	all := append(four, six...)
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return all, nil
}

// splitAddress splits host:port, where port may also be the name of a service.
func splitAddress(addr string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := net.LookupPort("udp", service)
	if err == nil && (n == 0 || host == "") {
		err = errors.New("a gateway is given as host:port, with a port of 1 to 65535")
	}
	if err != nil {
		return "", 0, fmt.Errorf("address %s: %w", addr, err)
	}
	return host, uint16(n), nil
}
