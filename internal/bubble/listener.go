package bubble

import (
	"net"
	"sync"
)

// Listener accepts the connections of its Dial. They stay within the process, so they work in virtual time.
type Listener struct {
	dialled chan net.Conn
	closed  chan struct{}
	close   func()
}

// NewListener returns a listener for the bubble that calls it.
func NewListener() *Listener {
	l := &Listener{dialled: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Dial returns the client's side of a new connection, after the listener accepted it. It fails with [net.ErrClosed] if
// the listener is closed.
func (l *Listener) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialled <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. It is safe to call it twice.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }
