package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// guest returns a connection from an address, last used some seconds ago.
func guest(address string, asked bool, open, seconds int) *connection {
	ip := netip.MustParseAddr(address)
	since := time.Unix(1e9, 0).Add(-time.Duration(seconds) * time.Second)
	return &connection{address: addressPrefix(net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 1))),
		used: usage{asked: asked, open: open, since: since}}
}

func roomOf(limit, perAddress, perDevice int) *connectionLimiter {
	return newConnectionLimiter(Options{MaxConns: limit, derived: derivedLimits{MaxConnsPerAddress: perAddress,
		MaxConnsPerDevice: perDevice}})
}

// check checks the counts of the room.
func (r *connectionLimiter) check(t *testing.T, want int) {
	t.Helper()
	n := 0
	for _, here := range r.byAddress {
		assert.NotEmpty(t, here)
		n += len(here)
	}
	assert.Equal(t, want, r.all)
	assert.Equal(t, want, n)
}

// TestRoomSilentGoFirst: a full room evicts connections that never asked, the oldest of the address with the most.
func TestRoomSilentGoFirst(t *testing.T) {
	for range 30 { // maps have no order
		r := roomOf(6, 6, 6)
		var crowd []*connection
		for i := range 3 {
			crowd = append(crowd, guest("10.0.0.1", false, 0, 100-i))
		}
		lone, asker, busy := guest("10.0.0.2", false, 0, 1000), guest("10.0.0.3", true, 0, 5000),
			guest("10.0.0.4", true, 1, 6000)
		for _, c := range append(crowd, lone, asker, busy) {
			victim, err := r.admitConnection(c)
			require.NoError(t, err)
			require.Nil(t, victim)
		}
		for i, want := range []*connection{crowd[0], crowd[1]} {
			victim, err := r.admitConnection(guest(fmt.Sprintf("10.0.1.%d", i), true, 1, 0))
			require.NoError(t, err)
			assert.Same(t, want, victim)
			r.check(t, 6)
		}
		for range 2 { // the remaining two have different addresses
			victim, err := r.admitConnection(guest("10.0.2.1", true, 1, 0))
			require.NoError(t, err)
			assert.Contains(t, []*connection{crowd[2], lone}, victim)
		}
		r.check(t, 6)
	}
}

// TestRoomIdle: an idle connection that has asked is evicted only if its address has more connections than that of the
// new one; a connection with an open ask never is.
func TestRoomIdle(t *testing.T) {
	for range 30 { // maps have no order
		r := roomOf(4, 4, 4)
		old, young := guest("10.0.0.1", true, 0, 50), guest("10.0.0.1", true, 0, 40)
		for _, c := range []*connection{old, young, guest("10.0.0.1", true, 2, 90), guest("10.0.0.2", true, 0, 99)} {
			_, err := r.admitConnection(c)
			require.NoError(t, err)
		}
		victim, err := r.admitConnection(guest("10.0.0.3", true, 1, 0))
		require.NoError(t, err)
		assert.Same(t, old, victim)
		_, err = r.admitConnection(guest("10.0.0.1", true, 1, 0))
		require.ErrorIs(t, err, netproto.Busy, "its own address has the most")
		victim, err = r.admitConnection(guest("10.0.0.3", true, 1, 0))
		require.ErrorIs(t, err, netproto.Busy, "it would have equally many")
		assert.Nil(t, victim)
		r.check(t, 4)
	}
}

// TestRoomLimits: limits of an address and of a device evict only their own connections.
func TestRoomLimits(t *testing.T) {
	for range 30 { // maps have no order
		r := roomOf(100, 2, 2)
		first, busy := guest("10.0.0.1", true, 0, 9), guest("10.0.0.1", true, 1, 8)
		for _, c := range []*connection{first, busy, guest("10.0.0.2", false, 0, 99)} {
			_, err := r.admitConnection(c)
			require.NoError(t, err)
		}
		working := guest("10.0.0.1", true, 1, 0)
		victim, err := r.admitConnection(working)
		require.NoError(t, err)
		assert.Same(t, first, victim)
		_, err = r.admitConnection(guest("10.0.0.1", true, 1, 0))
		require.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "the 2 connections that one address may have are in use")

		quiet := guest("10.0.0.8", false, 0, 1)
		for _, c := range []*connection{guest("10.0.0.8", true, 0, 500), quiet} {
			_, err := r.admitConnection(c)
			require.NoError(t, err)
		}
		victim, err = r.admitConnection(guest("10.0.0.8", true, 1, 0))
		require.NoError(t, err)
		assert.Same(t, quiet, victim, "it never asked, although the other one is idle for longer")

		mine := &device{}
		var its []*connection
		for i := range 3 {
			c := guest(fmt.Sprintf("10.1.0.%d", i), true, min(i, 1), 0)
			_, err := r.admitConnection(c)
			require.NoError(t, err)
			victim, err = r.assignDevice(c, mine, false)
			require.NoError(t, err)
			its = append(its, c)
		}
		assert.Same(t, its[0], victim)
		c := guest("10.1.0.9", true, 0, 0)
		_, err = r.admitConnection(c)
		require.NoError(t, err)
		_, err = r.assignDevice(c, mine, false)
		require.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "one device")
		for _, c := range append(its, c, working, busy) {
			r.removeConnection(c)
			r.removeConnection(c) // leaving twice is harmless
		}
		assert.Empty(t, r.byDevice)
		r.check(t, 3)
	}
}

// mapped is an IPv4 address in IPv6 notation.
type mapped struct{ net.Addr }

func (mapped) String() string { return "[::ffff:10.0.0.1]:7" }

// TestPrefix: a /64 counts as one address, because one host can use all of it. So does an IPv4 address in any notation.
func TestPrefix(t *testing.T) {
	of := func(a string) netip.Prefix { return addressPrefix(net.UDPAddrFromAddrPort(netip.MustParseAddrPort(a))) }
	assert.Equal(t, of("[2001:db8::1]:1"), of("[2001:db8::ffff:2]:9"))
	assert.Equal(t, of("[2001:db8::1]:1"), of("[2001:db8::8000:0:0:1]:1"))
	assert.NotEqual(t, of("10.0.0.2:1"), of("10.0.0.3:1"))
	assert.NotEqual(t, of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"))
	assert.Equal(t, of("10.0.0.1:1"), of("[::ffff:10.0.0.1]:7"))
	assert.NotEqual(t, of("10.0.0.1:1"), of("10.0.0.2:1"))
	assert.Equal(t, of("10.0.0.1:1"), addressPrefix(mapped{}))
	assert.Equal(t, of("[fe80::1%eth0]:1"), of("[fe80::1]:1"))
	assert.False(t, addressPrefix(&net.UnixAddr{Name: "x"}).IsValid())
}

// TestRoomLeftBeforeWelcome: a connection that is evicted before its Welcome is not kept for a device.
func TestRoomLeftBeforeWelcome(t *testing.T) {
	r, c := roomOf(2, 2, 2), guest("10.0.0.1", false, 0, 0)
	_, err := r.admitConnection(c)
	require.NoError(t, err)
	r.removeConnection(c)
	_, err = r.assignDevice(c, &device{}, false)
	require.NoError(t, err)
	assert.Empty(t, r.byDevice)
	r.check(t, 0)
}
