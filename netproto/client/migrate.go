package client

import (
	"context"
	"errors"
	"net"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// migrate moves the connection to a new socket after a probe of the new path has succeeded. It gives up when ctx or the
// connection ends.
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
	l.sockets = append(l.sockets, s) // from now on close frees it
	l.mu.Unlock()
	path, err := l.qc.AddPath(s.transport)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.qc.Context(), cancel)()
	if err := path.Probe(ctx); err != nil {
		return errors.Join(err, path.Close())
	}
	return path.Switch()
}

// routeChanged reports whether packets to the gateway would now leave from another local address than the connection's.
func (l *link) routeChanged() bool {
	source, err := l.c.opt.network.source(l.to)
	if err != nil {
		return false // no route: migrating would not help
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return source != l.sockets[len(l.sockets)-1].source
}

// bye sends a Bye for a session if that is possible without blocking, and returns its size in bytes.
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
	// If it is not sent, the gateway forgets the session later.
	_ = l.control.TryWriteAll(frame)
	return len(frame)
}
