package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHostile: a hostile client gets an error code, and another client gets its answers, during and after the attack.
func TestHostile(t *testing.T) {
	for name, attack := range map[string]func(w *world){
		"datagrams": hostileDatagrams, "control stream": hostileControl, "hello": hostileHello, "asks": hostileAsks,
		"order": hostileOrder, "bytes on streams": hostileBytes, "streams that stay open": hostileStreams,
		"many streams": hostileFlood, "unread answers": hostileReader, "control stream later": hostileLater,
	} {
		t.Run(name, func(t *testing.T) {
			opt := gateway.Options{MessageTimeout: 500 * time.Millisecond}.With(
				gateway.Shares{MaxStreams: 32, MaxConnsPerDevice: 200})
			inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
				honest, text := w.enter(guest{}), path(100, 1)
				honest.asks(1, text)
				calm := bystander(w)
				attack(w)
				assert.Positive(t, calm())
				honest.goesOn(1, text, []int32{1, 2, 3}) // its session is unchanged
			})
		})
	}
}

// bystander asks one question after the other until stop is called, which returns the number of answers.
func bystander(w *world) (stop func() int) {
	r := w.enter(guest{})
	over, calm := make(chan struct{}), make(chan int)
	go func() {
		answered := 0
		defer func() { calm <- answered }()
		for i := int32(0); ; i++ {
			select {
			case <-over:
				return
			default:
			}
			p := path(30, i)
			a, err := r.try(packed(w.t, 1, 0, netproto.RootHash, p))
			if !assert.NoError(w.t, err) || !assert.Equal(w.t, tokenAfter(p), a.Token) {
				return
			}
			answered++
		}
	}()
	return func() int {
		close(over)
		return <-calm
	}
}

func hostileDatagrams(w *world) {
	socket := w.ether.listen(w.t, "10.9.9.9:9")
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1400)
	for range 2000 {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 {
			copy(b, []byte{0xc3, 0, 0, 0, 1, 8}) // the head of an Initial packet of QUIC 1
		}
		w.ether.send(packet{from: socket.at, to: addrPort(w.at), bytes: bytes.Clone(b[:1+r.IntN(len(b))])})
		time.Sleep(100 * time.Microsecond)
	}
	time.Sleep(time.Second)
	assert.Equal(w.t, 2, w.Conns())
}

func hostileControl(w *world) {
	for _, c := range []struct {
		name string
		b    []byte
		want netproto.Code
	}{
		{"nothing", nil, netproto.Malformed},
		{"a Bye", netproto.Bye{}.Append(nil), netproto.Malformed},
		{"a Welcome", netproto.Welcome{}.Append(nil), netproto.Malformed},
		{"4 MiB", []byte{byte(netproto.KindHello), 0xff, 0xff, 0xff, 0x01, 1, 2, 3}, netproto.TooLarge},
		{"8193 bytes", []byte{byte(netproto.KindHello), 0x81, 0x40, 1, 2, 3}, netproto.TooLarge},
		{"8192 bytes that never arrive", []byte{byte(netproto.KindHello), 0x80, 0x40, 1, 2, 3}, netproto.Malformed},
	} {
		r := w.dial(guest{})
		if len(c.b) > 0 {
			_, _ = r.control.Write(c.b) // the gateway may close before the end
		}
		assert.Equal(w.t, c.want, r.ends(), c.name)
	}
}

func hostileHello(w *world) {
	for _, c := range []struct {
		name   string
		change func(*netproto.Hello)
		want   netproto.Code
	}{
		{"another vocabulary", func(h *netproto.Hello) { h.Identity.Vocab = 1 << 23 }, netproto.WrongTokenizer},
		{"no identity", func(h *netproto.Hello) { h.Identity = netproto.Identity{} }, netproto.WrongTokenizer},
		{"a long secret",
			func(h *netproto.Hello) { h.Secret = netproto.Secret(bytes.Repeat([]byte{'x'}, 5000)) }, netproto.TooLarge},
	} {
		assert.Equal(w.t, netproto.Refusal{Code: c.want}, w.turned(guest{hello: c.change}, c.want), c.name)
	}
}

func hostileAsks(w *world) {
	t := w.t
	r := w.enter(guest{device: 7})
	r.refused(packed(t, 1, 0, netproto.RootHash, make([]int32, 4097)).Append(nil), netproto.TooLarge)
	for _, kind := range []netproto.Kind{netproto.KindAsk, netproto.KindSync} {
		r.refused([]byte{byte(kind), 1, 7}, netproto.Malformed) // complete but invalid
	}
	claimed := packed(t, 1, 0, netproto.RootHash, nil)
	claimed.Path.Delta.Count = 1 << 20
	r.refused(claimed.Append(nil), netproto.TooLarge)
	r.refused(packed(t, 1, 0, netproto.RootHash, nil).Append(nil), netproto.TooLarge) // no context at all
	claimed.Path.Delta = netproto.Delta{Count: 4000, Coding: netproto.Zstd, Bytes: bytes.Repeat([]byte{7}, 100)}
	r.refused(claimed.Append(nil), netproto.Malformed)
	claimed.Path.Delta = netproto.Delta{Count: 4000, Bytes: make([]byte, 1<<17)}
	r.refused(claimed.Append(nil), netproto.TooLarge)
	for i := range 20 { // bases that it never sent
		b := packed(t, uint32(i%3), 1+i*7, netproto.Hash(i), []int32{1}).Append(nil)
		require.Equal(t, netproto.Need{Hash: netproto.RootHash}, r.needs(b))
	}
	held := path(20, 1)
	r.asks(1, held)
	r.goesOn(1, held, []int32{1})
	right := netproto.RootHash.Over(held)
	// a known base with another hash, another length, or in another session
	for _, wrong := range []netproto.Ask{
		packed(t, 1, 20, right^1, []int32{1}), packed(t, 1, 19, right, []int32{1}), packed(t, 2, 20, right, []int32{1}),
		packed(t, 1, 20, netproto.RootHash, []int32{1}),
	} {
		r.needs(wrong.Append(nil))
	}
	w.enter(guest{device: 7}).goesOn(1, held, []int32{1}) // the same device on another connection
}

// hostileOrder: a stream waits for a base that an earlier stream may still send; otherwise the base is requested.
func hostileOrder(w *world) {
	r, p := w.enter(guest{}), path(40, 3)
	first := packed(w.t, 5, 0, netproto.RootHash, p).Append(nil)
	early := r.begin(first[:10])
	kinds := make(chan netproto.Kind, 2)
	for _, base := range []int{40, 39} {
		go func() {
			kind, _ := r.say(packed(w.t, 5, base, netproto.RootHash.Over(p[:40]), []int32{1, 2}).Append(nil))
			kinds <- kind
		}()
	}
	time.Sleep(400 * time.Millisecond)
	assert.Empty(w.t, kinds, "before the base can be known")
	_, err := early.Write(first[10:])
	require.NoError(w.t, err)
	assert.ElementsMatch(w.t,
		[]netproto.Kind{netproto.KindAnswer, netproto.KindNeed}, []netproto.Kind{<-kinds, <-kinds})
}

// hostileStreams: incomplete messages are refused after a timeout; the number of streams is limited.
func hostileStreams(w *world) {
	r := w.enter(guest{})
	var open []*quic.Stream
	for {
		s, err := r.OpenStream()
		if err != nil {
			break
		}
		_, err = s.Write([]byte{byte(netproto.KindAsk), 0x20, 1, 2})
		require.NoError(w.t, err)
		open = append(open, s)
	}
	assert.Len(w.t, open, 32)
	_, err := r.OpenUniStream()
	require.Error(w.t, err, "unidirectional streams are refused")
	began := time.Now()
	for _, s := range open {
		kind, _ := r.hear(s)
		assert.Equal(w.t, netproto.KindRefusal, kind)
	}
	assert.Equal(w.t, 510*time.Millisecond, time.Since(began).Round(time.Millisecond))
	settle()
	r.asks(1, path(5, 1)) // the streams are free again
}

// hostileFlood: thousands of streams as fast as possible: the connection is closed.
func hostileFlood(w *world) {
	r := w.enter(guest{})
	for i := range 5000 {
		s, err := r.OpenStreamSync(w.t.Context())
		if err != nil {
			require.Greater(w.t, i, 64)
			assert.Equal(w.t, netproto.TooFast, r.ends())
			return
		}
		s.CancelRead(1)
		if _, err := s.Write([]byte{byte(netproto.KindAsk)}); err == nil {
			s.CancelWrite(1)
		}
	}
	w.t.Error("5000 streams without an ask, and the connection is open")
}

// hostileReader: answers that are not read, on a connection with minimal windows.
func hostileReader(w *world) { unread(w, 30) }

// unread asks for large answers and reads none.
func unread(w *world, asks int) (answers []*quic.Stream) {
	r := w.enter(guest{quic: quic.Config{
		InitialStreamReceiveWindow: 1, MaxStreamReceiveWindow: 1, InitialConnectionReceiveWindow: 64,
		MaxConnectionReceiveWindow: 64, MaxIdleTimeout: time.Hour,
	}})
	for i := range asks {
		a := packed(w.t, 1, 0, netproto.RootHash, path(1500, int32(i)))
		a.K, a.AuditFrom = netproto.MaxK, 1
		answers = append(answers, r.send(a.Append(nil)))
	}
	return answers
}

// critic is a large model with a different choice for every token, so that its answers are long.
type critic struct{ *fake }

func (c critic) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	a, err := c.fake.Ask(ctx, q)
	a.Audit = nil
	for i := q.AuditFrom; i < len(q.Context); i++ {
		a.Audit = append(a.Audit, terms.Finding{Pos: i, Token: 7, LogProb: -1})
	}
	return a, err
}

// TestSlowReader: a client that does not read delays neither its asks, which time out, nor the end of the gateway.
func TestSlowReader(t *testing.T) {
	const asks = 30
	opt := gateway.Options{IdleTimeout: time.Minute,
		MessageTimeout: 3 * time.Second}.With(gateway.Shares{DrainTimeout: time.Minute, MaxStreams: asks})
	inWorld(t, opt, critic{&fake{}}, func(t *testing.T, w *world) {
		answers := unread(w, asks)
		time.Sleep(opt.MessageTimeout - 100*time.Millisecond)
		assert.Empty(t, w.eventsOf(gateway.Dropped))
		time.Sleep(time.Second)
		dropped := w.eventsOf(gateway.Dropped)
		assert.Len(t, dropped, asks, "answers longer than a packet are dropped")
		for _, e := range dropped {
			require.ErrorIs(t, e.Err, netproto.Cancelled)
		}
		for _, s := range answers {
			_, err := io.ReadAll(s)
			var cut *quic.StreamError
			require.ErrorAs(t, err, &cut)
			assert.Equal(t, quic.StreamErrorCode(netproto.TooLate), cut.ErrorCode)
		}
		began := time.Now()
		w.stop()
		assert.Less(t, time.Since(began), 2*time.Second)
	})
}

func hostileLater(w *world) {
	bye := netproto.Bye{Session: 77}.Append(nil)
	attacks := []struct {
		name string
		b    []byte
		want netproto.Code
	}{
		{"bytes after a Bye", append(bye, 1, 2, 3, 4, 5, 6, 7), netproto.Malformed},
		{"an Ack", netproto.Ack{}.Append(nil), netproto.Malformed},
		{"a Bye that is too long", append([]byte{byte(netproto.KindBye), 64}, make([]byte, 64)...), netproto.Malformed},
		{"refused by its length alone", []byte{byte(netproto.KindBye), 65}, netproto.TooLarge},
		{"a reset", nil, netproto.Malformed},
	}
	for _, c := range attacks {
		r := w.enter(guest{})
		_, err := r.control.Write(c.b)
		require.NoError(w.t, err)
		if c.b == nil {
			r.control.CancelWrite(3)
		}
		settle()
		require.Error(w.t, r.Context().Err(), "at once: %s", c.name)
		assert.Equal(w.t, c.want, r.ends(), c.name)
	}
	r := w.enter(guest{})
	require.NoError(w.t, r.control.Close())
	assert.Equal(w.t, netproto.NoReason, r.ends())
	settle()
	refused := w.eventsOf(gateway.Refused)
	require.Len(w.t, refused, len(attacks), "the last connection ended regularly")
	for i, e := range refused {
		assert.Equal(w.t, attacks[i].want, e.Code(), "%s: %v", attacks[i].name, e.Err)
	}
}

// TestStarve: a client with endless asks that never end does not block another one.
func TestStarve(t *testing.T) {
	opt, up := gateway.Options{}.With(gateway.Shares{MaxAsksPerDevice: 50}), &fake{parallel: 4, holdOnly: 13}
	inWorld(t, opt, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		modest := w.enter(guest{})
		for n := range 3 {
			greedy := w.enter(guest{device: 1})
			for i := range 60 {
				ids := append([]int32{13}, path(10, int32(i))...)
				greedy.send(packed(t, uint32(n), 0, netproto.RootHash, ids).Append(nil))
			}
		}
		settle()
		for i := range 50 {
			modest.asks(1, path(20+i, 1)) // while the others' asks never end
		}
		assert.Equal(t, 52, up.get(func(f *fake) int { return len(f.asked) }), "the greedy client holds 2 of 4 places")
		assert.Len(t, w.eventsOf(gateway.Refused), 3*60-50, "and has 50 open asks")
	})
}

// flightOf returns the packets that the gateway gets during a visit.
func (w *world) flightOf(visit func()) (flight [][]byte) {
	var mu sync.Mutex
	w.ether.watch(func(p packet) bool {
		mu.Lock()
		defer mu.Unlock()
		if p.to == addrPort(w.at) {
			flight = append(flight, bytes.Clone(p.bytes))
		}
		return false
	})
	visit()
	w.ether.watch(nil)
	mu.Lock()
	defer mu.Unlock()
	return flight
}

// TestReplay: if an eavesdropper replays the first flight of a 0-RTT connection, no new question reaches the model, the
// gateway sends at most three times its bytes, and the answers of the original client do not change.
func TestReplay(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		tickets := tls.NewLRUClientSessionCache(4)
		r := w.enter(guest{tickets: tickets})
		r.asks(1, path(20, 1))
		_ = r.CloseWithError(0, "")
		flight := w.flightOf(func() { w.enter(guest{tickets: tickets}).asks(1, path(30, 1)) })
		connected := w.eventsOf(gateway.Connected)
		require.True(t, connected[len(connected)-1].Early)

		var mu sync.Mutex
		attacker, times := w.ether.listen(t, "10.9.9.9:9"), 0
		replay := func() {
			sent, drawn := 0, 0
			w.ether.watch(func(p packet) bool {
				if p.to == attacker.at {
					mu.Lock()
					drawn += len(p.bytes)
					mu.Unlock()
				}
				return p.to == attacker.at
			})
			for _, b := range flight {
				w.ether.send(packet{from: attacker.at, to: addrPort(w.at), bytes: b})
				sent += len(b)
			}
			times++
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			assert.LessOrEqual(t, drawn, 3*sent, "no amplification")
		}
		replay() // while the connection is open
		r = w.enter(guest{tickets: tickets})
		r.asks(1, path(31, 1))
		_ = r.CloseWithError(0, "")
		for range 5 { // and after it has ended
			replay()
		}
		w.enter(guest{}).asks(1, path(32, 1))
		settle()
		for _, q := range up.asked {
			n := len(q.Context)
			assert.True(t, slices.Contains([]int{20, 30, 31, 32}, n) && slices.Equal(path(n, 1), q.Context),
				"a question that the client did not ask")
		}
		assert.LessOrEqual(t, len(up.asked), 4+times)
		t.Logf("%d packets replayed, %d questions reached the model", len(flight), len(up.asked))
	})
}

// TestUnaskedBytes: the gateway buffers at most 16 KiB of a stream and 64 KiB of a connection beyond the message.
func TestUnaskedBytes(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		up.hold = make(chan struct{})
		var got atomic.Int64
		w.ether.watch(func(p packet) bool {
			if p.to == addrPort(w.at) {
				got.Add(int64(len(p.bytes)))
			}
			return false
		})
		r := w.enter(guest{})
		flood := func() {
			s := r.begin(packed(t, 1, 0, netproto.RootHash, path(5, 1)).Append(nil))
			_ = s.SetWriteDeadline(time.Now().Add(3 * time.Second))
			_, err := io.Copy(s, io.LimitReader(endless{}, 1<<20))
			require.Error(t, err)
		}
		before := got.Load()
		flood()
		assert.InDelta(t, 17<<10, got.Load()-before, 2<<10)
		for range 7 {
			flood()
		}
		assert.InDelta(t, 69<<10, got.Load()-before, 6<<10)
		close(up.hold)
		synctest.Wait()
	})
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// hostileBytes: messages with a few changed bytes. Too many invalid ones close the connection.
func hostileBytes(w *world) {
	source := rand.New(rand.NewPCG(3, 4))
	good := packed(w.t, 1, 0, netproto.RootHash, path(30, 1)).Append(nil)
	for range 6 {
		r := w.enter(guest{})
		for range 50 {
			b := bytes.Clone(good)
			for range 1 + source.IntN(4) {
				b[source.IntN(len(b))] ^= byte(1 + source.IntN(255))
			}
			b = b[:1+source.IntN(len(b))]
			kind, _ := r.say(b)
			assert.Contains(w.t,
				[]netproto.Kind{netproto.KindRefusal, netproto.KindAnswer, netproto.KindNeed, netproto.KindAck}, kind)
		}
		r.refused(netproto.Answer{}.Append(nil), netproto.Malformed)
		r.refused(nil, netproto.Malformed)
	}
}
