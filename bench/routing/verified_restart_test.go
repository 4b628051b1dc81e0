package routing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestVerifiedThroughRestarts: with verification, no margin and no deadline the text is the large model's own, even if
// gateway and network fail in the middle of it.
func TestVerifiedThroughRestarts(t *testing.T) {
	edge := tiny(t, func(s *synth.Spec) { s.Context = 2048 })
	large := tiny(t, func(s *synth.Spec) { s.Layers, s.Context = 3, 2048 })
	s, err := large.NewSession()
	require.NoError(t, err)
	var want []int32
	for tok, err := range s.Generate(t.Context(), []int32{1, 2, 3, 4, 5},
		terms.Settings{MaxTokens: 60, IgnoreEnd: true}) {
		require.NoError(t, err)
		want = append(want, tok.ID)
	}
	for name, disturb := range map[string]func(p *place){
		"restart, sessions lost": func(p *place) { p.kill(); p.open() },
		"orderly restart": func(p *place) {
			assert.NoError(t, p.gateway.Stop())
			p.socket.Close()
			p.open()
		},
		"another address of the device": func(p *place) { assert.NoError(t, p.link.Rebind()) },
		"a short black hole": func(p *place) {
			p.link.Blackhole(true)
			time.AfterFunc(200*time.Millisecond, func() { p.link.Blackhole(false) })
		},
	} {
		for _, o := range []draft.Options{
			{VerifyEvery: 8}, {VerifyEvery: 4, Ahead: 6}, {VerifyEvery: 8, Mode: draft.Serial},
		} {
			t.Run(name, func(t *testing.T) {
				p := newPlace(t, edge, large, 0)
				defer p.close()
				o.Verify, o.Deadline = true, -1
				got := p.decode(p.dial(""), o, until60(func() { disturb(p) })).ids
				assert.Equal(t, want, got)
				sum := p.session.Summary().Routing
				assert.Zero(t, sum.Unverified+sum.Timeouts)
			})
		}
	}
}
