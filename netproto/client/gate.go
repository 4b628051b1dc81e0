package client

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gate holds back received packets while the streams of early asks are opened. When quic-go (0.65) receives packets of
// the server, it changes what OpenStream reads, without a lock. With 0-RTT, streams must be opened before that.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // closed when packets may pass; nil: they may pass now
	timer *time.Timer
}

// close holds packets back, for a short time at most: if the ticket does not allow 0-RTT, open is never called.
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

// gatedConn is a socket with a gate. It hides the other methods of the socket from quic-go: an edge sends too few
// packets for batches, and the sizes of buffers need no log lines.
type gatedConn struct {
	packetConn
	gate  *gate
	heard *atomic.Bool
}

// ReadFrom returns a packet once the gate is open.
func (c gatedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.packetConn.ReadFrom(b)
	if err == nil {
		c.heard.Store(true)
	}
	c.gate.pass()
	return n, from, err
}

// gatedTickets closes the gate when there is a ticket, since the connection may then be used before the gateway has
// replied.
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
