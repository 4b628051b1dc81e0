package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

const secretA, secretB = "0123456789abcdef", "fedcba9876543210"

// Any number of devices may use one access token, from one address; each has its own sessions.
func TestFleet(t *testing.T) {
	const devices = 150
	up := &fake{}
	g := start(t, "", gateway.Options{Tokens: []gateway.Token{{Name: "fleet", Secret: secretA}}}, up)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]bool{}
	for i := range devices {
		c := dial(t, g, func(o *client.Options) { o.Secret, o.RouteCheck = secretA, -1 })
		all.Go(func() {
			s, err := c.NewSession(t.Context())
			assert.NoError(t, err)
			r, err := s.Ask(t.Context(), path(10, int32(i)), client.Query{})
			assert.NoError(t, err)
			assert.Equal(t, tokenAfter(path(10, int32(i))), r.Token)
		})
	}
	all.Wait()
	for i := range devices {
		mu.Lock()
		seen[up.question(i).Device] = true
		mu.Unlock()
	}
	assert.Len(t, seen, devices)
}

// An access token has its own limit of devices; a device that is connected may connect again.
func TestTokenDevices(t *testing.T) {
	g := start(t, "", gateway.Options{Tokens: []gateway.Token{{Name: "few", Secret: secretA, MaxDevices: 2}, {Name: "free", Secret: secretB}}}, &fake{})
	var last *client.Client
	with := func(secret netproto.Secret, device byte) error {
		c, err := client.Dial(t.Context(), g.addr, client.Options{
			Identity: identity(), Pin: g.Fingerprint(), Secret: secret, Device: netproto.Device{device},
		})
		if err == nil {
			last = c
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
		}
		return err
	}
	require.NoError(t, with(secretA, 1))
	require.NoError(t, with(secretA, 2))
	err := with(secretA, 3)
	require.ErrorIs(t, err, netproto.Busy)
	require.ErrorContains(t, err, "all 2 devices that this access token allows are connected")
	require.NoError(t, with(secretB, 3))
	require.NoError(t, with(secretA, 1))
	require.NoError(t, last.Close()) // one of its two connections
	require.Error(t, with(secretA, 3))
	require.NoError(t, with(secretA, 2))
	second := last
	require.NoError(t, second.Close())
	g.stop()
}

// The place of a device that is gone is free for another one.
func TestTokenDevicesLeave(t *testing.T) {
	var gone atomic.Int32
	g := start(t, "", gateway.Options{Tokens: []gateway.Token{{Name: "few", Secret: secretA, MaxDevices: 1}}, Events: func(e gateway.Event) {
		if e.Kind == gateway.Disconnected {
			gone.Add(1)
		}
	}}, &fake{})
	for i := range 4 {
		c := dial(t, g, func(o *client.Options) { o.Secret, o.Device = secretA, netproto.Device{byte(1 + i)} })
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return gone.Load() == int32(i+1) && g.Conns() == 0 }, 10*time.Second, time.Millisecond)
	}
}

// A device's rate is its own, and does not come back full when it connects again.
func TestDeviceRate(t *testing.T) {
	g := start(t, "", gateway.Options{DeviceRate: 0.5, DeviceBurst: 3, Tokens: []gateway.Token{{Name: "all", Secret: secretA}}}, &fake{})
	as := func(device byte) *client.Session {
		return session(t, dial(t, g, func(o *client.Options) { o.Secret, o.Device = secretA, netproto.Device{device} }))
	}
	answered := func(s *client.Session) (n int) {
		for i := range 6 {
			if _, err := s.Ask(t.Context(), path(5, int32(i)), client.Query{}); err == nil {
				n++
			} else {
				assert.ErrorIs(t, err, netproto.TooFast)
			}
		}
		return n
	}
	first := dial(t, g, func(o *client.Options) { o.Secret, o.Device = secretA, netproto.Device{1} })
	assert.Equal(t, 3, answered(session(t, first)))
	require.NoError(t, first.Close())
	assert.LessOrEqual(t, answered(as(1)), 1)
	assert.Equal(t, 3, answered(as(2)))
}

// On an open gateway anybody can make up devices: the rate is that of the address.
func TestAddressRate(t *testing.T) {
	g := start(t, "", gateway.Options{DeviceRate: 0.1, DeviceBurst: 3}, &fake{})
	answered := 0
	for range 4 {
		s := session(t, dial(t, g, nil))
		for i := range 2 {
			if _, err := s.Ask(t.Context(), path(5, int32(i)), client.Query{}); err == nil {
				answered++
			}
		}
	}
	assert.Equal(t, 3, answered)
}

// A device that tries out sessions of others finds none, learns nothing, and loses its connection.
func TestScan(t *testing.T) {
	up := &fake{}
	g := start(t, "", gateway.Options{}, up)
	victim := welcomedAs(t, g, netproto.Device{1})
	secret := path(50, 1)
	kind, _ := victim.say(packed(t, 77, 0, netproto.RootHash, secret).Append(nil))
	require.Equal(t, netproto.KindAnswer, kind)
	scanner := welcomedAs(t, g, netproto.Device{2})
	guesses := 0
	for ; scanner.Context().Err() == nil; guesses++ {
		s, err := scanner.OpenStreamSync(t.Context())
		if err != nil {
			break
		}
		_, _ = s.Write(packed(t, 77, 1+guesses%60, netproto.RootHash.Over(secret[:1+guesses%50]), []int32{1}).Append(nil))
		_ = s.Close()
		kind, b, err := netproto.ReadFrame(s, 1<<16)
		if err != nil {
			break
		}
		require.Equal(t, netproto.KindNeed, kind)
		need, _, err := netproto.ParseNeed(b)
		require.NoError(t, err)
		require.Equal(t, netproto.Need{Hash: netproto.RootHash}, need)
		require.Less(t, guesses, 100)
	}
	assert.Equal(t, netproto.TooFast, scanner.ends())
	assert.Greater(t, guesses, 20)
	assert.Equal(t, 1, up.get(func(f *fake) int { return len(f.asked) }))
	kind, _ = victim.say(packed(t, 77, 50, netproto.RootHash.Over(secret), []int32{1}).Append(nil))
	assert.Equal(t, netproto.KindAnswer, kind, "the victim goes on")
}

// An answer now and then does not make up for the guesses between.
func TestScanBetweenAsks(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	r := welcomed(t, g)
	for i := range 200 {
		b := packed(t, 1, 0, netproto.RootHash, path(5, int32(i))).Append(nil)
		if i%20 > 0 {
			b = packed(t, uint32(i), 7, 1234, []int32{1}).Append(nil)
		}
		s, err := r.OpenStreamSync(t.Context())
		if err != nil {
			require.Greater(t, i, 64)
			break
		}
		_, _ = s.Write(b)
		_ = s.Close()
		_, _, _ = netproto.ReadFrame(s, 1<<16) // else the connection is closed
	}
	assert.Equal(t, netproto.TooFast, r.ends())
}

// Who never asked makes room before somebody who has, however old that connection is.
func TestAskersStay(t *testing.T) {
	g := start(t, "", gateway.Options{MaxConnsPerAddress: 4}, &fake{})
	c := dial(t, g, nil)
	s := session(t, c)
	ask(t, s, path(5, 1))
	for range 8 {
		welcomed(t, g)
	}
	ask(t, s, path(6, 1))
	assert.Equal(t, 1, c.Stats().Connections)
}

// Even with the device's own secret a connection that told nothing of a session learns nothing of it from Need.
func TestNeedTellsNothing(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	d, text := netproto.Device{1}, path(50, 1)
	one, two := welcomedAs(t, g, d), welcomedAs(t, g, d)
	y := netproto.Sync{Session: 5, Path: packed(t, 5, 0, netproto.RootHash, text).Path}
	kind, _ := one.say(y.Append(nil))
	require.Equal(t, netproto.KindAck, kind)
	wrong := packed(t, 5, 7, 1234, []int32{1}).Append(nil)
	need := func(r raw) netproto.Need {
		kind, b := r.say(wrong)
		require.Equal(t, netproto.KindNeed, kind)
		n, _, err := netproto.ParseNeed(b)
		require.NoError(t, err)
		return n
	}
	assert.Equal(t, netproto.Need{Position: 50, Hash: netproto.RootHash.Over(text)}, need(one))
	assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, need(two))
}

// Idle connections from many addresses, which never ask, keep nobody out.
func TestLockout(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address only")
	}
	const most = 48
	g := start(t, "", gateway.Options{MaxConns: most}, &fake{})
	first := session(t, dial(t, g, nil))
	ask(t, first, path(5, 1))
	var idle []*quic.Conn
	for i := range most + 16 {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%16))})
		require.NoError(t, err)
		to, err := net.ResolveUDPAddr("udp4", g.addr)
		require.NoError(t, err)
		conn, err := quic.Dial(t.Context(), socket, to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{netproto.ALPN}}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.CloseWithError(0, ""); _ = socket.Close() })
		control, err := conn.OpenStream()
		require.NoError(t, err)
		if i%3 > 0 { // the others do not even say Hello
			_, err = control.Write(netproto.Hello{Version: netproto.Version, Identity: identity()}.Append(nil))
			require.NoError(t, err)
		}
		idle = append(idle, conn)
	}
	ask(t, session(t, dial(t, g, nil)), path(5, 2))
	ask(t, first, path(6, 1))
	open := 0
	for _, c := range idle {
		if c.Context().Err() == nil {
			open++
		}
	}
	assert.LessOrEqual(t, open, most)
	assert.Greater(t, open, most/2)
}

// Text that is streamed ahead without end is computed ahead little by little, and delays nobody's question. It is the
// first to be refused, and a device that does not stop loses its connection.
func TestSyncFlood(t *testing.T) {
	up := &warming{fake: &fake{parallel: 64}, hold: make(chan struct{})}
	g := start(t, "", gateway.Options{}, up)
	flood := dial(t, g, nil)
	calm := session(t, dial(t, g, nil))
	taken := 0
	for i := range 110 {
		_, _, err := session(t, flood).Sync(t.Context(), path(200, int32(i)))
		if err == nil {
			taken++
		} else {
			require.ErrorIs(t, err, netproto.TooFast)
		}
		if i%10 == 0 {
			ask(t, calm, path(20+i, 1))
		}
	}
	assert.GreaterOrEqual(t, taken, 64)
	assert.Less(t, taken, 100)
	up.mu.Lock()
	assert.LessOrEqual(t, up.most, 2)
	assert.Positive(t, up.most)
	up.mu.Unlock()
	close(up.hold)
	r := welcomed(t, g)
	for i := range 400 {
		s, err := r.OpenStreamSync(t.Context())
		if err != nil {
			require.Greater(t, i, 64+60)
			break
		}
		_, _ = s.Write(netproto.Sync{Session: 1, Path: packed(t, 1, 0, netproto.RootHash, path(20, int32(i))).Path}.Append(nil))
		_ = s.Close()
	}
	assert.Equal(t, netproto.TooFast, r.ends())
}

// What nobody waits for takes no place that an ask could have, and does not wait for one.
func TestSyncWhileBusy(t *testing.T) {
	up := &fake{parallel: 1, hold: make(chan struct{})}
	g := start(t, "", gateway.Options{}, up)
	busy, ahead := session(t, dial(t, g, nil)), session(t, dial(t, g, nil))
	answered := make(chan error, 1)
	go func() {
		_, err := busy.Ask(t.Context(), path(5, 1), client.Query{})
		answered <- err
	}()
	require.Eventually(t, func() bool { return up.get(func(f *fake) int { return len(f.asked) }) == 1 }, 10*time.Second, time.Millisecond)
	_, _, err := ahead.Sync(t.Context(), path(200, 1))
	require.NoError(t, err)
	_, _, err = ahead.Sync(t.Context(), path(201, 1)) // so the first one has been dealt with, or waits
	require.NoError(t, err)
	close(up.hold)
	require.NoError(t, <-answered)
	for i := range 20 {
		ask(t, busy, path(6+i, 1))
	}
	assert.Zero(t, up.get(func(f *fake) int { return len(f.warmed) }))
}

// warming counts how much it is asked to compute ahead at a time, none of which ends before hold is closed.
type warming struct {
	*fake
	hold      chan struct{}
	now, most int
}

func (w *warming) Warm(ctx context.Context, _ gateway.Question) error {
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	select {
	case <-w.hold:
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return nil
}

// The log has a line for what an operator has to know, without secrets, and not one for each of a thousand attempts.
func TestLog(t *testing.T) {
	var out bytes.Buffer // written by one goroutine, which Close waits for
	log := gateway.NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	d := netproto.Device{1, 2, 3, 4, 5, 6, 7, 8}
	g := start(t, "", gateway.Options{Events: log.Event, Tokens: []gateway.Token{{Name: "lab", Secret: secretA}}}, &fake{})
	c := dial(t, g, func(o *client.Options) { o.Secret, o.Device = secretA, d })
	ask(t, session(t, c), path(5, 1))
	for range 60 {
		_, err := client.Dial(t.Context(), g.addr, client.Options{Identity: identity(), Pin: g.Fingerprint(), Secret: "guessed " + secretB})
		require.ErrorIs(t, err, netproto.WrongSecret)
	}
	require.NoError(t, c.Close())
	g.stop()
	log.Close()
	text := out.String()
	for _, part := range []string{
		"level=INFO msg=connected client=lab device=" + d.Name() + " address=127.0.0.1",
		"level=WARN msg=refused address=127.0.0.1 code=4 error=\"refused: the access token is missing or wrong\"",
		"level=INFO msg=disconnected client=lab device=" + d.Name() + " address=127.0.0.1 asks=1",
		"level=INFO msg=draining", "level=INFO msg=drained", "left_out=",
	} {
		assert.Contains(t, text, part)
	}
	for _, part := range []string{secretA, "guessed", d.Reveal()[:12], fmt.Sprint(d[:4])} {
		assert.NotContains(t, text, part)
	}
	assert.Less(t, bytes.Count([]byte(text), []byte("msg=refused")), 40)
}

// A log whose reader does not read holds nobody up.
func TestLogBlocked(t *testing.T) {
	release := make(chan struct{})
	log := gateway.NewLog(slog.New(slog.NewTextHandler(blocked(release), nil)))
	for range 5000 {
		log.Event(gateway.Event{Kind: gateway.Draining})
	}
	close(release)
	log.Close()
}

type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}
