package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
)

// TestDomains: computed tokens may be shared by the devices of one access token, and by those of all tokens that share;
// each device of a private one has its own domain. This holds in all sessions and connections, for asks and syncs.
func TestDomains(t *testing.T) {
	const one, two, private, other = "sixteen bytes of one", "sixteen bytes of two", "sixteen bytes of private",
		"sixteen bytes of another"
	const shared, with = "sixteen bytes that are shared", "sixteen bytes that share"
	up := &fake{}
	tokens := []gateway.Token{{Name: "one", Secret: one, Weight: 3}, {Name: "two", Secret: two},
		{Name: "private", Secret: private, Private: true}, {Name: "other", Secret: other, Private: true},
		{Name: "shared", Secret: shared, Share: true}, {Name: "with", Secret: with, Share: true}}
	inWorld(t, gateway.Options{Tokens: tokens}, up, func(t *testing.T, w *world) {
		domain := func(secret netproto.Secret, device byte, session uint32) uint64 {
			r := w.enter(guest{device: device, secret: secret})
			asked, warmed := len(up.asked), len(up.warmed)
			r.asks(session, path(10, int32(device)))
			r.say(syncOf(t, session+100, path(20, int32(device))))
			settle()
			require.Len(t, up.asked, asked+1)
			require.Len(t, up.warmed, warmed+1)
			assert.Equal(t, up.asked[asked].Domain, up.warmed[warmed].Domain)
			_ = r.CloseWithError(0, "")
			settle()
			return up.asked[asked].Domain
		}
		assert.Zero(t, domain(shared, 1, 1))
		assert.Zero(t, domain(with, 2, 1))
		ofOne, ofTwo := domain(one, 1, 1), domain(two, 1, 1)
		assert.Equal(t, []uint64{ofOne, ofTwo}, []uint64{domain(one, 2, 1), domain(two, 2, 1)}, "other devices")
		assert.NotEqual(t, ofOne, ofTwo)
		last := len(up.asked) - 1
		assert.Equal(t, []uint64{3, 0}, []uint64{up.asked[last-1].Weight, up.asked[last].Weight}, "of one and two")
		seen := map[uint64]bool{0: true, ofOne: true, ofTwo: true}
		for device := range byte(5) {
			for _, secret := range []netproto.Secret{private, other} {
				d := domain(secret, 1+device, 1)
				assert.False(t, seen[d])
				seen[d] = true
				assert.Equal(t, d, domain(secret, 1+device, 2))
			}
		}
	})
}

// TestDomainOfOpen: on an open gateway there is no private token.
func TestDomainOfOpen(t *testing.T) {
	up := &fake{}
	inWorld(t, gateway.Options{}, up, func(t *testing.T, w *world) {
		w.enter(guest{device: 3}).asks(1, path(10, 2))
		assert.Zero(t, up.question(0).Domain)
	})
}
