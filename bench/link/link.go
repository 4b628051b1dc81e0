package link

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Link relays datagrams between clients and a target. It is safe for concurrent use.
type Link struct {
	target   netip.AddrPort
	listen   *net.UDPConn
	up, down *pipe

	mu      sync.Mutex
	running bool
	clients map[netip.AddrPort]*client
	retired []*net.UDPConn // sockets that Rebind has replaced
	readers sync.WaitGroup // one for each socket; grows only while the link runs
}

// New returns a link that listens on loopback, so that its address is known, but relays nothing before [Link.Run].
func New(o Options) (*Link, error) {
	target, err := netip.ParseAddrPort(o.Target)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	enlargeBuffers(conn)
	l := &Link{target: target, listen: conn, clients: map[netip.AddrPort]*client{}}
	l.up = newPipe(newEmulator(o, directionUp), func(p *datagram) error {
		return sendWithRetry(func() (int, error) { return p.client.conn.Load().Write(p.data) })
	})
	l.down = newPipe(newEmulator(o, directionDown), func(p *datagram) error {
		return sendWithRetry(func() (int, error) { return conn.WriteToUDPAddrPort(p.data, p.client.addr) })
	})
	return l, nil
}

// Addr returns the address that clients send to.
func (l *Link) Addr() *net.UDPAddr { return l.listen.LocalAddr().(*net.UDPAddr) }

// Run relays until the context ends, and then returns nil. It must be called once. The time of traces begins here. When
// it returns, all sockets are closed and all goroutines have ended.
func (l *Link) Run(ctx context.Context) error {
	l.startRelay()
	var pipes sync.WaitGroup
	pipes.Go(l.up.runDelivery)
	pipes.Go(l.down.runDelivery)
	<-ctx.Done()
	l.up.stopDelivery()
	l.down.stopDelivery()
	l.closeSockets()
	pipes.Wait()
	l.readers.Wait()
	return nil
}

func (l *Link) startRelay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
	now := time.Now()
	l.up.startClock(now, newAlarm())
	l.down.startClock(now, newAlarm())
	l.readers.Go(func() {
		receiveDatagrams(l.listen, func(from netip.AddrPort, data []byte) {
			if c := l.findOrAddClient(from); c != nil {
				l.up.acceptDatagram(c, data)
			}
		})
	})
}

// findOrAddClient returns nil if there is no client of this address and none can be added.
func (l *Link) findOrAddClient(from netip.AddrPort) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.clients[from]; c != nil {
		return c
	}
	c := &client{addr: from}
	if len(l.clients) >= maxClients || l.connectClient(c) != nil {
		return nil
	}
	l.clients[from] = c
	return c
}

// connectClient gives a client a new socket, and a goroutine that reads it. l.mu is held.
func (l *Link) connectClient(c *client) error {
	if !l.running {
		return net.ErrClosed
	}
	conn, err := dialTarget(l.target)
	if err != nil {
		return err
	}
	if old := c.conn.Swap(conn); old != nil {
		l.retired = append(l.retired, old)
		err = old.SetReadDeadline(time.Unix(1, 0)) // its reader ends
	}
	l.readers.Go(func() {
		receiveDatagrams(conn, func(_ netip.AddrPort, data []byte) {
			if c.conn.Load() == conn { // else it was replaced while this packet was read
				l.down.acceptDatagram(c, data)
			}
		})
	})
	return err
}

// Rebind gives every client a new source port towards the target, as when a device changes its network or its NAT
// forgets it. Packets that the target still sends to the old port are lost; packets on the way down arrive.
func (l *Link) Rebind() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clients {
		if err := l.connectClient(c); err != nil {
			return fmt.Errorf("link: rebind: %w", err)
		}
	}
	return nil
}

// Blackhole, while on, drops all packets that arrive at the link or are due, in both directions, without an error, like
// a dead network.
func (l *Link) Blackhole(on bool) {
	l.up.setBlackhole(on)
	l.down.setBlackhole(on)
}

// Stats returns the statistics so far.
func (l *Link) Stats() Stats { return Stats{Up: l.up.readCounts(), Down: l.down.readCounts()} }

func (l *Link) closeSockets() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	_ = l.listen.Close()
	for _, c := range l.clients {
		_ = c.conn.Load().Close()
	}
	for _, conn := range l.retired {
		_ = conn.Close()
	}
}
