package remote

import (
	"net"
	"sync"
	"time"
)

// delayedConn is a connection whose bytes arrive some time after they are written, in order, at any rate:
// a long wire for TCP.
type delayedConn struct {
	net.Conn
	delay time.Duration
	queue chan delayedWrite
	done  chan struct{} // closed when what was written is on its way

	mu     sync.Mutex // of what follows, and of sends to queue
	closed bool
}

// delayedWrite is what one Write sends, and when it is due.
type delayedWrite struct {
	b   []byte
	due time.Time
}

// delayed puts a wire of so much delay behind c, for what c writes.
func delayed(c net.Conn, delay time.Duration) net.Conn {
	d := &delayedConn{Conn: c, delay: delay, queue: make(chan delayedWrite, 1024), done: make(chan struct{})}
	go d.deliver()
	return d
}

func (d *delayedConn) deliver() {
	defer close(d.done)
	for p := range d.queue {
		time.Sleep(time.Until(p.due))
		if _, err := d.Conn.Write(p.b); err != nil {
			for range d.queue { // nobody reads on: what follows is lost as well
			}
			return
		}
	}
}

// Write implements [net.Conn].
func (d *delayedConn) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, net.ErrClosed
	}
	d.queue <- delayedWrite{append([]byte(nil), b...), time.Now().Add(d.delay)}
	return len(b), nil
}

// Close implements [net.Conn]. What was written still arrives.
func (d *delayedConn) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.queue)
	}
	d.mu.Unlock()
	<-d.done
	return d.Conn.Close()
}

// delayedListener accepts connections that answer over a long wire.
type delayedListener struct {
	net.Listener
	delay time.Duration
}

// Accept implements [net.Listener].
func (l delayedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return delayed(c, l.delay), nil
}
