package gateway_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// early connects, waits for the next ticket, and reports whether it used 0-RTT.
func (w *world) early(t *testing.T, tickets tls.ClientSessionCache) bool {
	t.Helper()
	conn, err := w.tryDial(guest{tickets: tickets})
	require.NoError(t, err)
	<-conn.HandshakeComplete()
	used := conn.ConnectionState().Used0RTT
	if !used {
		conn, err = conn.NextConnection(t.Context())
		require.NoError(t, err)
	}
	control, err := conn.OpenStream()
	require.NoError(t, err)
	r := &raw{t: t, Conn: conn, control: control}
	_, err = control.Write(guest{}.greeting())
	require.NoError(t, err)
	kind, _ := r.hear(control)
	require.Equal(t, netproto.KindWelcome, kind)
	r.asks(1, path(20, 1))
	settle()
	_ = r.CloseWithError(0, "")
	settle()
	all := w.eventsOf(gateway.Connected)
	assert.Equal(t, used, all[len(all)-1].Early)
	return used
}

// TestTicketKeys: tickets are valid as long as their key: after a restart, in another replica, and during rotation.
func TestTicketKeys(t *testing.T) {
	opt := gateway.Options{Certificate: keys(t), TicketKeys: []gateway.TicketKey{{1}}}
	tickets := tls.NewLRUClientSessionCache(4)
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		assert.False(t, w.early(t, tickets))
		assert.True(t, w.early(t, tickets))
	})
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) { // a restart, or a replica
		assert.True(t, w.early(t, tickets))
		require.NoError(t, w.SetTicketKeys([]gateway.TicketKey{{2}, {1}}))
		assert.True(t, w.early(t, tickets), "the old key decrypts its tickets")
		require.NoError(t, w.SetTicketKeys([]gateway.TicketKey{{2}}))
		assert.True(t, w.early(t, tickets), "the last ticket has the first key")
		require.NoError(t, w.SetTicketKeys([]gateway.TicketKey{{3}}))
		assert.False(t, w.early(t, tickets), "its key is gone")
		assert.True(t, w.early(t, tickets))
		require.ErrorContains(t, w.SetTicketKeys(nil), "no ticket key")
		require.ErrorContains(t, w.SetTicketKeys([]gateway.TicketKey{{4}, {}}), "a ticket key of zeros")
		assert.True(t, w.early(t, tickets), "nothing has changed")
	})
	opt.TicketKeys = []gateway.TicketKey{{}}
	_, err := gateway.New(opt, &fake{})
	require.ErrorContains(t, err, "a ticket key of zeros")
}

// TestAddressStaysProven: a device that has proven its address need not do so again, not even after a restart with the
// same ticket keys.
func TestAddressStaysProven(t *testing.T) {
	visit := func(w *world, known quic.TokenStore) {
		r := w.enter(guest{from: "10.2.0.1", quic: quic.Config{TokenStore: known}})
		settle()
		_ = r.CloseWithError(0, "")
		settle()
	}
	for name, c := range map[string]struct {
		key    gateway.TicketKey
		proven bool
	}{"the same key": {gateway.TicketKey{1}, true}, "another key": {gateway.TicketKey{2}, false}} {
		t.Run(name, func(t *testing.T) {
			known := quic.NewLRUTokenStore(4, 4)
			opt := gateway.Options{MaxConns: 3, MessageTimeout: time.Hour, TicketKeys: []gateway.TicketKey{{1}}}
			inWorld(t, opt, &fake{}, func(t *testing.T, w *world) { visit(w, known) })
			opt.TicketKeys = []gateway.TicketKey{c.key}
			inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
				w.dial(guest{}) // it never sends Hello
				settle()
				proofs := w.proofs()
				visit(w, known)
				assert.Equal(t, c.proven, proofs.Load() == 0)
				proofs.Store(0)
				visit(w, nil)
				assert.Positive(t, proofs.Load(), "a stranger proves its address")
			})
		})
	}
}

// TestSetCertificate: a new certificate is used for new connections; existing ones continue, and tickets and the key of
// resets stay valid.
func TestSetCertificate(t *testing.T) {
	first, second := keys(t), keys(t)
	tickets := tls.NewLRUClientSessionCache(4)
	inWorld(t, gateway.Options{Certificate: first}, &fake{}, func(t *testing.T, w *world) {
		shown := func(r *raw) []byte { return r.ConnectionState().TLS.PeerCertificates[0].Raw }
		before := w.enter(guest{})
		assert.Equal(t, first.Certificate[0], shown(before))
		assert.False(t, w.early(t, tickets))
		require.NoError(t, w.SetCertificate(second))
		assert.Equal(t, second.Certificate[0], shown(w.enter(guest{})))
		before.asks(1, path(20, 1))
		assert.True(t, w.early(t, tickets))
		want, err := gateway.Fingerprint(second)
		require.NoError(t, err)
		assert.Equal(t, want, w.Fingerprint())

		require.ErrorContains(t, w.SetCertificate(tls.Certificate{}), "no certificate")
		require.ErrorContains(t, w.SetCertificate(tls.Certificate{Certificate: first.Certificate}), "no private key")
		assert.Equal(t, want, w.Fingerprint())
	})
}

// TestStats: the statistics count all asks that wait or have a place, and all that is kept or connected.
func TestStats(t *testing.T) {
	up := &fake{parallel: 2}
	inWorld(t, gateway.Options{MessageTimeout: time.Hour, AskTimeout: time.Hour, DeviceRate: 1000}, up,
		func(t *testing.T, w *world) {
			settle()
			assert.Equal(t, gateway.Stats{Serving: 1}, w.Stats())
			w.dial(guest{})
			settle()
			assert.Equal(t, gateway.Stats{Serving: 1, Connections: 1}, w.Stats())
			r := w.enter(guest{device: 1})
			r.asks(1, path(30, 1))
			r.say(syncOf(t, 2, path(12, 2)))
			settle()
			want := gateway.Stats{
				Serving: 1, Connections: 2, Sessions: 2, Tokens: 42,
			}
			assert.Equal(t, want, w.Stats())
			up.hold = make(chan struct{})
			for i := range 5 {
				r.send(packed(t, 1, 30, netproto.RootHash.Over(path(30, 1)), []int32{int32(i)}).Append(nil))
				settle()
			}
			want.Tokens, want.Asks, want.Waiting = 47, 5, 4 // one device holds half of the places
			assert.Equal(t, want, w.Stats())
			other := w.enter(guest{device: 2})
			other.send(whole(t, 1, path(8, 1)).Append(nil))
			settle()
			ended := w.leaves()
			want.Serving, want.Connections = 0, 2
			want.Asks, want.Waiting, want.Sessions, want.Tokens = 6, 4, 3, 55
			time.Sleep(time.Second)
			assert.Equal(t, want, w.Stats(), "at once, while asks are still open")
			close(up.hold)
			<-ended
			assert.Equal(t, gateway.Stats{}, w.Stats())
		})
}
