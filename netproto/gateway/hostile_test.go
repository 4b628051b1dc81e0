package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raw is a connection that says what a test wants.
type raw struct {
	t *testing.T
	*quic.Conn
	control *quic.Stream
}

func dialRaw(t *testing.T, g running) raw {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), g.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{netproto.ALPN}}, &quic.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	control, err := conn.OpenStream()
	require.NoError(t, err)
	return raw{t, conn, control}
}

// welcomed is a raw connection after a proper Hello.
func welcomed(t *testing.T, g running) raw {
	t.Helper()
	return welcomedAs(t, g, netproto.Device{})
}

// welcomedAs is one of a device.
func welcomedAs(t *testing.T, g running, d netproto.Device) raw {
	t.Helper()
	r := dialRaw(t, g)
	_, err := r.control.Write(netproto.Hello{Version: netproto.Version, Identity: identity(), Device: d}.Append(nil))
	require.NoError(t, err)
	kind, _, err := netproto.ReadFrame(r.control, 1<<16)
	require.NoError(t, err)
	require.Equal(t, netproto.KindWelcome, kind)
	return r
}

// say sends bytes on a stream of their own and returns the answer.
func (r raw) say(b []byte) (netproto.Kind, []byte) {
	r.t.Helper()
	s, err := r.OpenStreamSync(r.t.Context())
	require.NoError(r.t, err)
	if _, err = s.Write(b); err == nil { // a message that is too long is refused before it is all written
		_ = s.Close() // and so may be one that has been
	}
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Second))
	kind, b, err := netproto.ReadFrame(s, 1<<16)
	require.NoError(r.t, err)
	return kind, b
}

// refused wants a refusal as the answer.
func (r raw) refused(b []byte, want netproto.Code) {
	r.t.Helper()
	kind, answer := r.say(b)
	require.Equal(r.t, netproto.KindRefusal, kind)
	have, _, err := netproto.ParseRefusal(answer)
	require.NoError(r.t, err)
	assert.Equal(r.t, want, have.Code)
}

func packed(t *testing.T, session uint32, base int, hash netproto.Hash, ids []int32) netproto.Ask {
	t.Helper()
	codec, err := netproto.NewCodec(vocab, netproto.Dictionary{})
	require.NoError(t, err)
	d, err := codec.Encode(nil, ids)
	require.NoError(t, err)
	return netproto.Ask{Session: session, Path: netproto.Path{Base: base, Hash: hash, Delta: d}}
}

// Whatever one client sends, it gets an error code, and another client its answers: during the attack and after it.
func TestHostile(t *testing.T) {
	g := start(t, "", gateway.Options{MaxStreams: 32, MaxConnsPerDevice: 200, MessageTimeout: 500 * time.Millisecond}, &fake{})
	honest := session(t, dial(t, g, nil))
	text := path(100, 1)
	ask(t, honest, text)
	bystander := session(t, dial(t, g, nil))
	check := func(t *testing.T) {
		t.Helper()
		text = append(text, 1, 2, 3)
		r := ask(t, honest, text)
		assert.Less(t, r.BytesUp, 60, "its session is as it was")
	}
	for name, attack := range map[string]func(*testing.T, running){
		"datagrams": hostileDatagrams, "control stream": hostileControl, "hello": hostileHello, "asks": hostileAsks, "order": hostileOrder,
		"bytes on streams": hostileBytes, "streams that stay open": hostileStreams, "many streams": hostileFlood,
		"answers that nobody reads": hostileReader, "control stream later": hostileLater,
	} {
		t.Run(name, func(t *testing.T) {
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
					r, err := bystander.Ask(t.Context(), p, client.Query{Deadline: 5 * time.Second})
					if !assert.NoError(t, err) || !assert.Equal(t, tokenAfter(p), r.Token) {
						return
					}
					answered++
				}
			}()
			attack(t, g)
			close(over)
			assert.Positive(t, <-calm)
			check(t)
		})
		check(t)
	}
}

func hostileDatagrams(t *testing.T, g running) {
	c, err := net.Dial("udp4", g.addr)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1400)
	for range 2000 {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 {
			copy(b, []byte{0xc3, 0, 0, 0, 1, 8}) // the head of an Initial of QUIC 1
		}
		_, _ = c.Write(b[:1+r.IntN(len(b))])
	}
}

// ends waits until a connection is closed by the gateway, and returns the code.
func (r raw) ends() netproto.Code {
	r.t.Helper()
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
		r.t.Fatal("still open")
	}
	var app *quic.ApplicationError
	require.ErrorAs(r.t, context.Cause(r.Context()), &app)
	return netproto.Code(app.ErrorCode)
}

func hostileControl(t *testing.T, g running) {
	for _, b := range [][]byte{
		bytes.Repeat([]byte{0xff}, 100), {}, {byte(netproto.KindHello)}, make([]byte, 4000),
		netproto.Bye{}.Append(nil), netproto.Welcome{}.Append(nil),
		{byte(netproto.KindHello), 0xff, 0xff, 0xff, 0x01, 1, 2, 3},
	} {
		r := dialRaw(t, g)
		if len(b) > 0 {
			_, _ = r.control.Write(b) // the gateway may have had enough before the end of it
		}
		code := r.ends()
		assert.Contains(t, []netproto.Code{netproto.Malformed, netproto.TooLarge}, code, "%x", b[:min(len(b), 8)])
	}
}

func hostileHello(t *testing.T, g running) {
	good := netproto.Hello{Version: netproto.Version, Identity: identity()}
	for _, c := range []struct {
		change func(*netproto.Hello)
		want   netproto.Code
	}{
		{func(h *netproto.Hello) { h.Version = 9 }, netproto.WrongVersion},
		{func(h *netproto.Hello) { h.Identity.Vocab = 1 << 23 }, netproto.WrongTokenizer},
		{func(h *netproto.Hello) { h.Identity = netproto.Identity{} }, netproto.WrongTokenizer},
		{func(h *netproto.Hello) { h.Secret = netproto.Secret(bytes.Repeat([]byte{'x'}, 5000)) }, netproto.TooLarge},
	} {
		h := good
		c.change(&h)
		r := dialRaw(t, g)
		_, err := r.control.Write(h.Append(nil))
		require.NoError(t, err)
		kind, b, err := netproto.ReadFrame(r.control, 1<<16)
		require.NoError(t, err)
		require.Equal(t, netproto.KindRefusal, kind)
		refusal, _, err := netproto.ParseRefusal(b)
		require.NoError(t, err)
		assert.Equal(t, c.want, refusal.Code)
		assert.Equal(t, c.want, r.ends())
	}
}

func hostileAsks(t *testing.T, g running) {
	mine := netproto.Device{7}
	r := welcomedAs(t, g, mine)
	long := packed(t, 1, 0, netproto.RootHash, make([]int32, 4097))
	r.refused(long.Append(nil), netproto.TooLarge)
	claimed := packed(t, 1, 0, netproto.RootHash, nil)
	claimed.Path.Delta.Count = 1 << 20
	r.refused(claimed.Append(nil), netproto.TooLarge)
	r.refused(packed(t, 1, 0, netproto.RootHash, nil).Append(nil), netproto.TooLarge) // no context at all
	claimed.Path.Delta = netproto.Delta{Count: 4000, Coding: netproto.Zstd, Bytes: bytes.Repeat([]byte{7}, 100)}
	r.refused(claimed.Append(nil), netproto.Malformed)
	claimed.Path.Delta = netproto.Delta{Count: 1000, Bytes: make([]byte, 9)}
	r.refused(claimed.Append(nil), netproto.Malformed)
	claimed.Path.Delta = netproto.Delta{Count: 4000, Bytes: make([]byte, 1<<17)}
	r.refused(claimed.Append(nil), netproto.TooLarge)
	for i := range 20 { // bases that it never told of
		kind, b := r.say(packed(t, uint32(i%3), 1+i*7, netproto.Hash(i), []int32{1}).Append(nil))
		require.Equal(t, netproto.KindNeed, kind)
		need, _, err := netproto.ParseNeed(b)
		require.NoError(t, err)
		require.Equal(t, netproto.Need{Hash: netproto.RootHash}, need)
	}
	told := path(20, 1)
	kind, _ := r.say(packed(t, 1, 0, netproto.RootHash, told).Append(nil))
	require.Equal(t, netproto.KindAnswer, kind)
	right := netproto.RootHash.Over(told)
	kind, _ = r.say(packed(t, 1, 20, right, []int32{1}).Append(nil))
	require.Equal(t, netproto.KindAnswer, kind)
	for _, wrong := range []netproto.Ask{ // a base that it told of, under another hash, of another length, in another session
		packed(t, 1, 20, right^1, []int32{1}), packed(t, 1, 19, right, []int32{1}), packed(t, 2, 20, right, []int32{1}),
	} {
		kind, _ = r.say(wrong.Append(nil))
		require.Equal(t, netproto.KindNeed, kind)
	}
	kind, _ = welcomedAs(t, g, mine).say(packed(t, 1, 20, right, []int32{1}).Append(nil))
	require.Equal(t, netproto.KindAnswer, kind, "the same device on another connection")
}

// hostileOrder: a base that an earlier stream is still to tell is waited for; one that no stream tells is asked for.
func hostileOrder(t *testing.T, g running) {
	r := welcomed(t, g)
	p := path(40, 3)
	first := packed(t, 5, 0, netproto.RootHash, p).Append(nil)
	early, err := r.OpenStreamSync(t.Context())
	require.NoError(t, err)
	_, err = early.Write(first[:10])
	require.NoError(t, err)
	type reply struct {
		kind netproto.Kind
		b    []byte
	}
	replies := make(chan reply, 2)
	for _, base := range []int{40, 39} {
		go func() {
			kind, b := r.say(packed(t, 5, base, netproto.RootHash.Over(p[:40]), []int32{1, 2}).Append(nil))
			replies <- reply{kind, b}
		}()
	}
	select {
	case early := <-replies:
		t.Fatalf("%s before the base could be known", early.kind)
	case <-time.After(50 * time.Millisecond):
	}
	_, err = early.Write(first[10:])
	require.NoError(t, err)
	kinds := map[netproto.Kind]int{}
	for range 2 {
		kinds[(<-replies).kind]++
	}
	assert.Equal(t, map[netproto.Kind]int{netproto.KindAnswer: 1, netproto.KindNeed: 1}, kinds)
}

// hostileBytes: messages with a few bits that are not as they were. Too many that make no sense cost the connection.
func hostileBytes(t *testing.T, g running) {
	source := rand.New(rand.NewPCG(3, 4))
	good := packed(t, 1, 0, netproto.RootHash, path(30, 1)).Append(nil)
	for range 6 {
		r := welcomed(t, g)
		for range 50 {
			b := bytes.Clone(good)
			for range 1 + source.IntN(4) {
				b[source.IntN(len(b))] ^= byte(1 + source.IntN(255))
			}
			b = b[:1+source.IntN(len(b))]
			kind, _ := r.say(b)
			assert.Contains(t, []netproto.Kind{netproto.KindRefusal, netproto.KindAnswer, netproto.KindNeed, netproto.KindAck}, kind)
		}
		r.refused(netproto.Answer{}.Append(nil), netproto.Malformed)
		r.refused(nil, netproto.Malformed)
	}
}

// Streams that begin a message and never end it are refused after a while; there are never more than the limit.
func hostileStreams(t *testing.T, g running) {
	r := welcomed(t, g)
	var open []*quic.Stream
	for {
		s, err := r.OpenStream()
		if err != nil {
			break
		}
		_, err = s.Write([]byte{byte(netproto.KindAsk), 0x20, 1, 2})
		require.NoError(t, err)
		open = append(open, s)
	}
	assert.LessOrEqual(t, len(open), 33)
	for _, s := range open {
		kind, _, err := netproto.ReadFrame(s, 1<<10)
		require.NoError(t, err)
		assert.Equal(t, netproto.KindRefusal, kind)
	}
}

// Thousands of streams as fast as they can be opened: the connection does not last.
func hostileFlood(t *testing.T, g running) {
	r := welcomed(t, g)
	for i := range 5000 {
		s, err := r.OpenStreamSync(t.Context())
		if err != nil {
			require.Greater(t, i, 30)
			assert.Equal(t, netproto.TooFast, r.ends())
			return
		}
		s.CancelRead(1)
		if _, err := s.Write([]byte{byte(netproto.KindAsk)}); err == nil {
			s.CancelWrite(1)
		}
	}
	t.Error("5000 streams without an ask, and the connection is open")
}

// Answers that are not read, on a connection whose windows are as small as can be.
func hostileReader(t *testing.T, g running) { unread(t, g, 30) }

// unread asks for large answers and reads none.
func unread(t *testing.T, g running, asks int) {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), g.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{netproto.ALPN}},
		&quic.Config{InitialStreamReceiveWindow: 1, MaxStreamReceiveWindow: 1, InitialConnectionReceiveWindow: 64, MaxConnectionReceiveWindow: 64})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	control, err := conn.OpenStream()
	require.NoError(t, err)
	_, err = control.Write(netproto.Hello{Version: netproto.Version, Identity: identity()}.Append(nil))
	require.NoError(t, err)
	_, _, err = netproto.ReadFrame(control, 1<<16)
	require.NoError(t, err)
	for i := range asks {
		s, err := conn.OpenStreamSync(t.Context())
		require.NoError(t, err)
		a := packed(t, 1, 0, netproto.RootHash, path(1500, int32(i)))
		a.K, a.AuditFrom = netproto.MaxK, 1
		_, err = s.Write(a.Append(nil))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// critic is a large model that would have chosen every token otherwise: its answers are long.
type critic struct{ *fake }

func (c critic) Ask(ctx context.Context, q gateway.Question) (gateway.Answer, error) {
	a, err := c.fake.Ask(ctx, q)
	for i := q.AuditFrom; i < len(q.Context); i++ {
		a.Audit = append(a.Audit, netproto.Finding{Position: i, Token: 7, LogProb: -1})
	}
	return a, err
}

// A client that takes no answer holds up neither its asks, which end when nobody has taken them for a while, nor the end of the
// gateway.
func TestSlowReader(t *testing.T) {
	const asks = 30
	ended := make(chan gateway.EventKind, asks)
	const ever = time.Minute // what the gateway must not wait for
	g := start(t, "", gateway.Options{DrainTimeout: ever, IdleTimeout: ever, MaxStreams: asks, MessageTimeout: 300 * time.Millisecond, Events: func(e gateway.Event) {
		if e.Kind == gateway.Answered || e.Kind == gateway.Dropped {
			ended <- e.Kind
		}
	}}, critic{&fake{}})
	unread(t, g, asks)
	count := map[gateway.EventKind]int{}
	for range asks {
		select {
		case kind := <-ended:
			count[kind]++
		case <-time.After(10 * time.Second):
			t.Fatal("an ask is still open: ", count)
		}
	}
	assert.Positive(t, count[gateway.Dropped], "answers of more than a packet are given up")
	began := time.Now()
	g.stop()
	assert.Less(t, time.Since(began), ever/2)
}

func hostileLater(t *testing.T, g running) {
	r := welcomed(t, g)
	_, err := r.control.Write(netproto.Bye{Session: 77}.Append(nil))
	require.NoError(t, err)
	_, err = r.control.Write([]byte{1, 2, 3, 4, 5, 6, 7})
	require.NoError(t, err)
	assert.Equal(t, netproto.Malformed, r.ends())
	r = welcomed(t, g)
	require.NoError(t, r.control.Close())
	assert.Equal(t, netproto.NoReason, r.ends())
}

// A client that asks without end, and whose asks never end, does not keep another one waiting.
func TestStarve(t *testing.T) {
	up := &fake{parallel: 4, hold: make(chan struct{}), holdOnly: 13}
	g := start(t, "", gateway.Options{MaxAsksPerDevice: 50, Tokens: []gateway.Token{{Name: "greedy", Secret: "0123456789abcdef"}, {Name: "modest", Secret: "fedcba9876543210"}}}, up)
	modest := session(t, dial(t, g, func(o *client.Options) { o.Secret = "fedcba9876543210" }))
	ctx, cancel := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	for range 3 {
		greedy := session(t, dial(t, g, func(o *client.Options) { o.Secret, o.Device = "0123456789abcdef", netproto.Device{1} }))
		for i := range 60 {
			asks.Go(func() {
				_, err := greedy.Ask(ctx, append([]int32{13}, path(10, int32(i))...), client.Query{})
				assert.Error(t, err)
			})
		}
	}
	require.Eventually(t, func() bool { return up.get(func(f *fake) int { return len(f.asked) }) >= 2 }, 5*time.Second, time.Millisecond)
	for i := range 50 {
		ask(t, modest, path(20+i, 1)) // while the others' asks never end
	}
	assert.LessOrEqual(t, up.get(func(f *fake) int { return len(f.asked) }), 52, "the greedy one holds at most 2 of 4 places")
	cancel()
	asks.Wait()
}

// The first flight of a 0-RTT connection, sent again by someone who overheard it, asks nothing that was not asked before,
// draws no more than three times its bytes, and changes no answer of the one who sent it.
func TestReplay(t *testing.T) {
	up := &fake{}
	g := start(t, "", gateway.Options{}, up)
	r := newRelay(t, g.addr)
	through := running{g.Gateway, r.addr(), nil}
	tickets := tls.NewLRUClientSessionCache(4)
	shared := func(o *client.Options) { o.Tickets = tickets }
	c := dial(t, through, shared)
	ask(t, session(t, c), path(20, 1))
	require.NoError(t, c.Close())

	r.mu.Lock()
	r.record = true
	r.mu.Unlock()
	c = dial(t, through, func(o *client.Options) { shared(o); o.Lazy = true })
	s := session(t, c)
	ask(t, s, path(30, 1))
	require.Eventually(t, func() bool { return c.Stats().Early == 1 }, 5*time.Second, time.Millisecond)
	r.mu.Lock()
	flight := slices.Clone(r.sent)
	r.mu.Unlock()

	const times = 5
	replay := func() {
		attacker, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(g.addr)))
		require.NoError(t, err)
		defer func() { assert.NoError(t, attacker.Close()) }()
		sent := 0
		for _, b := range flight {
			n, _ := attacker.Write(b)
			sent += n
		}
		_ = attacker.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		drawn, _ := io.Copy(io.Discard, attacker)
		assert.LessOrEqual(t, drawn, int64(3*sent), "it must not serve to flood others")
	}
	replay() // while the connection lives
	ask(t, s, path(31, 1))
	require.NoError(t, c.Close())
	for range times { // and when it has ended
		replay()
	}
	c = dial(t, through, shared)
	ask(t, session(t, c), path(32, 1))
	up.mu.Lock()
	for _, q := range up.asked {
		n := len(q.Context)
		assert.True(t, slices.Contains([]int{20, 30, 31, 32}, n) && slices.Equal(path(n, 1), q.Context), "a question that nobody asked")
	}
	assert.LessOrEqual(t, len(up.asked), 4+1+times)
	up.mu.Unlock()
	t.Logf("%d packets replayed, %d questions reached the model", len(flight), up.get(func(f *fake) int { return len(f.asked) }))
}
