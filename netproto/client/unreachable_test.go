package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// attempts collects the errors of attempts to connect.
type attempts struct {
	mu  sync.Mutex
	all []error
}

func (a *attempts) add(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, err)
}

func (a *attempts) get() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]error(nil), a.all...)
}

// unused returns an address without a listener.
func unused(t *testing.T) string {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, socket.Close())
	return socket.LocalAddr().String()
}

// TestAddress: an invalid address is refused at once, also by a client that connects later.
func TestAddress(t *testing.T) {
	for addr, why := range map[string]string{
		"": "missing port", "host": "missing port", "host:": "as host:port", "host:0": "as host:port",
		"host:99999": "invalid port", "host:nonsense": "unknown port", ":4433": "as host:port",
		"::1:4433": "too many colons",
	} {
		_, err := Dial(t.Context(), addr, Options{Identity: netproto.Identity{Vocab: 10}, Lazy: true})
		assert.ErrorContains(t, err, why, addr)
	}
	_, port, err := splitAddress("host:domain")
	require.NoError(t, err)
	assert.EqualValues(t, 53, port, "the name of a service")
}

// TestClosedPort: a closed port is reported as such, long before the timeout; it is not a configuration error.
func TestClosedPort(t *testing.T) {
	addr := unused(t)
	_, err := Dial(t.Context(), addr, Options{Identity: netproto.Identity{Vocab: 10}, ConnectTimeout: time.Hour})
	require.ErrorContains(t, err, "connection refused")
	refused, ok := errors.AsType[*ConnectError](err)
	require.True(t, ok)
	assert.Equal(t, "no connection to the gateway at "+addr+": connection refused", refused.Error())
	assert.False(t, refused.Configuration())

	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	_, err = Dial(t.Context(), "localhost:"+port, Options{Identity: netproto.Identity{Vocab: 10}})
	assert.ErrorContains(t, err, addr+": connection refused", "one of the addresses of the name is reported")
}

// untilEmpty counts packets until an empty one arrives.
func untilEmpty(socket net.PacketConn) (packets int, err error) {
	for b := make([]byte, 2048); ; packets++ {
		n, _, err := socket.ReadFrom(b)
		if err != nil || n == 0 {
			return packets, err
		}
	}
}

// TestSystemNetwork: the network of the machine: sockets, and probes that arrive or are answered.
func TestSystemNetwork(t *testing.T) { held.Same(t, func() { systemNetwork(t) }) }

func systemNetwork(t *testing.T) {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer socket.Close()
	to := netip.MustParseAddrPort(socket.LocalAddr().String())
	conn, err := osNetwork{}.listenUDP(to)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.WriteTo([]byte("hello"), socket.LocalAddr())
	require.NoError(t, err)
	require.NoError(t, osNetwork{}.probeAddress(t.Context(), to, time.Millisecond))
	packets, err := untilEmpty(socket)
	require.NoError(t, err)
	assert.Equal(t, 1, packets)
	if six, err := net.ListenPacket("udp6", "[::1]:0"); err == nil { // not every machine has IPv6
		defer six.Close()
		from, err := osNetwork{}.listenUDP(netip.MustParseAddrPort(six.LocalAddr().String()))
		require.NoError(t, err)
		defer from.Close()
		_, err = from.WriteTo(nil, six.LocalAddr())
		require.NoError(t, err)
		_, err = untilEmpty(six)
		require.NoError(t, err)
	}
	ips, err := osNetwork{}.lookupHost(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	assert.Equal(t, to.Addr(), ips[0].Unmap())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	assert.Error(t, osNetwork{}.probeAddress(ctx, to, time.Hour), "it ends with its context")
}

// TestHostGone: a host that was found before and is not found now counts as temporarily gone.
func TestHostGone(t *testing.T) {
	c := &Client{}
	gone := &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}
	assert.True(t, isLastingError(c.lookupError(gone)))
	c.stats.Connections = 1
	assert.False(t, isLastingError(c.lookupError(gone)))
	assert.ErrorContains(t, c.lookupError(gone), "no such host")
	assert.False(t, isLastingError(&net.DNSError{Err: "server misbehaving", IsTemporary: true}))

	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		here := map[string][]netip.Addr{"g": {gatewayAt.Addr()}}
		a.hosts, s.addr = here, "g:4433"
		c, session := s.dial(t, nil)
		for n := range 2 {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3 + n), Within: time.Minute})
			require.NoError(t, err, "the host is found again after a second")
			s.retire(c)
			a.set(func() { a.hosts = nil })
			time.AfterFunc(time.Second, func() { a.set(func() { a.hosts = here }) })
		}
	})
}
