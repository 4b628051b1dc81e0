package remote

import (
	"net"
	"sync"
	"time"
)

// delayedConn is a connection with a delay: bytes arrive some time after they are written, in order, with no limit of
// the rate, like TCP over a long wire.
type delayedConn struct {
	net.Conn
	delay time.Duration
	queue chan delayedWrite
	done  chan struct{} // closed when all written data has been sent

	mu     sync.Mutex // for the fields below, and for sending to queue
	closed bool
}

// delayedWrite is the data of one Write, with the time when it is due.
type delayedWrite struct {
	b   []byte
	due time.Time
}

// delayed returns a connection that delays what is written to c.
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
			for range d.queue { // after an error the rest is lost as well
			}
			return
		}
	}
}

func (d *delayedConn) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, net.ErrClosed
	}
	d.queue <- delayedWrite{append([]byte(nil), b...), time.Now().Add(d.delay)}
	return len(b), nil
}

// Close implements [net.Conn]. Data that was written before still arrives.
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

// delayedListener accepts connections with delayed answers.
type delayedListener struct {
	net.Listener
	delay time.Duration
}

func (l delayedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return delayed(c, l.delay), nil
}
