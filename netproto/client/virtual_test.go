package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// settle waits in virtual time until a new connection has its ticket.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestPausesInTime: pauses between attempts double from 50 ms to 5 s, with and without 0-RTT, and start again after a
// success.
func TestPausesInTime(t *testing.T) {
	var busy atomic.Bool
	var ends []time.Time
	var mu sync.Mutex
	s := &script{reply: always(1), hello: func(int) []byte {
		if busy.Load() {
			return refuse(netproto.Busy)
		}
		return nil
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, func(o *Options) {
			o.Attempted = func(error) {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Now())
			}
		})
		for round := range 3 {
			busy.Store(true)
			mu.Lock()
			ends = nil
			mu.Unlock()
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: 29 * time.Second})
			require.ErrorIs(t, err, netproto.TooLate)
			require.ErrorIs(t, err, netproto.Busy)
			synctest.Wait()
			mu.Lock()
			ends := slices.Clone(ends)
			mu.Unlock()
			require.Greater(t, len(ends), 8)
			require.Less(t, len(ends), 20)
			pause := 50 * time.Millisecond
			for i := 1; i < len(ends); i++ {
				gap := ends[i].Sub(ends[i-1]) - 4*a.hop // a handshake and the Hello
				assert.GreaterOrEqual(t, gap, pause*3/4-2*a.hop, "round %d, pause %d", round, i)
				assert.LessOrEqual(t, gap, pause*5/4+2*a.hop, "round %d, pause %d", round, i)
				pause = min(2*pause, 5*time.Second)
			}
			busy.Store(false)
			mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
			settle()
			c.mu.Lock()
			assert.Zero(t, c.failures)
			assert.NoError(t, c.failure)
			c.mu.Unlock()
			s.retire(c)
		}
	})
}

// TestDeadlineLeftInTime: each attempt sends only the remaining time of the deadline; without a deadline, none.
func TestDeadlineLeftInTime(t *testing.T) {
	s := &script{}
	asks := 0
	s.reply = func(int, netproto.Ask) []byte {
		if asks++; asks%3 != 0 {
			time.Sleep(50 * time.Millisecond)
			return netproto.Need{}.Append(nil)
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1, Queue: time.Millisecond,
			Compute: 2 * time.Millisecond}}.Append(nil)
	}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		begun := time.Now()
		r := mustAsk(t, session, terms.Question{Context: ids(20), Within: time.Second})
		attempt := 50*time.Millisecond + 2*a.hop
		for i := range 3 {
			assert.Equal(t, time.Second-time.Duration(i)*attempt, s.ask(i).Within)
		}
		assert.Equal(t, 2*attempt+2*a.hop, time.Since(begun))
		assert.Equal(t, time.Millisecond, r.Queue)
		assert.Equal(t, 2*time.Millisecond, r.Compute)
		mustAsk(t, session, terms.Question{Context: ids(20)})
		assert.Zero(t, s.ask(3).Within)
		past, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		assert.Equal(t, time.Millisecond, timeLeft(past), "0 means that there is no deadline")
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		_, err := session.Ask(ctx, terms.Question{Context: ids(20)})
		require.NoError(t, err)
		assert.Equal(t, 700*time.Millisecond, s.ask(6).Within, "the deadline of the caller")
	})
}

// TestTimeouts: timeouts are exact: an attempt to connect ends after ConnectTimeout, a wait for a connection after
// half a minute, an ask at its deadline.
func TestTimeouts(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		a.silence(true)
		took := func(call func() error) (time.Duration, error) {
			start := time.Now()
			err := call()
			return time.Since(start), err
		}
		for option, want := range map[time.Duration]time.Duration{
			0: 5 * time.Second, time.Second: time.Second, 20 * time.Second: 20 * time.Second,
		} {
			o := s.opt
			o.ConnectTimeout = option
			d, err := took(func() error { _, err := Dial(t.Context(), s.addr, o); return err })
			assert.Equal(t, want, d)
			assert.ErrorIs(t, err, ErrNoReply)
			assert.ErrorContains(t, err, "no reply from 10.0.0.1:4433 within "+want.String())
		}
		_, session := s.dial(t, nil)
		d, err := took(func() error {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3)})
			return err
		})
		assert.Equal(t, patience, d)
		assert.ErrorIs(t, err, ErrNoReply)
		assert.NotErrorIs(t, err, netproto.TooLate)
		d, err = took(func() error { _, _, err := session.Sync(t.Context(), ids(3)); return err })
		assert.Equal(t, patience, d)
		assert.ErrorIs(t, err, ErrNoReply)
		d, err = took(func() error {
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: 700 * time.Millisecond})
			return err
		})
		assert.Equal(t, 700*time.Millisecond, d)
		assert.ErrorIs(t, err, netproto.TooLate)
		assert.ErrorContains(t, err,
			"no connection to the gateway at 10.0.0.1:4433: no reply from 10.0.0.1:4433 within ")
	})
}

// TestNoWelcome: a gateway that replies but does not send Welcome in time is reported as such.
func TestNoWelcome(t *testing.T) {
	s := &script{mute: func(conn int) bool { return conn != 2 }, reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		o := s.opt
		o.ConnectTimeout = time.Second
		_, err := Dial(t.Context(), s.addr, o)
		require.ErrorContains(t, err, "10.0.0.1:4433 replies, but did not welcome us within 1s")
		o.Tickets = newCache()
		c, err := Dial(t.Context(), s.addr, o)
		require.NoError(t, err)
		settle()
		require.NoError(t, c.Close())
		var reported error
		var after time.Duration
		start := time.Now()
		o.Attempted = func(err error) { reported, after = err, time.Since(start) }
		c, err = Dial(t.Context(), s.addr, o)
		require.ErrorContains(t, err, "replies, but did not welcome us within 1s", "also with 0-RTT")
		assert.Nil(t, c)
		assert.ErrorIs(t, err, reported)
		assert.Equal(t, time.Second, after)

		reported, o.Lazy = nil, true
		c, err = Dial(t.Context(), s.addr, o)
		require.NoError(t, err)
		time.Sleep(o.ConnectTimeout / 2)
		require.NoError(t, c.Close())
		hellos, _ := s.count()
		assert.Equal(t, 4, hellos)
		assert.NoError(t, reported, "closing the client is not a failure of the gateway")
	})
}

// TestKeepAlive: a packet every ten seconds preserves an idle connection; a connection without replies ends after 30 s.
func TestKeepAlive(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		client, err := Dial(t.Context(), s.addr, s.opt)
		require.NoError(t, err)
		defer client.Close()
		client.mu.Lock()
		l := client.current
		client.mu.Unlock()
		settle()
		a.set(func() { a.sent = map[netip.AddrPort][]time.Time{} })
		time.Sleep(2 * time.Minute)
		assert.True(t, l.isUsable())
		a.set(func() {
			signs, last := 0, time.Time{}
			for _, at := range a.sent[gatewayAt] {
				if gap := at.Sub(last); gap > time.Second { // otherwise it answers an answer
					signs++
					assert.True(t, signs == 1 || gap > keepAlive-time.Second && gap < keepAlive+time.Second, "%v", gap)
				}
				last = at
			}
			assert.InDelta(t, int(2*time.Minute/keepAlive), signs, 2)
		})
		a.silence(true)
		time.Sleep(idleTimeout - keepAlive - time.Second)
		assert.True(t, l.isUsable())
		time.Sleep(idleTimeout)
		assert.False(t, l.isUsable())
		client.mu.Lock()
		assert.Empty(t, client.links, "it is dropped")
		client.mu.Unlock()
	})
}

// TestNetworkChanges: when the device sends from another address, its connection and its sessions continue there.
func TestNetworkChanges(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		_, session := s.dial(t, nil)
		for n, home := range []string{"10.1.1.1", "10.2.2.2", "10.3.3.3"} {
			a.set(func() {
				a.home = netip.MustParseAddr(home)
				a.lost = func(from, to netip.AddrPort) bool { return from.Addr() != a.home && to.Addr() != a.home }
			})
			_, err := session.Ask(t.Context(), terms.Question{Context: ids(3 + n), Within: time.Second})
			require.NoError(t, err, home)
			time.Sleep(time.Minute)
		}
		hellos, _ := s.count()
		assert.Equal(t, 1, hellos, "the same connection")
	})
}

// TestSilentExchange: if nothing arrives during an ask for more than 300 ms and three round trips, the route counts as
// broken, and the next ask uses a new connection. A shorter silence, or a slow gateway, does not.
func TestSilentExchange(t *testing.T) {
	for _, c := range []struct {
		name          string
		hop, deadline time.Duration
		silent, left  bool
	}{
		{"300 ms of silence", 10 * time.Millisecond, 300 * time.Millisecond, true, false},
		{"more than 300 ms of silence", 10 * time.Millisecond, 301 * time.Millisecond, true, true},
		{"three long round trips of silence", 100 * time.Millisecond, 600 * time.Millisecond, true, false},
		{"more than three long round trips of silence", 100 * time.Millisecond, 601 * time.Millisecond, true, true},
		{"a slow gateway", 10 * time.Millisecond, time.Second, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hold atomic.Bool
			s := &script{}
			s.reply = func(int, netproto.Ask) []byte {
				if hold.Load() {
					time.Sleep(time.Minute)
				}
				return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(nil)
			}
			inAir(t, s, func(t *testing.T, a *air) {
				a.hop = c.hop
				client, session := s.dial(t, nil)
				for range 50 { // to measure the round trip well
					mustAsk(t, session, terms.Question{Context: ids(3), Within: time.Minute})
				}
				settle()
				client.mu.Lock()
				l := client.current
				client.mu.Unlock()
				require.InDelta(t, 2*c.hop, l.qc.ConnectionStats().SmoothedRTT, float64(time.Millisecond)/10)
				a.silence(c.silent)
				hold.Store(true)
				start := time.Now()
				_, err := session.Ask(t.Context(), terms.Question{Context: ids(4), Within: c.deadline})
				require.ErrorIs(t, err, netproto.TooLate)
				assert.Equal(t, c.deadline, time.Since(start))
				assert.Equal(t, !c.left, l.isUsable())
				if c.left {
					assert.ErrorContains(t, err, "no reply from 10.0.0.1:4433 within "+c.deadline.String())
				} else {
					assert.EqualError(t, err, "ask: the deadline of the ask has passed", "and nothing else")
				}
			})
		})
	}
}

// TestProbes: probes find a closed port: after 50 ms of silence, and again after pauses that double.
func TestProbes(t *testing.T) {
	s := &script{hello: func(int) []byte { time.Sleep(time.Second); return nil }}
	inAir(t, s, func(t *testing.T, a *air) {
		c, err := Dial(t.Context(), s.addr, s.opt)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		a.set(func() { assert.Empty(t, a.probes, "the gateway has replied") })
		silent := "10.0.0.9:1"
		a.set(func() { a.began = time.Now() })
		_, err = Dial(t.Context(), silent, s.opt)
		require.ErrorIs(t, err, ErrNoReply)
		const ms = time.Millisecond
		want := [][2]time.Duration{{50 * ms, 50 * ms}, {150 * ms, 100 * ms}, {300 * ms, 200 * ms}, {550 * ms, 400 * ms},
			{1000 * ms, 800 * ms}, {1850 * ms, 1600 * ms}, {3500 * ms, 3200 * ms}}
		a.set(func() { assert.Equal(t, want, a.probes[netip.MustParseAddrPort(silent)]) })
		shut := netip.MustParseAddrPort("10.0.0.8:1")
		a.set(func() { a.closed[shut] = true })
		start := time.Now()
		_, err = Dial(t.Context(), shut.String(), s.opt)
		require.EqualError(t, err, "dial: no connection to the gateway at 10.0.0.8:1: connection refused")
		assert.Equal(t, 50*ms+2*a.hop, time.Since(start))
		a.set(func() { a.home = netip.Addr{} })
		_, err = Dial(t.Context(), s.addr, s.opt)
		require.EqualError(t, err,
			"dial: no connection to the gateway at 10.0.0.1:4433: write: sendto: network is unreachable")
	})
}

// TestAddresses: the addresses of a name are tried in order, IPv4 first, each for a fair share of the time; an error
// that would occur at all of them ends it.
func TestAddresses(t *testing.T) {
	s := &script{}
	inAir(t, s, func(t *testing.T, a *air) {
		address := netip.MustParseAddr
		dial := func(o Options, ips ...netip.Addr) (time.Duration, error) {
			a.set(func() { a.hosts["g"] = ips })
			start := time.Now()
			c, err := Dial(t.Context(), "g:4433", o)
			if err == nil {
				defer c.Close()
			}
			return time.Since(start), err
		}
		o := s.opt
		o.ConnectTimeout = 6 * time.Second
		d, err := dial(o, address("::9"), address("::ffff:10.0.0.8"), address("10.0.0.1"))
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second+4*a.hop, d, "a third of the time for the first address")
		d, err = dial(o, address("10.0.0.7"), address("10.0.0.8"), address("::9"))
		assert.Equal(t, 6*time.Second, d)
		for _, to := range []string{"10.0.0.7:4433", "10.0.0.8:4433", "[::9]:4433"} {
			assert.ErrorContains(t, err, "no reply from "+to+" within 2s")
		}
		assert.ErrorContains(t, err, "at g:4433: ")
		_, err = dial(o)
		assert.ErrorContains(t, err, "g has no address")
		o.Pin[0]++
		d, err = dial(o, address("10.0.0.1"), address("10.0.0.8"))
		wrong, ok := errors.AsType[*PinError](err)
		require.True(t, ok)
		assert.Equal(t, []netproto.Digest{o.Pin, s.opt.Pin}, []netproto.Digest{wrong.Want, wrong.Have})
		assert.Less(t, d, time.Second, "the other address is not tried")
	})
}

// TestWrongWelcome: the answer to a Hello is a Welcome or a Refusal; anything else breaks the protocol.
func TestWrongWelcome(t *testing.T) {
	for _, reply := range [][]byte{
		netproto.Ack{}.Append(nil), {byte(netproto.KindWelcome), 1, 2}, {byte(netproto.KindRefusal), 0},
		{byte(netproto.KindWelcome), 0x80, 0}, {byte(netproto.KindWelcome), 0x81, 0x40}, // 8193 bytes
	} {
		s := &script{hello: func(int) []byte { return reply }}
		inAir(t, s, func(t *testing.T, a *air) {
			o := s.opt
			o.ConnectTimeout = time.Second
			_, err := Dial(t.Context(), s.addr, o)
			assert.ErrorIs(t, err, ErrProtocol, "%x", reply)
		})
	}
}

// TestGated: a packet is noted when it arrives, and it is passed on when the gate is open: if there is no ticket, or
// after 100 ms.
func TestGated(t *testing.T) {
	for _, ticket := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			a := newAir()
			here, there := a.conn(netip.MustParseAddrPort("10.1.1.1:1")), a.conn(gatewayAt)
			defer here.Close()
			defer there.Close()
			conn := newGatedConn(here)
			x := &tickets{cache: newCache(), addr: "a:1"}
			if ticket {
				x.Put("a", new(tls.ClientSessionState))
			}
			start := time.Now()
			_, ok := gatedTickets{x, conn.open}.Get("a")
			assert.Equal(t, ticket, ok)
			assert.False(t, conn.heard.Load())
			for i := range 2 {
				_, err := there.WriteTo([]byte("hello"), here.LocalAddr())
				require.NoError(t, err)
				n, from, err := conn.ReadFrom(make([]byte, 10))
				require.NoError(t, err)
				assert.Equal(t, 5, n)
				assert.Equal(t, gatewayAt.String(), from.String())
				assert.True(t, conn.heard.Load())
				want := time.Duration(1+i) * a.hop
				if ticket {
					want = 100*time.Millisecond + time.Duration(i)*a.hop
				}
				assert.Equal(t, want, time.Since(start))
			}
		})
	}
}

// TestTooLateAfterFailure: the error of an ask that ends before the Welcome also contains the cause of the previous
// failure.
func TestTooLateAfterFailure(t *testing.T) {
	s := &script{reply: always(1), mute: func(conn int) bool { return conn > 2 }, hello: func(conn int) []byte {
		if conn == 2 {
			time.Sleep(100 * time.Millisecond) // the ticket of the next connection arrives meanwhile
			return netproto.Refusal{Code: netproto.Busy, Detail: "come later"}.Append(nil)
		}
		return nil
	}}
	inAir(t, s, func(t *testing.T, a *air) {
		c, session := s.retired(t)
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Second})
		require.ErrorIs(t, err, netproto.TooLate)
		assert.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "come later")
		hellos, _ := s.count()
		assert.Equal(t, 3, hellos, "the deadline passed on the last one")
		assert.Equal(t, 3, c.Stats().Connections, "the deadline passed on the last one")
	})
}

// TestClosedLater: a port that closes later is also reported with 0-RTT, and costs no ticket.
func TestClosedLater(t *testing.T) {
	s := &script{reply: always(1)}
	inAir(t, s, func(t *testing.T, a *air) {
		var seen attempts
		c, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
		_, err := c.Connect(t.Context())
		require.NoError(t, err)
		settle()
		s.retire(c)
		a.silence(true)
		a.set(func() { a.closed[gatewayAt] = true })
		_, err = session.Ask(t.Context(), terms.Question{Context: ids(4), Within: 2 * time.Second})
		require.ErrorIs(t, err, netproto.TooLate)
		require.EqualError(t, err, "ask: "+netproto.TooLate.Error()+
			": no connection to the gateway at 10.0.0.1:4433: connection refused")
		assert.Greater(t, len(seen.get()), 3, "each closed port is found within 70 ms")
		a.silence(false)
		mustAsk(t, session, terms.Question{Context: ids(4), Within: time.Minute})
		settle()
		assert.Equal(t, 1, c.Stats().Early)
	})
}

// TestLongestTexts: the longest name of a model and the longest detail arrive; a longer message ends the connection.
func TestLongestTexts(t *testing.T) {
	long := strings.Repeat("x", 1024)
	welcome := netproto.Welcome{Model: long}.Append(nil)
	s := &script{hello: func(int) []byte { return welcome }}
	inAir(t, s, func(t *testing.T, a *air) {
		for i, b := range [][]byte{
			netproto.Refusal{Code: netproto.Draining, Detail: long}.Append(nil),
			{byte(netproto.KindRefusal), 0x81, 0x20}, // 4097 bytes
		} {
			c, _ := s.dial(t, nil)
			w, err := c.Connect(t.Context())
			require.NoError(t, err)
			assert.Equal(t, long, w.Model)
			l, err := c.waitForLink(t.Context())
			require.NoError(t, err)
			l.startRequest() // else draining ends the connection, too
			_, err = s.controls[i].Write(b)
			require.NoError(t, err)
			settle()
			assert.False(t, l.isUsable())
			assert.Equal(t, i == 0, l.qc.Context().Err() == nil)
			l.finishRequest()
		}
	})
}
