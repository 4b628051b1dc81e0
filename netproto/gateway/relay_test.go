package gateway_test

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// relay forwards packets between clients and a gateway, like a NAT, and can misbehave like one.
type relay struct {
	t     *testing.T
	front *net.UDPConn
	tasks sync.WaitGroup

	mu     sync.Mutex
	target netip.AddrPort
	back   map[netip.AddrPort]*net.UDPConn // by client: its port is the one that the gateway sees
	mute   bool                            // drop all packets
	record bool
	sent   [][]byte // packets of clients, if recording
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	r := &relay{t: t, front: front, target: netip.MustParseAddrPort(target), back: map[netip.AddrPort]*net.UDPConn{}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.upwards()
	}()
	t.Cleanup(func() {
		assert.NoError(t, front.Close())
		<-over // a packet that was read before makes no socket after the last rebind
		r.rebind()
		r.tasks.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.front.LocalAddr().String() }

// aim changes the gateway at the address, and rebinds.
func (r *relay) aim(target string) {
	r.mu.Lock()
	r.target = netip.MustParseAddrPort(target)
	r.mu.Unlock()
	r.rebind()
}

// rebind changes the addresses of all clients as the gateway sees them.
func (r *relay) rebind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.back {
		_ = b.Close()
	}
	clear(r.back)
}

func (r *relay) set(mute bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = mute
}

func (r *relay) upwards() {
	b := make([]byte, 1<<16)
	for {
		n, from, err := r.front.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.record {
			r.sent = append(r.sent, bytes.Clone(b[:n]))
		}
		if !r.mute {
			_, _ = r.socket(from).WriteToUDPAddrPort(b[:n], r.target)
		}
		r.mu.Unlock()
	}
}

// socket returns the socket of a client. r.mu is held.
func (r *relay) socket(client netip.AddrPort) *net.UDPConn {
	if b := r.back[client]; b != nil {
		return b
	}
	b, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	r.back[client] = b
	r.tasks.Go(func() { r.downwards(b, client) })
	return b
}

func (r *relay) downwards(back *net.UDPConn, client netip.AddrPort) {
	b := make([]byte, 1<<16)
	for {
		n, _, err := back.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		mute := r.mute
		r.mu.Unlock()
		if !mute {
			_, _ = r.front.WriteToUDPAddrPort(b[:n], client)
		}
	}
}
