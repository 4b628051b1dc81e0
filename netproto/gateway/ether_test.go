package gateway_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ether is an in-process network for tests in virtual time: a packet arrives 5 ms after it was sent, in order, unless
// the ether drops it.
type ether struct {
	mu    sync.Mutex
	ports map[netip.AddrPort]*port
	lose  func(p packet) bool // if set, reports whether a packet is dropped; called for every packet
}

type packet struct {
	from, to netip.AddrPort
	bytes    []byte
	due      time.Time
}

// watch calls see for every packet, which reports whether to drop it.
func (e *ether) watch(see func(p packet) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lose = see
}

// send sends a packet. It does not block: a packet is lost if the port has no room for it.
func (e *ether) send(p packet) {
	const latency = 5 * time.Millisecond
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lose != nil && e.lose(p) {
		return
	}
	p.due = time.Now().Add(latency)
	if to := e.ports[p.to]; to != nil {
		select {
		case to.inbox <- p:
		default:
		}
	}
}

// port is a socket of the ether. Only the methods that QUIC uses work.
type port struct {
	ether  *ether
	at     netip.AddrPort
	inbox  chan packet
	closed chan struct{}

	mu       sync.Mutex
	deadline time.Time
	earlier  chan struct{} // closed and replaced when the deadline changes
}

// listen opens a socket at an address.
func (e *ether) listen(t *testing.T, at string) *port {
	t.Helper()
	p := &port{ether: e, at: netip.MustParseAddrPort(at), inbox: make(chan packet, 1<<13), closed: make(chan struct{}),
		earlier: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ports == nil {
		e.ports = map[netip.AddrPort]*port{}
	}
	require.NotContains(t, e.ports, p.at)
	e.ports[p.at] = p
	return p
}

func (p *port) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		p.mu.Lock()
		deadline, changed := p.deadline, p.earlier
		p.mu.Unlock()
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case got := <-p.inbox:
			time.Sleep(time.Until(got.due))
			return copy(b, got.bytes), net.UDPAddrFromAddrPort(got.from), nil
		case <-late:
			return 0, nil, os.ErrDeadlineExceeded
		case <-p.closed:
			return 0, nil, net.ErrClosed
		case <-changed:
		}
	}
}

func (p *port) WriteTo(b []byte, to net.Addr) (int, error) {
	p.ether.send(packet{from: p.at, to: to.(*net.UDPAddr).AddrPort(), bytes: bytes.Clone(b)})
	return len(b), nil
}

func (p *port) SetReadDeadline(at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = at
	close(p.earlier)
	p.earlier = make(chan struct{})
	return nil
}

// Close removes the socket from the ether.
func (p *port) Close() error {
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	delete(p.ether.ports, p.at)
	close(p.closed)
	return nil
}

func (p *port) LocalAddr() net.Addr                 { return net.UDPAddrFromAddrPort(p.at) }
func (p *port) SetDeadline(at time.Time) error      { return p.SetReadDeadline(at) }
func (p *port) SetWriteDeadline(at time.Time) error { return nil }
func (p *port) SetReadBuffer(int) error             { return nil }
func (p *port) SetWriteBuffer(int) error            { return nil }
