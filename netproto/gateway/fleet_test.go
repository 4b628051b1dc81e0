package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const secretA, secretB = netproto.Secret("0123456789abcdef"), netproto.Secret("fedcba9876543210")

// TestClientNumbers: the number of a client is that of its access token, or of its address on an open gateway: for all
// devices, asks and syncs, and again after a restart.
func TestClientNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		tokens []gateway.Token
		guests [3]guest // the first two are of one client
	}{
		"tokens": {[]gateway.Token{{Name: "a", Secret: secretA}, {Name: "b", Secret: secretB}}, [3]guest{
			{secret: secretA, device: 1}, {secret: secretA, device: 2}, {secret: secretB, device: 1}}},
		"addresses": {nil, [3]guest{
			{from: "10.2.0.1", device: 1}, {from: "10.2.0.1", device: 2}, {from: "10.2.0.2", device: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen [2][]uint64
			for run := range seen {
				up := &fake{}
				inWorld(t, gateway.Options{Tokens: c.tokens}, up, func(t *testing.T, w *world) {
					for i, g := range c.guests {
						r := w.enter(g)
						r.asks(1, path(10, 1))
						r.say(syncOf(t, 2, path(9, 1)))
						settle()
						assert.Equal(t, up.asked[i].Client, up.warmed[i].Client)
						seen[run] = append(seen[run], up.asked[i].Client)
					}
				})
			}
			assert.Equal(t, seen[0], seen[1])
			assert.Equal(t, seen[0][0], seen[0][1])
			assert.NotEqual(t, seen[0][0], seen[0][2])
		})
	}
}

// TestTokenDevices: an access token has its own limit of devices. A connected device may connect again, and the place
// of a disconnected one, or of one with a refused Hello, is free.
func TestTokenDevices(t *testing.T) {
	opt := gateway.Options{Tokens: []gateway.Token{
		{Name: "few", Secret: secretA, MaxDevices: 2}, {Name: "free", Secret: secretB},
	}}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		full := netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second,
			Detail: "all 2 devices that this access token allows are connected"}
		for range 3 {
			w.turned(guest{secret: secretA, device: 9, hello: func(h *netproto.Hello) { h.Identity.Vocab++ }},
				netproto.WrongTokenizer)
		}
		first, second := w.enter(guest{secret: secretA, device: 1}), w.enter(guest{secret: secretA, device: 2})
		assert.Equal(t, full, w.turned(guest{secret: secretA, device: 3}, netproto.Busy))
		assert.Equal(t, full, w.turned(guest{secret: secretA}, netproto.Busy), "a device without an id is a new one")
		w.enter(guest{secret: secretB, device: 3})
		again := w.enter(guest{secret: secretA, device: 1})
		_ = again.CloseWithError(0, "") // one of its two connections
		settle()
		w.turned(guest{secret: secretA, device: 3}, netproto.Busy)
		_ = first.CloseWithError(0, "")
		settle()
		w.enter(guest{secret: secretA, device: 3})
		w.turned(guest{secret: secretA, device: 1}, netproto.Busy)
		w.enter(guest{secret: secretA, device: 2})
		_ = second.CloseWithError(0, "")
		settle()
		w.turned(guest{secret: secretA, device: 1}, netproto.Busy)
	})
}

// TestRefusedHello: the refusal of a Hello tells a stranger nothing about the model, and displaces no connection.
func TestRefusedHello(t *testing.T) {
	opt := gateway.Options{Tokens: []gateway.Token{{Name: "a", Secret: secretA}}}.With(
		gateway.Shares{MaxConnsPerDevice: 1})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		other := func(h *netproto.Hello) { h.Identity.Vocab++ }
		w.turned(guest{secret: secretB, hello: other}, netproto.WrongSecret)
		r := w.enter(guest{secret: secretA, device: 1})
		w.turned(guest{secret: secretA, device: 1, hello: other}, netproto.WrongTokenizer)
		r.asks(1, path(5, 1))
	})
}

// TestDeviceRate: the rate of a device is not restored when it reconnects, neither at once nor after the gateway has
// tidied up; it recovers with time.
func TestDeviceRate(t *testing.T) {
	opt := gateway.Options{DeviceRate: 0.01,
		Tokens: []gateway.Token{{Name: "all", Secret: secretA}}}.With(gateway.Shares{SessionIdle: 8 * time.Second})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		visit := func(device byte) int {
			r := w.enter(guest{device: device, secret: secretA})
			n := answers(t, r, 12)
			_ = r.CloseWithError(0, "")
			settle()
			return n
		}
		assert.Equal(t, 8, visit(1))
		assert.Equal(t, 0, visit(1))
		time.Sleep(30 * time.Second) // longer than SessionIdle, more than once
		assert.Equal(t, 0, visit(1))
		assert.Equal(t, 8, visit(2))
		time.Sleep(100 * time.Second)
		assert.Equal(t, 1, visit(1))
		time.Sleep(801 * time.Second)
		devices, _ := w.Known()
		assert.Zero(t, devices, "disconnected devices with recovered rates are dropped")
		assert.Equal(t, 8, visit(1))
	})
}

// answers asks a number of times and returns the number of answers; the other asks are refused as too fast.
func answers(t *testing.T, r *raw, times int) (n int) {
	t.Helper()
	for i := range times {
		if _, err := r.try(packed(t, 1, 0, netproto.RootHash, path(5, int32(i)))); err == nil {
			n++
		} else {
			assert.ErrorIs(t, err, netproto.TooFast)
			assert.Positive(t, err.(interface{ Unwrap() []error }).Unwrap()[0].(netproto.Refusal).RetryAfter)
		}
	}
	return n
}

// TestTokenRate: asks above the rate of an access token are refused with the time to wait, and other tokens are not
// affected. The rate is shared by all devices of the token, for asks and syncs.
func TestTokenRate(t *testing.T) {
	opt := gateway.Options{Tokens: []gateway.Token{
		{Name: "slow", Secret: secretA, AskRate: 4}, {Name: "free", Secret: secretB},
	}}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		one, two := w.enter(guest{secret: secretA}), w.enter(guest{secret: secretA})
		free := w.enter(guest{secret: secretB})
		ask := func(i int) []byte { return packed(t, 1, 0, netproto.RootHash, path(5, int32(i))).Append(nil) }
		time.Sleep(time.Minute)
		one.say(ask(1))
		kind, _ := two.say(syncOf(t, 1, path(5, 1)))
		assert.Equal(t, netproto.KindAck, kind)
		for i := range 6 {
			two.say(ask(2 + i))
		}
		// Eight asks arrived within 75 ms, one every 10 ms, and that much of the 250 ms for the next one has passed.
		wait := one.refused(ask(3), netproto.TooFast).RetryAfter
		assert.Equal(t, 170*time.Millisecond, wait)
		wait = two.refused(syncOf(t, 1, path(6, 1)), netproto.TooFast).RetryAfter
		assert.Equal(t, 160*time.Millisecond, wait)
		time.Sleep(wait)
		one.asks(1, path(5, 4))
		one.refused(ask(5), netproto.TooFast)
		for i := range 20 {
			free.asks(1, path(5+i, 1))
		}
	})
}

// TestSyncRate: text that is sent early has its own rate: 64 at once, then 16 per second. Refused syncs do not count
// for other rates.
func TestSyncRate(t *testing.T) {
	opt := gateway.Options{DeviceRate: 50, Tokens: []gateway.Token{{Name: "a", Secret: secretA}}}.With(
		gateway.Shares{SessionIdle: 8 * time.Second})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		r := w.enter(guest{secret: secretA, device: 1})
		began := time.Now()
		var all []*quic.Stream
		for i := range 70 {
			all = append(all, r.send(syncOf(t, 1, path(20, int32(i)))))
		}
		kinds := map[netproto.Kind]int{}
		for _, s := range all {
			kind, b := r.hear(s)
			kinds[kind]++
			if kind == netproto.KindRefusal {
				refusal, _, err := netproto.ParseRefusal(b)
				require.NoError(t, err)
				assert.Equal(t, netproto.TooFast, refusal.Code)
				assert.Equal(t, "text is sent early too often", refusal.Detail)
				assert.InDelta(t, 62, refusal.RetryAfter.Milliseconds(), 20)
			}
		}
		require.Less(t, time.Since(began), 62*time.Millisecond)
		assert.Equal(t, map[netproto.Kind]int{netproto.KindAck: 64, netproto.KindRefusal: 6}, kinds)
		_ = r.CloseWithError(0, "")
		settle()
		r = w.enter(guest{secret: secretA, device: 1}) // reconnecting does not restore it
		taken := 0
		for i := range 10 {
			if kind, _ := r.say(syncOf(t, 1, path(20, int32(i)))); kind == netproto.KindAck {
				taken++
			}
		}
		assert.InDelta(t, 4, taken, 1, "0.2 s for connecting, and 10 ms each")
		answered := answers(t, r, 200)
		assert.InDelta(t, 100-64-float64(taken)+50*time.Since(began).Seconds(), answered, 2,
			"refused syncs did not use the rate of asks")
	})
}

// TestScan: a device that guesses sessions of others finds none, learns nothing, and is disconnected.
func TestScan(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		victim, secret := w.enter(guest{device: 1}), path(50, 1)
		victim.asks(77, secret)
		scanner := w.enter(guest{device: 2})
		guess := func(i int) []byte {
			return packed(t, 77, 1+i%60, netproto.RootHash.Over(secret[:1+i%50]), []int32{1}).Append(nil)
		}
		for i := range 64 {
			require.Equal(t, netproto.Need{Hash: netproto.RootHash}, scanner.needs(guess(i)))
		}
		settle()
		require.NoError(t, scanner.Context().Err())
		scanner.send(guess(64))
		assert.Equal(t, netproto.TooFast, scanner.ends())
		assert.Len(t, up.asked, 1)
		victim.goesOn(77, secret, []int32{1}) // the victim continues
	})
}

// TestStrikes: an answer offsets one guess. Asks that are neither answered nor refused do not count.
func TestStrikes(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		up.hold, up.holdOnly = make(chan struct{}), 13
		r := w.enter(guest{})
		guess := packed(t, 1, 7, 1234, []int32{1}).Append(nil)
		for range 3 { // answers before the guesses do not count
			r.asks(2, path(5, 1))
		}
		for range 64 {
			r.needs(guess)
		}
		settle()
		r.asks(2, path(5, 1))
		r.refused(nil, netproto.Malformed)
		kind, _ := r.say(syncOf(t, 3, path(5, 1)))
		require.Equal(t, netproto.KindAck, kind)
		for range 10 { // cancelled asks
			s := r.send(packed(t, 4, 0, netproto.RootHash, []int32{13}).Append(nil))
			settle()
			s.CancelRead(1)
			settle()
		}
		r.needs(guess)
		settle()
		require.NoError(t, r.Context().Err())
		r.send(guess)
		assert.Equal(t, netproto.TooFast, r.ends())
	})
}

// TestNewTokensCount: devices share the model by the new tokens of their asks: a long known text costs nothing.
func TestNewTokensCount(t *testing.T) {
	up := &fake{parallel: 1}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		one, two, three := w.enter(guest{}), w.enter(guest{}), w.enter(guest{})
		text := path(1000, 1)
		for _, r := range []*raw{one, two, three} { // so that all have used the same amount
			r.asks(1, text)
		}
		up.hold = make(chan struct{})
		one.send(whole(t, 2, path(5, 1)).Append(nil))
		settle()
		two.send(whole(t, 2, path(50, 2)).Append(nil))
		settle()
		three.send(packed(t, 1, 1000, netproto.RootHash.Over(text), []int32{1}).Append(nil))
		settle()
		close(up.hold)
		settle()
		require.Len(t, up.asked, 6)
		assert.Len(t, up.asked[4].Context, 1001)
		assert.Len(t, up.asked[5].Context, 50)
	})
}

// TestNeedTellsNothing: even with the device's secret, a connection learns from Need nothing about a session that it
// has not sent.
func TestNeedTellsNothing(t *testing.T) {
	inWorld(t, gateway.Options{}, &fake{}, func(t *testing.T, w *world) {
		text := path(50, 1)
		one, two := w.enter(guest{device: 1}), w.enter(guest{device: 1})
		kind, _ := one.say(syncOf(t, 5, text))
		require.Equal(t, netproto.KindAck, kind)
		wrong := packed(t, 5, 7, 1234, []int32{1}).Append(nil)
		settled := netproto.Need{Position: 50, Hash: netproto.RootHash.Over(text)}
		assert.Equal(t, settled, one.needs(wrong))
		assert.Equal(t, netproto.Need{Hash: netproto.RootHash}, two.needs(wrong))
		two.goesOn(5, text, []int32{3})
		assert.Equal(t, settled, two.needs(wrong), "it has sent the session now")
	})
}

// TestLockout: idle connections from many addresses, without asks, lock no client out.
func TestLockout(t *testing.T) {
	const limit = 24
	inWorld(t, gateway.Options{MaxConns: limit}, &fake{}, func(t *testing.T, w *world) {
		first := w.enter(guest{})
		first.asks(1, path(5, 1))
		var idle []*raw
		for i := range limit + 16 {
			g := guest{from: fmt.Sprintf("10.2.0.%d", 1+i%16)}
			if i%3 > 0 {
				idle = append(idle, w.enter(g))
				continue
			}
			r := w.dial(g) // it does not even send Hello
			_, err := r.control.Write([]byte{byte(netproto.KindHello)})
			require.NoError(t, err)
			idle = append(idle, r)
		}
		w.enter(guest{}).asks(1, path(5, 2))
		first.goesOn(1, path(5, 1), []int32{6})
		settle()
		open := slices.DeleteFunc(idle, func(r *raw) bool { return r.Context().Err() != nil })
		assert.Len(t, open, limit-2)
		assert.Equal(t, limit, w.Conns())
	})
}

// TestStrangers: strangers must prove their address only while more than a quarter of the connections have not sent
// Hello. A connection that ends without Hello no longer counts.
func TestStrangers(t *testing.T) {
	opt := gateway.Options{MaxConns: 12, MessageTimeout: 3 * time.Second}.With(
		gateway.Shares{MaxConnsPerAddress: 12, MaxConnsPerDevice: 1})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		proofs := w.proofs()
		for range 4 {
			w.turned(guest{hello: func(h *netproto.Hello) { h.Version = 9 }}, netproto.WrongVersion)
			w.enter(guest{})
			silent, gone := w.dial(guest{}), w.dial(guest{})
			_ = gone.CloseWithError(0, "")
			assert.Equal(t, netproto.Malformed, silent.ends())
			settle()
		}
		assert.Zero(t, proofs.Load())
		var strangers []*raw
		for range 4 {
			strangers = append(strangers, w.dial(guest{}))
		}
		assert.Zero(t, proofs.Load(), "three of twelve are not more than a quarter")
		strangers = append(strangers, w.dial(guest{}))
		assert.Positive(t, proofs.Load())
		for _, r := range strangers {
			_, err := r.control.Write(guest{}.greeting())
			require.NoError(t, err)
		}
		settle()
		proofs.Store(0)
		w.enter(guest{})
		assert.Zero(t, proofs.Load())
	})
}

// proofs counts from now on how often a client must prove its address.
func (w *world) proofs() *atomic.Int64 {
	n := new(atomic.Int64)
	w.ether.watch(func(p packet) bool {
		if p.from == addrPort(w.at) && p.bytes[0]&0xf0 == 0xf0 { // a Retry of QUIC 1
			n.Add(1)
		}
		return false
	})
	return n
}

// TestSyncFlood: endless text that is sent early is computed early in small parts, and delays no ask. A device that
// does not stop is disconnected.
func TestSyncFlood(t *testing.T) {
	up := &warming{fake: &fake{parallel: 64}}
	inWorld(t, gateway.Options{AskTimeout: time.Hour}, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		flood, calm, second := w.enter(guest{}), w.enter(guest{}), w.enter(guest{})
		for i := range uint32(20) {
			kind, _ := flood.say(syncOf(t, i, path(200, int32(i))))
			require.Equal(t, netproto.KindAck, kind)
			calm.asks(1, path(20+int(i), 1))
		}
		assert.Equal(t, 2, up.running(), "the latest text and the previous one")
		second.say(syncOf(t, 1, path(200, 1)))
		settle()
		assert.Equal(t, 3, up.running(), "another device has its own")
		close(up.hold)
		settle()
		assert.Zero(t, up.running())
		up.mu.Lock()
		up.hold = make(chan struct{})
		up.mu.Unlock()
		for i := range int32(5) {
			flood.say(syncOf(t, 1, path(200, 100+i)))
		}
		settle()
		assert.Equal(t, 2, up.running(), "there is room again")
		for i := range 400 {
			s, err := flood.OpenStreamSync(t.Context())
			if err != nil {
				require.Greater(t, i, 64)
				break
			}
			_, _ = s.Write(syncOf(t, 1, path(20, int32(i))))
			_ = s.Close()
		}
		assert.Equal(t, netproto.TooFast, flood.ends())
	})
}

// TestSyncWhileBusy: computing early takes no place that an ask could use, and does not wait for one.
func TestSyncWhileBusy(t *testing.T) {
	up := &fake{parallel: 1}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		busy, early := w.enter(guest{}), w.enter(guest{})
		s := busy.send(packed(t, 1, 0, netproto.RootHash, path(5, 1)).Append(nil))
		settle()
		for i := range uint32(5) {
			kind, _ := early.say(syncOf(t, 1+i, path(200, 1)))
			require.Equal(t, netproto.KindAck, kind)
			settle()
		}
		close(up.hold)
		kind, _ := busy.hear(s)
		require.Equal(t, netproto.KindAnswer, kind)
		settle()
		assert.Empty(t, up.warmed)
		early.say(syncOf(t, 1, path(201, 1)))
		settle()
		assert.Len(t, up.warmed, 1)
	})
}

// warming counts concurrent calls of Warm, which return when hold is closed.
type warming struct {
	*fake
	hold chan struct{}
	now  int
}

func (w *warming) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *warming) Warm(ctx context.Context, _ terms.Job) error {
	w.mu.Lock()
	w.now++
	hold := w.hold
	w.mu.Unlock()
	select {
	case <-hold:
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.now--
	w.mu.Unlock()
	return nil
}

// TestManySessions: a connection that uses more than 1024 sessions learns less from Need, and recovers by sending them
// again.
func TestManySessions(t *testing.T) {
	opt := gateway.Options{}.With(gateway.Shares{MaxSessionsPerDevice: 3000})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		r, other := w.enter(guest{device: 1}), w.enter(guest{device: 1})
		text := path(5, 1)
		kind, _ := other.say(syncOf(t, 1, text))
		require.Equal(t, netproto.KindAck, kind)
		for session := range uint32(1024) {
			r.asks(1+session, text)
		}
		need := func(session uint32) int {
			return r.needs(packed(t, session, 7, 1234, []int32{1}).Append(nil)).Position
		}
		assert.Equal(t, 5, need(1))
		assert.Equal(t, 0, need(2), "tokens of asks are not settled")
		r.asks(1025, text)
		assert.Equal(t, 0, need(1))
		r.asks(1, text)
		assert.Equal(t, 5, need(1))
	})
}

// TestAddressRate: on an open gateway anybody can invent devices, so the rate is per address, and is not restored by
// reconnecting either.
func TestAddressRate(t *testing.T) {
	opt := gateway.Options{DeviceRate: 0.01}.With(gateway.Shares{SessionIdle: 8 * time.Second})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		visit := func(from string) int {
			r := w.enter(guest{from: from})
			n := answers(t, r, 5)
			_ = r.CloseWithError(0, "")
			settle()
			return n
		}
		assert.Equal(t, []int{5, 3, 0}, []int{visit("10.2.0.1"), visit("10.2.0.1"), visit("10.2.0.1")})
		assert.Equal(t, 5, visit("10.2.0.2"))
		time.Sleep(30 * time.Second)
		assert.Equal(t, 0, visit("10.2.0.1"))
		time.Sleep(801 * time.Second)
		_, places := w.Known()
		assert.Zero(t, places)
		assert.Equal(t, 5, visit("10.2.0.1"))
	})
}
