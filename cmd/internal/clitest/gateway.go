package clitest

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// StartGateway serves a model on loopback, until the test ends, for tests of programs that have no command for it. It
// returns the address and the fingerprint of the certificate.
func StartGateway(t *testing.T, model string, o engine.Options, tokens ...engine.GatewayToken) (
	address, pin string,
) {
	t.Helper()
	address, fingerprint, stop, err := serveGateway(model, o, tokens)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stop()) })
	return address, fingerprint.String()
}

func serveGateway(
	model string, o engine.Options, tokens []engine.GatewayToken,
) (address string, pin netproto.Digest, stop func() error, err error) {
	e, err := engine.Open(model, o)
	if err != nil {
		return "", pin, nil, err
	}
	service, err := e.Serve(engine.ServeOptions{})
	if err != nil {
		return "", pin, nil, errors.Join(err, e.Close())
	}
	end := func(err error) error {
		service.Close()
		return errors.Join(err, e.Close())
	}
	g, err := service.Gateway(engine.GatewayOptions{Tokens: tokens})
	if err != nil {
		return "", pin, nil, end(err)
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", pin, nil, end(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- errors.Join(g.Serve(ctx, socket), socket.Close()) }()
	return socket.LocalAddr().String(), netproto.Digest(g.Fingerprint()), func() error {
		cancel()
		return end(<-served)
	}, nil
}

func gatewayCommand(ts *testscript.TestScript, neg bool, args []string) {
	requireUsage(ts, !neg && len(args) == 1, "gateway FILE")
	address, pin, stop, err := serveGateway(ts.MkAbs(args[0]), engine.Options{}, nil)
	ts.Check(err)
	ts.Defer(func() { ts.Check(stop()) })
	ts.Setenv("CLOUD", address)
	ts.Setenv("PIN", pin.String())
}
