package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
)

// network is the part of the system's network that a client uses.
type network interface {
	// lookupHost returns the addresses of a host.
	lookupHost(ctx context.Context, host string) ([]netip.Addr, error)
	// listenUDP opens a socket for packets to an address. It is bound to no address: when the device changes its
	// network, the system sends from the new address, and the gateway validates it and answers there.
	listenUDP(to netip.AddrPort) (packetConn, error)
	// probeAddress sends an empty packet, and returns the error that the network reports within the pause, or nil.
	probeAddress(ctx context.Context, to netip.AddrPort, pause time.Duration) error
}

// packetConn is a UDP socket.
type packetConn interface {
	net.PacketConn
	SetReadBuffer(int) error
	SetWriteBuffer(int) error
}

// socket is a UDP socket with its QUIC transport.
type socket struct {
	network   network
	conn      *gatedConn
	transport *quic.Transport
	close     func() error // may be called several times
}

func newSocket(n network, to netip.AddrPort) (*socket, error) {
	udp, err := n.listenUDP(to)
	if err != nil {
		return nil, err
	}
	s := &socket{network: n, conn: newGatedConn(udp)}
	s.transport = &quic.Transport{Conn: s.conn}
	s.close = sync.OnceValue(func() error {
		s.conn.open()
		return errors.Join(s.transport.Close(), udp.Close())
	})
	return s, nil
}

// watchReachability calls unreachable if the network reports that packets cannot reach an address. It stops when ctx
// ends or the gateway has replied. The network's message (ICMP) is only delivered to a connected socket, which QUIC's
// is not. So it sends empty packets from another socket, but only if the gateway does not reply within a moment.
func (s *socket) watchReachability(ctx context.Context, to netip.AddrPort, unreachable func(error)) {
	const moment = 50 * time.Millisecond
	for pause := moment; ; pause *= 2 {
		if retry.Wait(ctx, moment) != nil || s.conn.heard.Load() {
			return
		}
		if err := s.network.probeAddress(ctx, to, pause); err != nil && ctx.Err() == nil {
			unreachable(convertError(err))
			return
		}
	}
}

func (s *socket) explainTimeout(err error, to netip.AddrPort, since time.Time) error {
	switch {
	case !isTimeout(err) && !isClosedLocally(err):
		return err
	case s.conn.heard.Load():
		return fmt.Errorf("%s replies, but did not welcome us within %v", to, time.Since(since).Round(time.Millisecond))
	}
	return noReplyError(to.String(), since)
}

// resolveHost returns the addresses of a host, IPv4 first.
func resolveHost(ctx context.Context, n network, host string, port uint16) ([]netip.AddrPort, error) {
	ips, err := n.lookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), port))
	}
	slices.SortStableFunc(all, func(a, b netip.AddrPort) int {
		return cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen())
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return all, nil
}

// splitAddress splits host:port. The port may be the name of a service.
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
