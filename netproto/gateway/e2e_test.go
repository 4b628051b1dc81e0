package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	up := &fake{}
	g := start(t, "", gateway.Options{}, up)
	s := session(t, dial(t, g, nil))
	p := path(120, 1)
	r := ask(t, s, p)
	t.Logf("first: %d up, %d down, %v and %v", r.BytesUp, r.BytesDown, r.Queue, r.Compute)
	r = ask(t, s, append(p, path(10, 2)...))
	t.Logf("next: %d up, %d down, %v and %v", r.BytesUp, r.BytesDown, r.Queue, r.Compute)
	assert.LessOrEqual(t, r.BytesUp, 80)
	assert.LessOrEqual(t, r.BytesDown, 40)
	assert.Equal(t, 3*time.Millisecond, r.Compute)
	assert.Len(t, r.Top, 4)
	assert.Equal(t, 120, up.question(1).Base)
}

// TestPayload: an escalation in the chat of the demo takes at most 80 bytes up and 40 down, with changing drafts.
func TestPayload(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	s := session(t, dial(t, g, nil))
	p := path(75, 1)
	first := ask(t, s, p)
	var up, down, n, maxUp, maxDown int
	for i := range 40 {
		p = append(p, path(5+i%11, int32(i))...)
		if i%4 == 3 {
			p = p[:len(p)-9] // a rejected draft
		}
		r, err := s.Ask(t.Context(), terms.Question{Context: p, K: 4, AuditFrom: 75, Within: patience,
			Sampling: terms.Sampling{Temperature: 0.7, TopP: 0.9, Seed: 1 << 60}})
		require.NoError(t, err)
		up, down, n = up+r.BytesUp, down+r.BytesDown, n+1
		maxUp, maxDown = max(maxUp, r.BytesUp), max(maxDown, r.BytesDown)
	}
	t.Logf("prompt of 75 tokens: %d up, %d down; then a mean of %d up, %d down, max %d and %d",
		first.BytesUp, first.BytesDown, up/n, down/n, maxUp, maxDown)
	assert.LessOrEqual(t, maxUp, 80)
	assert.LessOrEqual(t, maxDown, 40)
}

// TestDialRefused: configuration errors have a type, are returned at once, and contain no secret.
func TestDialRefused(t *testing.T) {
	g := start(t, "", gateway.Options{Tokens: []gateway.Token{
		{Name: "a", Secret: "0123456789abcdef"}, {Name: "b", Secret: "fedcba9876543210"},
	}}, &fake{})
	for name, c := range map[string]struct {
		change func(*client.Options)
		want   error
	}{
		"no secret":    {func(*client.Options) {}, netproto.WrongSecret},
		"wrong secret": {func(o *client.Options) { o.Secret = "0123456789abcdeX" }, netproto.WrongSecret},
		"other tokenizer": {func(o *client.Options) { o.Secret = "0123456789abcdef"; o.Identity.Tokenizer[5]++ },
			netproto.WrongTokenizer},
		"other vocab": {func(o *client.Options) { o.Secret = "0123456789abcdef"; o.Identity.Vocab++ },
			netproto.WrongTokenizer},
		"system roots": {func(o *client.Options) { o.Pin = netproto.Digest{} }, nil},
		"wrong pin":    {func(o *client.Options) { o.Pin[0]++ }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			const ever = time.Hour // for waits that must not happen
			opt := client.Options{Identity: identity(), Pin: g.Fingerprint(), ConnectTimeout: ever, IdleTimeout: ever}
			c.change(&opt)
			_, err := client.Dial(t.Context(), g.addr, opt)
			require.Error(t, err)
			t.Log(err)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
			if name == "wrong pin" {
				pin, ok := errors.AsType[*client.PinError](err)
				require.True(t, ok)
				assert.Equal(t, g.Fingerprint(), pin.Have)
			}
			if name == "system roots" {
				_, ok := errors.AsType[*tls.CertificateVerificationError](err)
				assert.True(t, ok)
			}
			if opt.Secret != "" {
				assert.NotContains(t, fmt.Sprintf("%v %+v", err, opt), string(opt.Secret))
			}
		})
	}
	s := session(t, dial(t, g, func(o *client.Options) { o.Secret = "fedcba9876543210" }))
	ask(t, s, path(10, 1))
}

// keys returns a certificate that several gateways share.
func keys(t *testing.T) tls.Certificate {
	t.Helper()
	certificate, key, err := gateway.NewCertificate("localhost")
	require.NoError(t, err)
	c, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return c
}

// TestRestart: a restarted gateway has no sessions; asks continue without action by the caller.
func TestRestart(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t)}
	g := start(t, "", opt, &fake{})
	c := dial(t, g, nil)
	s := session(t, c)
	p := path(300, 1)
	ask(t, s, p)
	for i := range 3 {
		g.stop()
		g = start(t, g.addr, opt, &fake{})
		p = append(p, path(5, int32(i))...)
		r := ask(t, s, p)
		assert.Greater(t, r.BytesUp, 300, "the whole path")
		assert.Less(t, ask(t, s, append(p, 1)).BytesUp, 40)
	}
	assert.Equal(t, 4, c.Stats().Connections)
}

// TestSecondGateway: another gateway at the same address, after the first one vanished silently, is detected by a
// stateless reset.
func TestSecondGateway(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t)}
	one, two := start(t, "", opt, &fake{}), start(t, "", opt, &fake{})
	r := newRelay(t, one.addr)
	s := session(t, dial(t, running{one.Gateway, r.addr(), nil}, nil))
	p := path(200, 1)
	ask(t, s, p)
	for i := range 4 {
		r.aim([]string{two.addr, one.addr}[i%2])
		p = append(p, path(7, int32(i))...)
		ask(t, s, p)
	}
}

// TestBlackHole: when the route is cut, asks fail at their deadlines. When it works again, asks succeed at once, with
// 0-RTT, on a new connection.
func TestBlackHole(t *testing.T) {
	g := start(t, "", gateway.Options{}, &fake{})
	r := newRelay(t, g.addr)
	g.addr = r.addr()
	tickets := signalling{tls.NewLRUClientSessionCache(4), make(chan struct{}, 100)}
	c := dial(t, g, func(o *client.Options) { o.Tickets = tickets })
	s := session(t, c)
	ask(t, s, path(100, 1))
	<-tickets.put
	r.set(true)
	silent := 0 // asks for longer than three round trips, which a busy machine makes long
	for within := 400 * time.Millisecond; silent < 2; within += within / 2 {
		_, err := s.Ask(t.Context(), terms.Question{Context: path(101, 1), Within: within})
		require.ErrorIs(t, err, netproto.TooLate)
		if errors.Is(err, client.ErrNoReply) {
			silent++
		}
	}
	r.set(false)
	ask(t, s, path(102, 1))
	assert.GreaterOrEqual(t, c.Stats().Connections, 2)
	until(func() bool { return c.Stats().Early > 0 })
}

// signalling is a cache of tickets that signals each new ticket.
type signalling struct {
	tls.ClientSessionCache
	put chan struct{}
}

func (c signalling) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	if s != nil {
		c.put <- struct{}{}
	}
}

// TestAddressChange: the client's address changes, with or without its knowledge: the connection and the session stay.
func TestAddressChange(t *testing.T) {
	up := &fake{}
	g := start(t, "", gateway.Options{}, up)
	r := newRelay(t, g.addr)
	g.addr = r.addr()
	c := dial(t, g, nil)
	s := session(t, c)
	p := path(100, 1)
	ask(t, s, p)
	for i := range 4 {
		if i%2 == 0 {
			r.rebind()
		} else {
			require.NoError(t, c.Migrate(t.Context()))
		}
		p = append(p, path(6, int32(i))...)
		assert.Less(t, ask(t, s, p).BytesUp, 50)
	}
	assert.Equal(t, 1, c.Stats().Connections)
	assert.Equal(t, 2, c.Stats().Migrations)
}

// TestDrain: when a gateway stops, open asks are answered and new ones use another gateway or wait.
func TestDrain(t *testing.T) {
	const ever = time.Hour // for waits that the gateway must not do
	draining := make(chan struct{})
	opt := gateway.Options{Certificate: keys(t)}.With(gateway.Shares{DrainTimeout: ever})
	listening := opt
	listening.Events = func(e gateway.Event) {
		if e.Kind == gateway.Draining {
			close(draining)
		}
	}
	up := &fake{hold: make(chan struct{})}
	g := start(t, "", listening, up)
	s := session(t, dial(t, g, nil))
	answered := make(chan error, 1)
	go func() {
		r, err := s.Ask(t.Context(), terms.Question{Context: path(30, 1)})
		if err == nil && r.Token != tokenAfter(path(30, 1)) {
			err = errors.New("another token")
		}
		answered <- err
	}()
	up.until(func(f *fake) bool { return len(f.asked) == 1 })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.stop()
	}()
	<-draining
	close(up.hold)
	<-ended
	require.NoError(t, <-answered)
	_, err := s.Ask(t.Context(), terms.Question{Context: path(31, 1), Within: 200 * time.Millisecond})
	require.ErrorIs(t, err, netproto.TooLate)
	start(t, g.addr, opt, up)
	ask(t, s, path(31, 1))
}

// TestLazy: if the gateway is down, a Lazy client is returned at once and asks when it comes up.
func TestLazy(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t)}
	g := start(t, "", opt, &fake{})
	g.stop()
	c := dial(t, g, func(o *client.Options) { o.Lazy, o.ConnectTimeout = true, 300*time.Millisecond })
	s := session(t, c)
	_, err := s.Ask(t.Context(), terms.Question{Context: path(5, 1), Within: 100 * time.Millisecond})
	require.ErrorIs(t, err, netproto.TooLate)
	require.ErrorIs(t, err, client.ErrNoReply)
	start(t, g.addr, opt, &fake{})
	ask(t, s, path(5, 1))
}

// BenchmarkAsk measures the cost of an ask without network and model: both sides, over loopback.
func BenchmarkAsk(b *testing.B) {
	up := &fake{}
	g, err := gateway.New(gateway.Options{}, up)
	require.NoError(b, err)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	c, err := client.Dial(ctx, socket.LocalAddr().String(), client.Options{Identity: identity(), Pin: g.Fingerprint()})
	require.NoError(b, err)
	s, err := c.NewSession(ctx)
	require.NoError(b, err)
	p := path(500, 1)
	b.Run("one at a time", func(b *testing.B) {
		for b.Loop() {
			_, err = s.Ask(ctx, terms.Question{Context: p, K: 4, Within: time.Second})
		}
	})
	b.Run("many at once", func(b *testing.B) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = s.Ask(ctx, terms.Question{Context: p, K: 4, Within: time.Second})
			}
		})
	})
	require.NoError(b, err)
	require.NoError(b, c.Close())
	cancel()
	require.NoError(b, <-done)
	require.NoError(b, socket.Close())
}
