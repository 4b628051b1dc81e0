package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"
)

// socket is a UDP socket with what QUIC keeps for it.
type socket struct {
	udp       *net.UDPConn
	transport *quic.Transport
	gate      *gate
	source    netip.Addr // where packets to the gateway start; the socket itself is bound to no address
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
	g := &gate{}
	return &socket{udp: udp, transport: &quic.Transport{Conn: gatedConn{udp, udp, g}}, gate: g, source: source}, nil
}

func (s *socket) close() error {
	s.gate.open()
	return errors.Join(s.transport.Close(), s.udp.Close())
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

// resolve returns the addresses behind host:port, those of IPv4 first.
func resolve(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var four, six []netip.AddrPort
	for _, ip := range ips {
		ip = ip.Unmap()
		if to := netip.AddrPortFrom(ip, uint16(port)); ip.Is4() {
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
