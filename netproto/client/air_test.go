package client

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// gatewayAt is the address of a script in the air.
var gatewayAt = netip.MustParseAddrPort("10.0.0.1:4433")

// air is a network in virtual time. Each packet takes a hop, and the network can misbehave.
type air struct {
	mu     sync.Mutex
	hop    time.Duration
	nodes  map[uint16]simnet.PacketReceiver // by port: clients move
	port   uint16
	home   netip.Addr                            // address of the client; the zero Addr: there is no route
	hosts  map[string][]netip.Addr               // addresses by name
	lost   func(from, to netip.AddrPort) bool    // packets that do not arrive
	closed map[netip.AddrPort]bool               // ports without a listener
	sent   map[netip.AddrPort][]time.Time        // packets of the client, by destination
	probes map[netip.AddrPort][][2]time.Duration // start, since began, and pause of each probe
	began  time.Time
	open   int // sockets of clients
}

func newAir() *air {
	return &air{hop: 10 * time.Millisecond, nodes: map[uint16]simnet.PacketReceiver{}, port: 50000,
		home: netip.MustParseAddr("10.1.1.1"), hosts: map[string][]netip.Addr{}, closed: map[netip.AddrPort]bool{},
		sent: map[netip.AddrPort][]time.Time{}, probes: map[netip.AddrPort][][2]time.Duration{}, began: time.Now()}
}

// inAir runs a test in virtual time, with a script that is reached through the air. In the end all clients are closed,
// and with them all sockets.
func inAir(t *testing.T, s *script, test func(t *testing.T, a *air)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		a := newAir()
		s.air = a
		t.Cleanup(func() { a.set(func() { assert.Zero(t, a.open, "sockets of closed clients") }) })
		s.start(t)
		test(t, a)
	})
}

// set changes the air.
func (a *air) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// silence drops all packets, or none.
func (a *air) silence(on bool) {
	a.set(func() { a.lost = func(netip.AddrPort, netip.AddrPort) bool { return on } })
}

func (a *air) conn(at netip.AddrPort) *simnet.SimConn {
	return simnet.NewBlockingSimConn(net.UDPAddrFromAddrPort(at), a)
}

// at returns the socket at an address: the gateway's, or one of the client, which is at home.
func (a *air) at(to netip.AddrPort) simnet.PacketReceiver {
	if to != gatewayAt && to.Addr() != a.home {
		return nil
	}
	return a.nodes[to.Port()]
}

// AddNode registers a socket.
func (a *air) AddNode(addr net.Addr, r simnet.PacketReceiver) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes[addr.(*net.UDPAddr).AddrPort().Port()] = r
}

// SendPacket delivers a packet to its socket.
func (a *air) SendPacket(p simnet.Packet) error {
	from, to := p.From.(*net.UDPAddr).AddrPort(), p.To.(*net.UDPAddr).AddrPort()
	a.mu.Lock()
	defer a.mu.Unlock()
	if from != gatewayAt {
		if !a.home.IsValid() {
			return unreachable
		}
		a.sent[to] = append(a.sent[to], time.Now())
		from = netip.AddrPortFrom(a.home, from.Port())
		p.From = net.UDPAddrFromAddrPort(from)
	}
	node := a.at(to)
	if node == nil || a.lost != nil && a.lost(from, to) {
		return nil
	}
	p.Data = append([]byte(nil), p.Data...)
	time.AfterFunc(a.hop, func() { node.RecvPacket(p) })
	return nil
}

func (a *air) lookupHost(_ context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ips, ok := a.hosts[host]; ok {
		return ips, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// unreachable is the error of the system if there is no route.
var unreachable = &net.OpError{Op: "write", Err: os.NewSyscallError("sendto", syscall.ENETUNREACH)}

func (a *air) listenUDP(netip.AddrPort) (packetConn, error) {
	a.mu.Lock()
	a.port++
	a.open++
	at := netip.AddrPortFrom(a.home, a.port)
	a.mu.Unlock()
	return countedConn{a.conn(at), sync.OnceFunc(func() { a.set(func() { a.open-- }) })}, nil
}

// countedConn is a socket of a client.
type countedConn struct {
	*simnet.SimConn
	closed func()
}

// Close closes the socket.
func (c countedConn) Close() error {
	c.closed()
	return c.SimConn.Close()
}

func (a *air) probeAddress(ctx context.Context, to netip.AddrPort, pause time.Duration) error {
	a.mu.Lock()
	a.probes[to] = append(a.probes[to], [2]time.Duration{time.Since(a.began), pause})
	closed := a.closed[to]
	wait := min(pause, 2*a.hop)
	if !closed {
		wait = pause
	}
	a.mu.Unlock()
	select {
	case <-ctx.Done():
		return fmt.Errorf("closed: %w", net.ErrClosed)
	case <-time.After(wait):
	}
	if closed {
		return &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNREFUSED)}
	}
	return nil
}
