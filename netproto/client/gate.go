package client

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gate holds back what a socket receives while the streams of early asks are opened. quic-go (0.65) changes what
// OpenStream reads when it hears from the server, and takes no lock: with 0-RTT, streams are opened before that.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when packets may pass; nil: they may
	timer *time.Timer
}

// close holds packets back, for a moment at most: a ticket need not be one for 0-RTT, and then nobody calls open.
func (g *gate) close() {
	const moment = 100 * time.Millisecond
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
		g.timer = time.AfterFunc(moment, g.open)
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
		g.timer.Stop()
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// gatedConn is a socket behind a gate. It offers quic-go no more than packets: the few of an edge need no batches, and
// there is nothing to be logged about the size of buffers.
type gatedConn struct {
	packetConn
	gate  *gate
	heard *atomic.Bool
}

// ReadFrom returns a packet when the gate is open.
func (c gatedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.packetConn.ReadFrom(b)
	if err == nil {
		c.heard.Store(true)
	}
	c.gate.pass()
	return n, from, err
}

// gatedTickets closes the gate when there is a ticket, with which the connection may be used before the gateway has
// been heard.
type gatedTickets struct {
	*tickets
	gate *gate
}

// Get returns the ticket for a server.
func (t gatedTickets) Get(server string) (*tls.ClientSessionState, bool) {
	s, ok := t.tickets.Get(server)
	if ok {
		t.gate.close()
	}
	return s, ok
}
