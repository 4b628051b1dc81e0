package pilotfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// ListenOptions configure a gateway. With the zero value every device that can reach it may ask.
type ListenOptions struct {
	ServeOptions
	Tokens      map[string]string // access tokens of at least 16 bytes, by the names of their owners; none: open to all
	Certificate tls.Certificate   // zero: a new self-signed one
}

// Listener is a gateway of this process, which devices reach with [Model.Dial].
type Listener struct {
	service *Service
	socket  net.PacketConn
	pin     string
	stop    context.CancelFunc
	served  chan error
}

// Listen makes m the large model of a gateway at addr, "host:port" of UDP; with port 0 the system chooses one. It
// answers in the background until [Listener.Close], which the caller calls before it closes m.
func Listen(addr string, m *Model, o ListenOptions) (*Listener, error) {
	service, err := m.Serve(o.ServeOptions)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, err)
	}
	gateway := engine.GatewayOptions{Certificate: o.Certificate}
	for _, name := range slices.Sorted(maps.Keys(o.Tokens)) {
		gateway.Tokens = append(gateway.Tokens,
			engine.GatewayToken{Name: name, Secret: netproto.Secret(o.Tokens[name])})
	}
	g, err := service.s.Gateway(gateway)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen %s: %w", addr, err), service.Close())
	}
	socket, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{service, socket, g.Fingerprint().String(), stop, make(chan error, 1)}
	go func() { l.served <- g.Serve(ctx, socket) }()
	return l, nil
}

// Addr returns the address of the gateway, with its port.
func (l *Listener) Addr() net.Addr { return l.socket.LocalAddr() }

// Pin returns the fingerprint of its certificate, for [DialOptions].Pin.
func (l *Listener) Pin() string { return l.pin }

// Close lets the answers under way end, which takes at most seconds, and closes the gateway. Call it once.
func (l *Listener) Close() error {
	l.stop()
	return errors.Join(<-l.served, l.socket.Close(), l.service.Close())
}
