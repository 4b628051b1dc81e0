package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// await waits until there returns true, also on a busy machine; the timeout of go test ends it otherwise.
func await(there func() bool) {
	for !there() {
		time.Sleep(time.Millisecond)
	}
}

// socket opens a socket on loopback that is closed with the test.
func socket(t testing.TB) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	enlargeBuffers(conn)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echo returns the address of a target that sends every datagram back.
func echo(t testing.TB) string {
	t.Helper()
	conn := socket(t)
	go receiveDatagrams(conn, func(from netip.AddrPort, data []byte) { _, _ = conn.WriteToUDPAddrPort(data, from) })
	return conn.LocalAddr().String()
}

// runs returns a link that runs until the test ends.
func runs(t testing.TB, o Options) *Link {
	t.Helper()
	l, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		s := l.Stats()
		conserved(t, s.Up)
		conserved(t, s.Down)
	})
	return l
}

// dials returns a client of a link.
func dials(t testing.TB, l *Link) *net.UDPConn {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, l.Addr())
	require.NoError(t, err)
	enlargeBuffers(conn)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// hear returns the next datagram.
func hear(t testing.TB, conn *net.UDPConn) string {
	t.Helper()
	buf := make([]byte, maxDatagram)
	n, err := conn.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func say(t testing.TB, conn *net.UDPConn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

// TestRelay: datagrams of any size come back unchanged.
func TestRelay(t *testing.T) {
	l := runs(t, Options{Target: echo(t)})
	c := dials(t, l)
	sizes := []int{1, 28, 1200, 1472, 1473, 9000}
	if runtime.GOOS == "linux" {
		sizes = append(sizes, 65_507) // other systems refuse such a size
	}
	bytes := 0
	for _, size := range sizes {
		text := strings.Repeat("x", size-1) + "y"
		say(t, c, text)
		require.Equal(t, text, hear(t, c), size)
		bytes += size
	}
	say(t, c, "")
	await(func() bool { return l.Stats().Down.Delivered == int64(len(sizes)+1) })
	s := l.Stats()
	assert.EqualValues(t, bytes, s.Up.Bytes)
	assert.EqualValues(t, bytes, s.Down.Bytes)
}

// TestManyClients: each client has its own port at the target and gets its own answers, in order.
func TestManyClients(t *testing.T) {
	const clients, rounds = 60, 30
	l := runs(t, Options{
		Target: echo(t), Up: Direction{Delay: 5 * time.Millisecond}, Down: Direction{Delay: 5 * time.Millisecond},
	})
	var wg sync.WaitGroup
	for id := range clients {
		c := dials(t, l)
		wg.Go(func() {
			for n := range rounds {
				text := fmt.Sprint(id, " says ", n)
				_, _ = c.Write([]byte(text))
				buf := make([]byte, 100)
				m, err := c.Read(buf)
				if !assert.NoError(t, err) || !assert.Equal(t, text, string(buf[:m])) {
					return
				}
			}
		})
	}
	wg.Wait()
	s := l.Stats()
	assert.EqualValues(t, clients*rounds, s.Up.Delivered)
	assert.EqualValues(t, clients*rounds, s.Down.Delivered)
}

// TestTooManyClients: the number of sockets is limited; datagrams of further clients are dropped.
func TestTooManyClients(t *testing.T) {
	l := runs(t, Options{Target: echo(t)})
	c := dials(t, l)
	say(t, c, "first")
	require.Equal(t, "first", hear(t, c))
	l.mu.Lock()
	for i := range maxClients - 1 {
		l.clients[netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(i))] =
			l.clients[c.LocalAddr().(*net.UDPAddr).AddrPort()]
	}
	l.mu.Unlock()
	say(t, dials(t, l), "one too many")
	say(t, c, "still here")
	assert.Equal(t, "still here", hear(t, c))
	assert.EqualValues(t, 2, l.Stats().Up.Packets)
}

// TestLateness: a packet is never early, alone or after others. The log reports how late it is, which depends on the
// load of the machine.
func TestLateness(t *testing.T) {
	const n, rtt = 200, 40 * time.Millisecond
	l := runs(t, Options{Target: echo(t), Up: Direction{Delay: rtt / 2}, Down: Direction{Delay: rtt / 2}})
	for _, gap := range []time.Duration{100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		c, began := dials(t, l), time.Now()
		go func() {
			for range n {
				_, _ = c.Write(binary.LittleEndian.AppendUint64(nil, uint64(time.Since(began))))
				time.Sleep(gap)
			}
		}()
		var late []time.Duration
		for range n {
			text := hear(t, c)
			require.Len(t, text, 8)
			late = append(late, time.Since(began)-time.Duration(binary.LittleEndian.Uint64([]byte(text)))-rtt)
		}
		slices.Sort(late)
		t.Logf("every %v: round trips late by p50 %v, p90 %v, p99 %v, max %v", gap, late[n/2], late[n*9/10],
			late[n*99/100], late[n-1])
		assert.Positive(t, late[0], "never early")
	}
}

// TestImpaired: a lossy link loses packets as its statistics report, and the target sees the same packets in each run
// with the same seed.
func TestImpaired(t *testing.T) {
	const n = 400
	var seen []string
	for range 2 {
		target := socket(t)
		l := runs(t, Options{
			Target: target.LocalAddr().String(), Seed: 9,
			Up: Direction{Delay: 2 * time.Millisecond, Loss: 0.1},
		})
		c := dials(t, l)
		for i := range n {
			say(t, c, fmt.Sprint(i))
			await(func() bool { return l.Stats().Up.Packets > int64(i) }) // prevents an overflow of buffers
		}
		await(func() bool { s := l.Stats().Up; return s.Packets == n && s.InFlight == 0 })
		s := l.Stats().Up
		assert.Positive(t, s.Lost)
		var got []string
		for range s.Delivered {
			got = append(got, hear(t, target))
		}
		if seen != nil {
			assert.Equal(t, seen, got)
		}
		seen = got
	}
}

// TestRebind: after Rebind the target sees another port, and datagrams to the old port vanish.
func TestRebind(t *testing.T) {
	target := socket(t)
	l := runs(t, Options{Target: target.LocalAddr().String()})
	require.NoError(t, l.Rebind(), "no client yet")
	c := dials(t, l)
	buf := make([]byte, 100)
	meet := func(text string) netip.AddrPort {
		say(t, c, text)
		n, from, err := target.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf[:n]))
		return from
	}
	answer := func(to netip.AddrPort, text string) {
		_, err := target.WriteToUDPAddrPort([]byte(text), to)
		require.NoError(t, err)
	}
	ports := map[uint16]bool{}
	before := meet("before")
	for i := range 5 {
		ports[before.Port()] = true
		require.NoError(t, l.Rebind())
		after := meet(fmt.Sprint("after ", i))
		answer(before, "to the old port")
		answer(after, "to the new port")
		require.Equal(t, "to the new port", hear(t, c))
		before = after
	}
	assert.Len(t, ports, 5)
}

// TestControls: Blackhole works on a running link.
func TestControls(t *testing.T) {
	l := runs(t, Options{Target: echo(t)})
	c := dials(t, l)
	l.Blackhole(true)
	assert.Equal(t, []bool{true, true}, []bool{l.up.blackhole, l.down.blackhole})
	say(t, c, "into the hole")
	await(func() bool { return l.Stats().Up.Vanished == 1 })
	l.Blackhole(false)
	say(t, c, "out of it")
	assert.Equal(t, "out of it", hear(t, c))
}

// TestTargetComesLate: a missing target, which the system reports at every second datagram, loses only these datagrams.
func TestTargetComesLate(t *testing.T) {
	target := socket(t)
	addr := target.LocalAddr().(*net.UDPAddr)
	require.NoError(t, target.Close())
	l := runs(t, Options{Target: addr.String()})
	c := dials(t, l)
	for i := range int64(20) {
		say(t, c, "anybody?")
		await(func() bool { s := l.Stats().Up; return s.Packets > i && s.InFlight == 0 })
	}
	target, err := net.ListenUDP("udp", addr)
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: another program took the port: %v", err)
	}
	defer func() { _ = target.Close() }()
	say(t, c, "now?")
	assert.Equal(t, "now?", hear(t, target))
}

// TestWrite: a pending error of a socket does not lose a datagram; a lasting error is returned.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		calls int
		want  error
	}{
		{"no error", []error{nil}, 1, nil},
		{"a pending error", []error{syscall.ECONNREFUSED, nil}, 2, nil},
		{"two errors", []error{syscall.ECONNREFUSED, syscall.ENOBUFS}, 2, syscall.ENOBUFS},
		{"a closed socket", []error{net.ErrClosed}, 1, net.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			err := sendWithRetry(func() (int, error) { calls++; return 0, c.errs[calls-1] })
			assert.ErrorIs(t, err, c.want)
			assert.Equal(t, c.calls, calls)
		})
	}
}

// goroutines returns the number of goroutines that run code of this package, without tests.
func goroutines() int { return stacks("bench/link.") }

// stacks returns the number of goroutines with a text in their stack, without tests.
func stacks(text string) (n int) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, text) && !strings.Contains(g, "testing.") {
			n++
		}
	}
	return n
}

// TestEnd: a link leaves no goroutine and no socket.
func TestEnd(t *testing.T) {
	target := echo(t)
	percent := debug.SetGCPercent(-1) // the collector would close forgotten files
	defer debug.SetGCPercent(percent)
	was, files := goroutines(), held.Descriptors()
	for range 2 {
		l, err := New(Options{Target: target, Up: Direction{Delay: 5 * time.Millisecond}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		var clients []*net.UDPConn
		for range 10 {
			clients = append(clients, dials(t, l))
			for range 20 {
				say(t, clients[len(clients)-1], "traffic")
			}
		}
		await(func() bool { return l.Stats().Down.Delivered > 0 })
		require.NoError(t, l.Rebind())
		var read atomic.Bool
		l.readers.Go(func() { // it ends after everything else
			await(func() bool { return stacks("link.(*pipe).runDelivery(") == 0 })
			read.Store(true)
		})
		cancel()
		require.NoError(t, <-ended)
		assert.True(t, read.Load(), "Run waits for its readers")
		await(func() bool { return goroutines() <= was }) // the goroutine that ran it is about to end
		for _, c := range clients {
			_ = c.Close()
		}
		assert.LessOrEqual(t, held.Descriptors(), files)
		conn, err := net.ListenUDP("udp", l.Addr())
		require.NoError(t, err, "the port is free again")
		_ = conn.Close()

		assert.ErrorIs(t, l.Rebind(), net.ErrClosed)
		conserved(t, l.Stats().Up)
	}
}

// TestControlsTogether: concurrent controls under traffic do not disturb the link.
func TestControlsTogether(t *testing.T) {
	l := runs(t, Options{Target: echo(t), Up: anyDirection(t, seeds(1)), Down: anyDirection(t, seeds(2))})
	stop := make(chan struct{})
	var controls, traffic sync.WaitGroup
	for _, f := range []func(){
		func() { l.Blackhole(rand.IntN(2) == 0) },
		func() { conserved(t, l.Stats().Down) }, func() { _ = l.Rebind() },
	} {
		controls.Go(func() {
			for range 100 {
				f()
				came := l.Stats().Up.Packets
				await(func() bool { return l.Stats().Up.Packets > came })
			}
		})
	}
	for range 3 {
		c := dials(t, l)
		traffic.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = c.Write([]byte("traffic"))
					time.Sleep(100 * time.Microsecond) // limits the load
				}
			}
		})
	}
	controls.Wait()
	close(stop)
	traffic.Wait()
}

// BenchmarkRoundTrip measures the cost of the relay: datagrams of 1200 bytes there and back, one at a time.
func BenchmarkRoundTrip(b *testing.B) {
	l := runs(b, Options{Target: echo(b)})
	c := dials(b, l)
	data := strings.Repeat("x", 1200)
	for b.Loop() {
		say(b, c, data)
		hear(b, c)
	}
}

// BenchmarkEmulator measures the cost of deciding the fate of a packet.
func BenchmarkEmulator(b *testing.B) {
	for name, d := range map[string]Direction{
		"transparent": {},
		"everything":  {Delay: time.Millisecond, Loss: 0.1, Capacity: read(b, readCapacity, "0\n1\n")},
	} {
		b.Run(name, func(b *testing.B) {
			e, at := newEmulator(Options{Up: d}, directionUp), time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				at += time.Microsecond
				e.emulatePacket(at, 1200)
			}
		})
	}
}
