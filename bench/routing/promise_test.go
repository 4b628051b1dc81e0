package routing

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// place is the whole program with one device: engines, service, a gateway that can be killed and restarted, and a link.
type place struct {
	t       *testing.T
	edge    *engine.Engine
	service *engine.Service
	cert    tls.Certificate
	pin     netproto.Digest
	addr    string // of the gateway
	socket  net.PacketConn
	gateway remote.Spawned
	link    *link.Link
	relay   remote.Spawned
	remote  *engine.Remote
	leave   func() // ends the session of the remote
	session *engine.Session
}

const (
	promisePace = 200 // forward calls per second
	promiseRTT  = 10 * time.Millisecond
)

func newPlace(t *testing.T, edge, large *engine.Engine, slow time.Duration) *place {
	t.Helper()
	p := &place{t: t, edge: edge, addr: "127.0.0.1:0"}
	var err error
	p.service, err = large.Serve(engine.ServeOptions{AnswerTime: slow})
	require.NoError(t, err)
	certificate, key, err := engine.NewCertificate("127.0.0.1")
	require.NoError(t, err)
	p.cert, err = tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	p.open()
	p.addr = p.socket.LocalAddr().String()
	way := link.Direction{Delay: promiseRTT / 2}
	p.link, err = link.New(link.Options{Target: p.addr, Seed: 1, Up: way, Down: way})
	require.NoError(t, err)
	p.relay = remote.Spawn(p.link.Run)
	p.session, err = edge.NewSession()
	require.NoError(t, err)
	return p
}

// open starts the gateway, each time at the same address with the same certificate and empty memory.
func (p *place) open() {
	p.t.Helper()
	g, err := p.service.Gateway(engine.GatewayOptions{Certificate: p.cert})
	require.NoError(p.t, err)
	p.pin = g.Fingerprint()
	p.socket, err = net.ListenPacket("udp", p.addr)
	require.NoError(p.t, err)
	p.gateway = remote.Spawn(func(ctx context.Context) error { return g.Serve(ctx, p.socket) })
}

// kill ends the gateway without closing its connections.
func (p *place) kill() {
	if p.socket != nil {
		p.socket.Close()
		_ = p.gateway.Stop() // its socket is closed
		p.socket = nil
	}
}

// dial connects the device, through the link unless addr is given.
func (p *place) dial(addr string) draft.Cloud {
	p.t.Helper()
	if addr == "" {
		addr = p.link.Addr().String()
	}
	var err error
	p.remote, err = p.edge.Dial(p.t.Context(), addr, engine.DialOptions{Pin: p.pin, Lazy: true})
	require.NoError(p.t, err)
	var cloud draft.Cloud
	cloud, p.leave, err = p.remote.Session(p.t.Context())
	require.NoError(p.t, err)
	return cloud
}

// close stops everything.
func (p *place) close() {
	if p.remote != nil {
		p.leave()
		assert.NoError(p.t, p.remote.Close())
	}
	if p.socket != nil {
		assert.NoError(p.t, p.gateway.Stop())
		p.socket.Close()
		await(func() bool { return p.service.InUse() == 0 }) // the service frees the sessions of a gateway that is gone
	}
	assert.NoError(p.t, p.relay.Stop())
	p.service.Close()
}

// routedText is an answer, with the origin of each token.
type routedText struct {
	ids     []int32
	origins []string
}

// decode answers one question with 60 tokens, a quarter of them from the cloud, and calls at with each token.
func (p *place) decode(cloud draft.Cloud, o draft.Options, at func(n int, t engine.Token) bool) (got routedText) {
	p.t.Helper()
	r, err := router.New(router.Options{Policy: router.Random, Threshold: new(0.25), Seed: 3})
	require.NoError(p.t, err)
	o.Branches = 2
	route := engine.Route{Settings: terms.Settings{MaxTokens: 60, IgnoreEnd: true}, Router: r, Cloud: cloud, Draft: o,
		Pace: promisePace}
	if at == nil {
		at = func(int, engine.Token) bool { return true }
	} else {
		route.MaxTokens = 1000
	}
	for tok, err := range p.session.Routed(p.t.Context(), []int32{1, 2, 3, 4, 5}, route) {
		require.NoError(p.t, err)
		got.ids, got.origins = append(got.ids, tok.ID), append(got.origins, string(tok.Origin))
		if !at(len(got.ids), tok) {
			break
		}
	}
	return got
}

// until60 calls disturb at the twentieth token.
func until60(disturb func()) func(int, engine.Token) bool {
	return func(n int, _ engine.Token) bool {
		if n == 20 {
			disturb()
		}
		return n < 60
	}
}

var (
	withDeadline    = draft.Options{Deadline: 400 * time.Millisecond}
	withoutDeadline = draft.Options{Deadline: -1}
)

// disturbance is an answer under a fault of the network or the cloud.
type disturbance struct {
	slow  time.Duration // of each answer of the large model
	run   func(p *place) routedText
	heals bool // the text equals that of serial decoding
}

var disturbances = map[string]disturbance{
	"undisturbed": {heals: true, run: func(p *place) routedText {
		return p.decode(p.dial(""), withoutDeadline, nil)
	}},
	"dead from the start": {run: func(p *place) routedText {
		p.kill()
		return p.decode(p.dial(""), withDeadline, nil)
	}},
	"dies, on a network that says so": {run: func(p *place) routedText {
		return p.decode(p.dial(p.addr), withDeadline, until60(p.kill))
	}},
	"dies": {run: func(p *place) routedText {
		return p.decode(p.dial(""), withDeadline, until60(p.kill))
	}},
	"black hole": {run: func(p *place) routedText {
		return p.decode(p.dial(""), withDeadline, until60(func() { p.link.Blackhole(true) }))
	}},
	"slow": {slow: 3 * time.Second, run: func(p *place) routedText {
		return p.decode(p.dial(""), withDeadline, nil)
	}},
	"garbage": {run: func(p *place) routedText {
		garbage := p.babbler()
		got := p.decode(p.dial(garbage.addr), withDeadline, nil)
		assert.NoError(p.t, p.remote.Close())
		garbage.stop()
		return got
	}},
	"restart, sessions lost": {heals: true, run: func(p *place) routedText {
		return p.decode(p.dial(""), withoutDeadline, until60(func() { p.kill(); p.open() }))
	}},
	"orderly restart": {heals: true, run: func(p *place) routedText {
		return p.decode(p.dial(""), withoutDeadline, until60(func() {
			assert.NoError(p.t, p.gateway.Stop())
			p.socket.Close()
			p.open()
		}))
	}},
	"another address of the device": {heals: true, run: func(p *place) routedText {
		return p.decode(p.dial(""), withoutDeadline, until60(func() { assert.NoError(p.t, p.link.Rebind()) }))
	}},
	"a short black hole, without deadlines": {heals: true, run: func(p *place) routedText {
		return p.decode(p.dial(""), withoutDeadline, until60(func() {
			p.link.Blackhole(true)
			time.AfterFunc(200*time.Millisecond, func() { p.link.Blackhole(false) })
		}))
	}},
}

// TestPromises disturbs the whole program in each way that a network and a cloud can fail. Promise 2: the answer is
// always complete, a dead cloud costs at most one deadline, and no resources leak. Promise 1: a failure that ends
// before a deadline does not change the text.
func TestPromises(t *testing.T) {
	edge := tiny(t, func(s *synth.Spec) { s.Context = 2048 })
	large := tiny(t, func(s *synth.Spec) { s.Layers, s.Context = 3, 2048 })
	reference := newPlace(t, edge, large, 0) // the definition, without a network
	serial := reference.decode(reference.service.Local(1), draft.Options{Mode: draft.Serial, Deadline: -1}, nil)
	require.NoError(t, reference.service.Forget(t.Context(), 1))
	reference.close()
	require.Len(t, serial.ids, 60)
	require.Contains(t, serial.origins, "cloud")

	for name, c := range disturbances {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			p := newPlace(t, edge, large, c.slow)
			got := c.run(p)
			sum := p.session.Summary().Routing
			assert.Len(t, got.ids, 60, "complete")
			if c.heals {
				assert.Equal(t, serial, got)
				assert.Zero(t, sum.Timeouts)
			} else {
				assert.Contains(t, got.origins, "edge-timeout")
				assert.LessOrEqual(t, sum.Late+sum.Failed, 4,
					"open escalations share one deadline, of %d escalations", sum.Escalations)
				t.Logf("%d late, %d failed, %d not asked, %v exposed", sum.Late, sum.Failed, sum.Unasked, sum.Exposed)
			}
			assert.Equal(t, sum.Escalations, sum.Cloud+sum.Timeouts,
				"each escalation is marked with its origin")
			assert.InDelta(t, 5+60, p.session.KVTokens(), 1, "no slots of drafts are left")
			if c.heals {
				p.leave()
				await(func() bool { return p.service.InUse() == 0 }) // the service drops a session that is closed
			}
			p.close()
			await(func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// TestRecovery: when the network works again in the middle of an answer, the cloud's tokens return.
func TestRecovery(t *testing.T) {
	edge := tiny(t, func(s *synth.Spec) { s.Context = 2048 })
	large := tiny(t, func(s *synth.Spec) { s.Layers, s.Context = 3, 2048 })
	p := newPlace(t, edge, large, 0)
	defer p.close()
	var met, lost, back bool
	got := p.decode(p.dial(""), draft.Options{Deadline: time.Second}, func(_ int, tok engine.Token) bool {
		switch {
		case !met && tok.Origin == "cloud":
			met = true
			p.link.Blackhole(true)
		case met && !lost && tok.Origin == "edge-timeout":
			lost = true
			p.link.Blackhole(false)
		case lost && tok.Origin == "cloud":
			back = true
		}
		return !back
	})
	assert.True(t, met && lost, "%d tokens", len(got.ids))
	assert.True(t, back, "no token of the cloud in %d", len(got.ids))
}

// babbler is a gateway that sends Welcome and then random bytes.
type babbler struct {
	addr string
	stop func()
}

func (p *place) babbler() babbler {
	p.t.Helper()
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{p.cert},
		NextProtos: []string{netproto.ALPN}}, nil)
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	serve := remote.Spawn(func(context.Context) error {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return nil
			}
			go babble(ctx, conn)
		}
	})
	return babbler{l.Addr().String(), func() {
		cancel()
		assert.NoError(p.t, errors.Join(serve.Stop(), l.Close()))
	}}
}

// babble serves one connection until it ends.
func babble(ctx context.Context, conn *quic.Conn) {
	defer conn.CloseWithError(0, "")
	control, err := conn.AcceptStream(ctx)
	if err != nil {
		return
	}
	if _, _, err := netproto.ReadFrame(control, 1<<16); err != nil {
		return
	}
	_, _ = control.Write(netproto.Welcome{Context: 2048}.Append(nil))
	random := rand.New(rand.NewPCG(7, 7))
	for {
		s, err := conn.AcceptStream(ctx)
		if err != nil {
			return
		}
		_, _, _ = netproto.ReadFrame(s, 1<<16)
		b := make([]byte, 1+random.IntN(60))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if random.IntN(2) == 0 { // or a valid answer with an invalid token
			b = netproto.Answer{Reply: terms.Reply{Token: 1 << 20}}.Append(nil)
		}
		_, _ = s.Write(b)
		_ = s.Close()
	}
}
