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
	enlarge(conn)
	l := &Link{target: target, listen: conn, clients: map[netip.AddrPort]*client{}}
	l.up = newPipe(newEmulator(o, wayUp), func(p *datagram) error {
		return write(func() (int, error) { return p.client.conn.Load().Write(p.data) })
	})
	l.down = newPipe(newEmulator(o, wayDown), func(p *datagram) error {
		return write(func() (int, error) { return conn.WriteToUDPAddrPort(p.data, p.client.addr) })
	})
	return l, nil
}

// Addr returns the address that clients send to.
func (l *Link) Addr() *net.UDPAddr { return l.listen.LocalAddr().(*net.UDPAddr) }

// Run relays until the context ends, and then returns nil. It must be called once. The time of traces begins here. When
// it returns, all sockets are closed and all goroutines have ended.
func (l *Link) Run(ctx context.Context) error {
	l.begin()
	var pipes sync.WaitGroup
	pipes.Go(l.up.run)
	pipes.Go(l.down.run)
	<-ctx.Done()
	l.up.stop()
	l.down.stop()
	l.closeSockets()
	pipes.Wait()
	l.readers.Wait()
	return nil
}

// begin starts the clock and the readers.
func (l *Link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
	now := time.Now()
	l.up.begin(now, newAlarm())
	l.down.begin(now, newAlarm())
	l.readers.Go(func() {
		receive(l.listen, func(from netip.AddrPort, data []byte) {
			if c := l.client(from); c != nil {
				l.up.accept(c, data)
			}
		})
	})
}

// client returns the client of an address. It makes a new one if needed, and returns nil if that is impossible.
func (l *Link) client(from netip.AddrPort) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.clients[from]; c != nil {
		return c
	}
	c := &client{addr: from}
	if len(l.clients) >= maxClients || l.connect(c) != nil {
		return nil
	}
	l.clients[from] = c
	return c
}

// connect gives a client a new socket, and a goroutine that reads it. l.mu is held.
func (l *Link) connect(c *client) error {
	if !l.running {
		return net.ErrClosed
	}
	conn, err := dial(l.target)
	if err != nil {
		return err
	}
	if old := c.conn.Swap(conn); old != nil {
		l.retired = append(l.retired, old)
		err = old.SetReadDeadline(time.Unix(1, 0)) // its reader ends
	}
	l.readers.Go(func() {
		receive(conn, func(_ netip.AddrPort, data []byte) {
			if c.conn.Load() == conn { // else it was replaced while this packet was read
				l.down.accept(c, data)
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
		if err := l.connect(c); err != nil {
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
func (l *Link) Stats() Stats { return Stats{Up: l.up.stats(), Down: l.down.stats()} }

// closeSockets closes all sockets and prevents new ones.
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
