package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// world is a gateway with an ether, in virtual time.
type world struct {
	t *testing.T
	*gateway.Gateway
	ether *ether
	at    string
	stop  func() // stops Serve and waits for it

	mu      sync.Mutex
	events  []gateway.Event
	clients int // number of clients, for their addresses
}

const gatewayAt = "10.0.0.1:443"

// inWorld plays a scene with a gateway, in virtual time.
func inWorld(t *testing.T, opt gateway.Options, up gateway.Upstream, scene func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, &ether{}, opt, up)
		late := time.AfterFunc(2*time.Hour, func() { panic("two hours have passed, and the scene is not over") })
		defer late.Stop()
		scene(t, w)
		w.stop()
	})
}

// newWorld starts a gateway in an ether.
func newWorld(t *testing.T, e *ether, opt gateway.Options, up gateway.Upstream) *world {
	t.Helper()
	w := &world{t: t, ether: e, at: gatewayAt}
	also := opt.Events
	opt.Events = func(event gateway.Event) {
		w.mu.Lock()
		w.events = append(w.events, event)
		w.mu.Unlock()
		if also != nil {
			also(event)
		}
	}
	var err error
	w.Gateway, err = gateway.New(opt, up)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	socket, done := e.listen(t, w.at), make(chan error, 1)
	go func() { done <- w.Serve(ctx, socket) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, socket.Close())
	})
	t.Cleanup(w.stop)
	return w
}

// eventsOf returns the events of a kind so far.
func (w *world) eventsOf(kind gateway.EventKind) (all []gateway.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// guest describes a client. The zero value is a typical one.
type guest struct {
	from    string // address; "" means a new one
	device  byte   // 0 means none
	secret  netproto.Secret
	hello   func(*netproto.Hello) // changes the Hello
	tickets tls.ClientSessionCache
	quic    quic.Config
}

// raw is a connection with messages made by the test.
type raw struct {
	t *testing.T
	*quic.Conn
	control *quic.Stream
	welcome netproto.Welcome
}

// dial connects and opens the control stream, without a message.
func (w *world) dial(g guest) *raw {
	w.t.Helper()
	conn, err := w.tryDial(g)
	require.NoError(w.t, err)
	control, err := conn.OpenStream()
	require.NoError(w.t, err)
	return &raw{t: w.t, Conn: conn, control: control}
}

// tryDial connects, with 0-RTT if there is a ticket.
func (w *world) tryDial(g guest) (*quic.Conn, error) {
	w.t.Helper()
	w.mu.Lock()
	w.clients++
	n := w.clients
	w.mu.Unlock()
	if g.from == "" {
		g.from = fmt.Sprintf("10.1.%d.%d", n/250, 1+n%250)
	}
	if g.quic.MaxIdleTimeout == 0 {
		g.quic.MaxIdleTimeout, g.quic.KeepAlivePeriod = time.Hour, 10*time.Second
	}
	socket := w.ether.listen(w.t, fmt.Sprintf("%s:%d", g.from, 1000+n))
	transport := &quic.Transport{Conn: socket}
	w.t.Cleanup(func() { assert.NoError(w.t, transport.Close()); assert.NoError(w.t, socket.Close()) })
	tls := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{netproto.ALPN}, ServerName: "gateway",
		ClientSessionCache: g.tickets}
	to := net.UDPAddrFromAddrPort(addrPort(w.at))
	if g.tickets != nil {
		return transport.DialEarly(w.t.Context(), to, tls, &g.quic)
	}
	return transport.Dial(w.t.Context(), to, tls, &g.quic)
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// greeting returns the Hello of a guest.
func (g guest) greeting() []byte {
	h := netproto.Hello{Version: netproto.Version, Identity: identity(), Secret: g.secret}
	if g.device != 0 {
		h.Device = netproto.Device{g.device}
	}
	if g.hello != nil {
		g.hello(&h)
	}
	return h.Append(nil)
}

// enter connects and sends Hello.
func (w *world) enter(g guest) *raw {
	w.t.Helper()
	r := w.dial(g)
	_, err := r.control.Write(g.greeting())
	require.NoError(w.t, err)
	kind, b, err := netproto.ReadFrame(r.control, 1<<16)
	require.NoError(w.t, err)
	require.Equal(w.t, netproto.KindWelcome, kind)
	r.welcome, _, err = netproto.ParseWelcome(b)
	require.NoError(w.t, err)
	return r
}

// turned checks that a Hello is refused, and that the connection ends for that reason.
func (w *world) turned(g guest, want netproto.Code) netproto.Refusal {
	w.t.Helper()
	r := w.dial(g)
	_, err := r.control.Write(g.greeting())
	require.NoError(w.t, err)
	kind, b, err := netproto.ReadFrame(r.control, 1<<16)
	require.NoError(w.t, err)
	require.Equal(w.t, netproto.KindRefusal, kind)
	refusal, _, err := netproto.ParseRefusal(b)
	require.NoError(w.t, err)
	assert.Equal(w.t, want, refusal.Code)
	assert.Equal(w.t, want, r.ends())
	return refusal
}

// ends waits until the gateway closes the connection, and returns the code.
func (r *raw) ends() netproto.Code {
	r.t.Helper()
	<-r.Context().Done()
	var app *quic.ApplicationError
	require.ErrorAs(r.t, context.Cause(r.Context()), &app)
	require.True(r.t, app.Remote)
	return netproto.Code(app.ErrorCode)
}

// begin opens a stream and sends bytes on it, but does not end it.
func (r *raw) begin(b []byte) *quic.Stream {
	r.t.Helper()
	s, err := r.OpenStreamSync(r.t.Context())
	require.NoError(r.t, err)
	_, err = s.Write(b)
	require.NoError(r.t, err)
	return s
}

// send opens a stream, sends bytes on it and ends it.
func (r *raw) send(b []byte) *quic.Stream {
	r.t.Helper()
	s, err := r.OpenStreamSync(r.t.Context())
	require.NoError(r.t, err)
	if _, err = s.Write(b); err == nil { // a message that is too long is refused before it is completely written
		_ = s.Close() // and perhaps after that
	}
	return s
}

// hear reads the answer on a stream.
func (r *raw) hear(s *quic.Stream) (netproto.Kind, []byte) {
	r.t.Helper()
	kind, b, err := netproto.ReadFrame(s, 1<<16)
	require.NoError(r.t, err)
	return kind, b
}

// say sends bytes on a new stream and returns the answer.
func (r *raw) say(b []byte) (netproto.Kind, []byte) {
	r.t.Helper()
	return r.hear(r.send(b))
}

// refused checks that the answer is a refusal.
func (r *raw) refused(b []byte, want netproto.Code) netproto.Refusal {
	r.t.Helper()
	kind, answer := r.say(b)
	require.Equal(r.t, netproto.KindRefusal, kind)
	have, _, err := netproto.ParseRefusal(answer)
	require.NoError(r.t, err)
	assert.Equal(r.t, want, have.Code)
	return have
}

// needs checks that the answer requests more of the context.
func (r *raw) needs(b []byte) netproto.Need {
	r.t.Helper()
	kind, answer := r.say(b)
	require.Equal(r.t, netproto.KindNeed, kind)
	need, _, err := netproto.ParseNeed(answer)
	require.NoError(r.t, err)
	return need
}

// try asks, from any goroutine. It returns a refusal as the error.
func (r *raw) try(a netproto.Ask) (terms.Reply, error) {
	s, err := r.OpenStreamSync(r.t.Context())
	if err != nil {
		return terms.Reply{}, err
	}
	if _, err := s.Write(a.Append(nil)); err == nil {
		_ = s.Close()
	}
	return answerOn(s)
}

// answerOn reads the answer to an ask from its stream. It returns a refusal as the error.
func answerOn(s *quic.Stream) (terms.Reply, error) {
	kind, b, err := netproto.ReadFrame(s, 1<<16)
	if err != nil {
		return terms.Reply{}, err
	}
	if kind == netproto.KindRefusal {
		refusal, _, err := netproto.ParseRefusal(b)
		return terms.Reply{}, errors.Join(refusal, err)
	}
	answer, _, err := netproto.ParseAnswer(b)
	return answer.Reply, err
}

// answered checks that the answer is an answer.
func (r *raw) answered(a netproto.Ask) terms.Reply {
	r.t.Helper()
	answer, err := r.try(a)
	require.NoError(r.t, err)
	return answer
}

// asks asks about a whole path and checks the answer.
func (r *raw) asks(session uint32, p []int32) {
	r.t.Helper()
	require.Equal(r.t, tokenAfter(p), r.answered(packed(r.t, session, 0, netproto.RootHash, p)).Token)
}

// goesOn asks about a path with a known prefix.
func (r *raw) goesOn(session uint32, base, more []int32) {
	r.t.Helper()
	a := packed(r.t, session, len(base), netproto.RootHash.Over(base), more)
	require.Equal(r.t, tokenAfter(append(slices.Clone(base), more...)), r.answered(a).Token)
}

// packed returns an ask with packed ids.
func packed(t *testing.T, session uint32, base int, hash netproto.Hash, ids []int32) netproto.Ask {
	t.Helper()
	codec, err := netproto.NewCodec(vocab, netproto.Dictionary{})
	require.NoError(t, err)
	d, err := codec.Encode(nil, ids)
	require.NoError(t, err)
	return netproto.Ask{Session: session, Path: netproto.Path{Base: base, Hash: hash, Delta: d}}
}

// syncOf returns a sync of a whole path.
func syncOf(t *testing.T, session uint32, p []int32) []byte {
	t.Helper()
	return netproto.Sync{Session: session, Path: packed(t, session, 0, netproto.RootHash, p).Path}.Append(nil)
}

// settle waits until all packets are delivered.
func settle() {
	synctest.Wait()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}
