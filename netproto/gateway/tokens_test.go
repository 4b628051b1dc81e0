package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const secretC = netproto.Secret("another 16 bytes")

// TestSetTokens: new access tokens take effect at once: connections with a removed token or a changed secret are closed
// with the reason, others stay, and new tokens are accepted.
func TestSetTokens(t *testing.T) {
	opt := gateway.Options{Tokens: []gateway.Token{
		{Name: "stays", Secret: secretA}, {Name: "goes", Secret: secretB}, {Name: "changes", Secret: secretC},
	}}
	inWorld(t, opt, &fake{}, func(t *testing.T, w *world) {
		stays, goes := w.enter(guest{secret: secretA}), w.enter(guest{secret: secretB})
		changes := w.enter(guest{secret: secretC})
		left := w.enter(guest{secret: secretB})
		_ = left.CloseWithError(0, "")
		settle()
		began := time.Now()
		const changed, fresh = netproto.Secret("a fresh secret of 'changes'"), netproto.Secret("a token that is new")
		require.NoError(t, w.SetTokens([]gateway.Token{
			{Name: "new", Secret: fresh}, {Name: "changes", Secret: changed}, {Name: "stays", Secret: secretA},
		}))
		assert.Equal(t, netproto.WrongSecret, goes.ends())
		assert.Equal(t, netproto.WrongSecret, changes.ends())
		assert.Less(t, time.Since(began), time.Second)
		stays.asks(1, path(20, 1))
		settle()
		gone := w.eventsOf(gateway.Disconnected)
		require.Len(t, gone, 3)
		require.NoError(t, gone[0].Err, "the client closed it")
		for _, e := range gone[1:] {
			assert.ErrorIs(t, e.Err, netproto.WrongSecret)
			assert.ErrorContains(t, e.Err, "taken back")
		}
		w.turned(guest{secret: secretB}, netproto.WrongSecret)
		w.turned(guest{secret: secretC}, netproto.WrongSecret)
		for secret, name := range map[netproto.Secret]string{secretA: "stays", fresh: "new", changed: "changes"} {
			w.enter(guest{secret: secret}).asks(1, path(20, 1))
			settle()
			all := w.eventsOf(gateway.Answered)
			assert.Equal(t, name, all[len(all)-1].Client)
		}
	})
}

// TestSetTokensRefused: invalid tokens change nothing, and a gateway with tokens cannot become an open one.
func TestSetTokensRefused(t *testing.T) {
	one := gateway.Options{Tokens: []gateway.Token{{Name: "a", Secret: secretA}}}
	inWorld(t, one, &fake{}, func(t *testing.T, w *world) {
		r := w.enter(guest{secret: secretA})
		for part, tokens := range map[string][]gateway.Token{
			"no access token is left": {},
			"fewer than 16 bytes":     {{Name: "b", Secret: secretB}, {Name: "c", Secret: "short"}},
			"have the name":           {{Name: "b", Secret: secretB}, {Name: "b", Secret: secretC}},
			"the same secret":         {{Name: "b", Secret: secretB}, {Name: "c", Secret: secretB}},
			"has a limit":             {{Name: "b", Secret: secretB, AskRate: -1}},
		} {
			err := w.SetTokens(tokens)
			require.ErrorContains(t, err, part)
			for _, secret := range []netproto.Secret{secretA, secretB, secretC} {
				assert.NotContains(t, err.Error(), string(secret))
			}
		}
		r.asks(1, path(20, 1))
		w.enter(guest{secret: secretA}).asks(1, path(20, 1))
		w.turned(guest{secret: secretB}, netproto.WrongSecret)
	})
	inWorld(t, gateway.Options{}, &fake{}, func(t *testing.T, w *world) { // an open one may get tokens
		r := w.enter(guest{})
		require.NoError(t, w.SetTokens([]gateway.Token{{Name: "a", Secret: secretA}}))
		assert.Equal(t, netproto.WrongSecret, r.ends())
		w.turned(guest{}, netproto.WrongSecret)
		w.enter(guest{secret: secretA}).asks(1, path(20, 1))
	})
}

// TestSetTokensLimits: a token with new limits keeps its used rate and its number of connected devices.
func TestSetTokensLimits(t *testing.T) {
	token := gateway.Token{Name: "a", Secret: secretA, AskRate: 0.001}
	inWorld(t, gateway.Options{Tokens: []gateway.Token{token}}, &fake{}, func(t *testing.T, w *world) {
		change := func(f func(*gateway.Token)) {
			f(&token)
			require.NoError(t, w.SetTokens([]gateway.Token{token}))
		}
		r := w.enter(guest{secret: secretA, device: 1})
		assert.Equal(t, 2, answers(t, r, 2))
		change(func(*gateway.Token) {})
		assert.Equal(t, 6, answers(t, r, 9), "a reload does not restore the rate")
		change(func(t *gateway.Token) { t.AskRate = 0.002 })
		assert.Equal(t, 0, answers(t, r, 3))
		change(func(t *gateway.Token) { t.AskRate = 1 })
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2, answers(t, r, 6))
		change(func(t *gateway.Token) { t.AskRate = 0 })
		assert.Equal(t, 30, answers(t, r, 30), "no limit")
		change(func(t *gateway.Token) { t.AskRate = 0.001 })
		assert.Equal(t, 8, answers(t, r, 11), "a new limit starts full")
		change(func(t *gateway.Token) { t.AskRate = 50 })
		time.Sleep(10 * time.Second)
		change(func(t *gateway.Token) { t.AskRate = 0.001 })
		assert.Equal(t, 8, answers(t, r, 11), "at most the new burst")

		change(func(t *gateway.Token) { t.AskRate, t.MaxDevices = 0, 1 })
		w.turned(guest{secret: secretA, device: 2}, netproto.Busy)
		change(func(t *gateway.Token) { t.MaxDevices = 2 })
		w.enter(guest{secret: secretA, device: 2})
		w.turned(guest{secret: secretA, device: 3}, netproto.Busy)
		change(func(t *gateway.Token) { t.MaxDevices = 1 })
		r.asks(1, path(5, 1)) // existing connections stay
		w.enter(guest{secret: secretA, device: 1})
		w.turned(guest{secret: secretA, device: 3}, netproto.Busy)
	})
}

// TestSetTokensAgain: a token that is removed and added again, while asks of its connections are still open, counts
// devices from zero.
func TestSetTokensAgain(t *testing.T) {
	tokens := []gateway.Token{{Name: "a", Secret: secretA, MaxDevices: 1}}
	up := &fake{}
	inWorld(t, gateway.Options{Tokens: tokens}, up, func(t *testing.T, w *world) {
		goOn := make(chan struct{})
		up.change = func(terms.Job, *terms.Reply) error {
			<-goOn
			return nil
		}
		r := w.enter(guest{secret: secretA, device: 1})
		r.send(whole(t, 1, path(5, 1)).Append(nil))
		settle()
		require.NoError(t, w.SetTokens([]gateway.Token{{Name: "b", Secret: secretB}}))
		assert.Equal(t, netproto.WrongSecret, r.ends())
		settle()
		assert.Empty(t, w.eventsOf(gateway.Disconnected), "its ask is still at the upstream")
		require.NoError(t, w.SetTokens(tokens))
		again := w.enter(guest{secret: secretA, device: 1})
		w.turned(guest{secret: secretA, device: 2}, netproto.Busy)
		close(goOn)
		settle()
		again.asks(1, path(6, 1))
		w.enter(guest{secret: secretA, device: 1}) // the same device, which is already connected
		w.turned(guest{secret: secretA, device: 2}, netproto.Busy)
		require.NoError(t, w.SetTokens([]gateway.Token{{Name: "b", Secret: secretB}}))
		settle()
		require.NoError(t, w.SetTokens(tokens))
		w.enter(guest{secret: secretA, device: 2}).asks(1, path(7, 1))
	})
}

// TestSetTokensPrivate: a session keeps its domain when its access token becomes private or shared; new sessions use
// the new one.
func TestSetTokensPrivate(t *testing.T) {
	token := gateway.Token{Name: "a", Secret: secretA}
	up := &fake{}
	inWorld(t, gateway.Options{Tokens: []gateway.Token{token}}, up, func(t *testing.T, w *world) {
		r := w.enter(guest{secret: secretA, device: 1})
		domains := func(session uint32) uint64 {
			r.asks(session, path(20, int32(session)))
			return up.question(len(up.asked) - 1).Domain
		}
		of := domains(1)
		token.Private = true
		require.NoError(t, w.SetTokens([]gateway.Token{token}))
		assert.Equal(t, of, domains(1))
		own := domains(2)
		assert.NotEqual(t, of, own)
		r.say(syncOf(t, 1, path(30, 1)))
		r.say(syncOf(t, 2, path(30, 2)))
		settle()
		assert.Equal(t, of, up.warmed[0].Domain)
		assert.Equal(t, own, up.warmed[1].Domain)
		token.Private = false
		require.NoError(t, w.SetTokens([]gateway.Token{token}))
		assert.Equal(t, []uint64{of, own, of}, []uint64{domains(1), domains(2), domains(3)})
	})
}
