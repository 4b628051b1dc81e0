package client

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gatedConn is a socket that holds back received packets while the streams of early asks are opened. When quic-go
// (0.65) receives packets of the server, it changes what OpenStream reads, without a lock. With 0-RTT, streams must be
// opened before that. It hides the other methods of the socket from quic-go: an edge sends too few packets for batches,
// and the sizes of buffers need no log lines.
type gatedConn struct {
	packetConn
	shut  chan struct{} // closed when packets may pass
	open  func()
	heard atomic.Bool // something has been received
}

// newGatedConn returns a socket that opens by itself after a moment: if a ticket does not allow 0-RTT, nobody opens it
// before the handshake.
func newGatedConn(udp packetConn) *gatedConn {
	const moment = 100 * time.Millisecond
	c := &gatedConn{packetConn: udp, shut: make(chan struct{})}
	c.open = sync.OnceFunc(func() { close(c.shut) })
	time.AfterFunc(moment, c.open)
	return c
}

// ReadFrom returns a packet once the gate is open.
func (c *gatedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.packetConn.ReadFrom(b)
	if err == nil {
		c.heard.Store(true)
	}
	<-c.shut
	return n, from, err
}

// gatedTickets opens the gate when there is no ticket: then the connection is not used before the gateway has replied.
type gatedTickets struct {
	*tickets
	open func()
}

// Get returns the ticket for a server.
func (t gatedTickets) Get(server string) (*tls.ClientSessionState, bool) {
	s, ok := t.tickets.Get(server)
	if !ok {
		t.open()
	}
	return s, ok
}
