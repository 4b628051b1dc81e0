package client

import (
	"context"
	"errors"
	"net"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// migrate moves the connection to a new socket, once the gateway has been heard there.
func (l *link) migrate(ctx context.Context) error {
	s, err := newSocket(l.c.opt.network, l.to)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errors.Join(net.ErrClosed, s.close())
	}
	l.sockets = append(l.sockets, s) // from here on close frees it
	l.mu.Unlock()
	path, err := l.qc.AddPath(s.transport)
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return errors.Join(err, path.Close())
	}
	return path.Switch()
}

// routeChanged reports whether packets to the gateway would now start from another address than the connection's.
func (l *link) routeChanged() bool {
	source, err := l.c.opt.network.source(l.to)
	if err != nil {
		return false // no way at all: moving would not help
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return source != l.sockets[len(l.sockets)-1].source
}

// bye tells the gateway that a session is over, if that is possible at once, and returns how many bytes that took.
func (l *link) bye(session uint32) int {
	select {
	case <-l.ready:
	default:
		return 0
	}
	if l.err != nil {
		return 0
	}
	frame := netproto.Bye{Session: session}.Append(nil)
	// Without it, the gateway forgets the session by itself in time.
	_ = l.control.TryWriteAll(frame)
	return len(frame)
}
