package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// TestOtherVersion: a gateway that refuses the version is a configuration error, and one that welcomes in another
// version breaks the protocol. Neither is asked again by itself.
func TestOtherVersion(t *testing.T) {
	other := netproto.Welcome{}.Append(nil)
	other[2]++
	for _, c := range []struct {
		name          string
		reply         []byte
		configuration bool
	}{
		{"refused", refuse(netproto.WrongVersion), true},
		{"welcomed in another version", other, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{hello: func(int) []byte { return c.reply }}
			inAir(t, s, func(t *testing.T, a *air) {
				var seen attempts
				_, session := s.dial(t, func(o *Options) { o.Attempted = seen.add })
				for range 2 {
					_, err := session.Ask(t.Context(), terms.Question{Context: ids(3), Within: time.Minute})
					require.ErrorIs(t, err, netproto.WrongVersion)
					assert.Equal(t, c.configuration, isConfigurationError(err))
					assert.True(t, isLastingError(err))
					synctest.Wait()
				}
				assert.Len(t, s.said, 2)
				assert.Len(t, seen.get(), 2)
			})
		})
	}
}

// TestAheadBeforeWelcome: before the Welcome, and after a failed connection, an ask may request as many tokens ahead as
// the protocol allows; afterwards, what the Welcome states.
func TestAheadBeforeWelcome(t *testing.T) {
	open, over := make(chan struct{}), make(chan struct{})
	close(over)
	assert.Equal(t, netproto.MaxAhead, (&link{ready: open}).maxAhead())
	assert.Equal(t, netproto.MaxAhead, (&link{ready: over, err: ErrNoReply}).maxAhead())
	assert.Equal(t, 7, (&link{ready: over, agreed: netproto.Welcome{Ahead: 7}}).maxAhead())
}
