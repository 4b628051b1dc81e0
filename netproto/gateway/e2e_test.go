package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// TestSecondGateway: another gateway at the same address, after the first one vanished silently, ends the connections
// of the first one by a stateless reset.
func TestSecondGateway(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t)}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		r := w.enter(guest{})
		r.asks(1, path(20, 1))
		w.ether.mu.Lock()
		delete(w.ether.ports, addrPort(w.at))
		w.ether.mu.Unlock()
		second := newWorld(t, w.ether, opt, &fake{})
		r.send(whole(t, 1, path(200, 1)).Append(nil))
		<-r.Context().Done()
		_, reset := errors.AsType[*quic.StatelessResetError](context.Cause(r.Context()))
		assert.True(t, reset)
		second.enter(guest{from: "10.2.0.1"}).asks(1, path(20, 1))
		second.stop()
	})
}
