package link

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a target that sends every datagram back to where it came from.
func echo(t testing.TB) *net.UDPConn {
	t.Helper()
	conn := socket(t)
	go func() {
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	return conn
}

// socket is a socket of loopback that is closed with the test.
func socket(t testing.TB) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	enlarge(conn)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// running is a link that runs until the test ends.
func running_(t testing.TB, o Options) *Link {
	t.Helper()
	l, err := New(o)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, <-ended)
	})
	return l
}

func TestLatenessX(t *testing.T) {
	for _, gap := range []time.Duration{100 * time.Microsecond, time.Millisecond, 7 * time.Millisecond} {
		l := running_(t, Options{Target: echo(t).LocalAddr().String(), Up: Direction{Delay: 20 * time.Millisecond}, Down: Direction{Delay: 20 * time.Millisecond}})
		c, err := net.DialUDP("udp", nil, l.Addr())
		require.NoError(t, err)
		var all []time.Duration
		n := 300
		done := make(chan bool)
		base := time.Now()
		go func() {
			buf := make([]byte, 100)
			for range n {
				_, err := c.Read(buf)
				if err != nil {
					return
				}
				all = append(all, time.Since(base)-time.Duration(binary.LittleEndian.Uint64(buf))-40*time.Millisecond)
			}
			close(done)
		}()
		for range n {
			b := binary.LittleEndian.AppendUint64(nil, uint64(time.Since(base)))
			c.Write(b)
			time.Sleep(gap)
		}
		<-done
		slices.Sort(all)
		s := l.Stats()
		t.Log(gap, all[0], all[n/2], all[n*9/10], all[n*99/100], all[n-1], s.Up.LateTotal/time.Duration(s.Up.Delivered), s.Up.LateMax)
	}
}
