package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// read reads a channel to its end.
func read(c <-chan int32) (all []int32) {
	for id := range c {
		all = append(all, id)
	}
	return all
}

// TestAheadOfClient: a client gets the tokens ahead that the large model would choose, with any number of concurrent
// asks and readers; a cancelled context stops them.
func TestAheadOfClient(t *testing.T) {
	up := &decoder{fake: &fake{}}
	g := start(t, "", gateway.Options{}, up)
	s := session(t, dial(t, g, nil))
	var asks sync.WaitGroup
	for i := range 40 {
		asks.Go(func() {
			p := path(20+i, 1)
			r, err := s.Ask(t.Context(), terms.Question{Context: p, Ahead: 1 + i%16})
			if !assert.NoError(t, err) {
				return
			}
			got := read(r.Ahead)
			assert.Equal(t, continuation(p, len(got))[1:], append([]int32{}, got...))
			assert.LessOrEqual(t, len(got), 1+i%16)
		})
	}
	asks.Wait()
	p := path(100, 1)
	until(func() bool { return up.running.Load() == 0 })
	r, err := s.Ask(t.Context(), terms.Question{Context: p, Ahead: 16})
	require.NoError(t, err)
	assert.Equal(t, continuation(p, 16)[1:], read(r.Ahead), "alone it gets all of them")

	up = &decoder{fake: &fake{}, every: time.Hour}
	s = session(t, dial(t, start(t, "", gateway.Options{}, up), nil))
	ctx, cancel := context.WithCancel(t.Context())
	r, err = s.Ask(ctx, terms.Question{Context: path(50, 2), Ahead: 16, Within: patience})
	require.NoError(t, err)
	until(func() bool { return up.running.Load() == 1 })
	cancel()
	assert.Empty(t, read(r.Ahead))
	until(func() bool { return up.running.Load() == 0 })
}

// TestAheadOverRestart: when a gateway stops, its tokens ahead end, and it drains at once; the client continues with
// the next gateway at the same address.
func TestAheadOverRestart(t *testing.T) {
	up := &decoder{fake: &fake{}, every: 20 * time.Millisecond}
	certificate := keys(t)
	g := start(t, "", gateway.Options{Certificate: certificate}, up)
	c := dial(t, g, nil)
	s := session(t, c)
	p := path(20, 1)
	for i := range 3 {
		r, err := s.Ask(t.Context(), terms.Question{Context: p, Ahead: 16, Within: patience})
		require.NoError(t, err)
		got := []int32{<-r.Ahead}
		if i < 2 {
			addr := g.addr
			g.stop()
			got = append(got, read(r.Ahead)...)
			assert.Less(t, len(got), 16)
			g = start(t, addr, gateway.Options{Certificate: certificate}, up)
		} else {
			got = append(got, read(r.Ahead)...)
			assert.Len(t, got, 16)
		}
		assert.Equal(t, continuation(p, len(got))[1:], got)
		p = append(p, r.Token)
	}
	assert.Zero(t, c.Stats().Broken)
	assert.GreaterOrEqual(t, c.Stats().Connections, 3)
}

// TestVerificationOfClient: the findings of a gateway arrive at the client unchanged.
func TestVerificationOfClient(t *testing.T) {
	up := &decoder{fake: &fake{}, audit: netproto.ExactAudit}
	p := path(20, 1)
	found := []terms.Finding{{Pos: 13, Token: (p[13] + 1) % vocab, LogProb: -0.5,
		Score: 0.1234567, Stands: -7.654321}}
	up.change = func(_ terms.Job, a *terms.Reply) error {
		a.Audited, a.Audit = 8, found
		return nil
	}
	s := session(t, dial(t, start(t, "", gateway.Options{}, up), nil))
	r, err := s.Ask(t.Context(), terms.Question{Context: p, AuditFrom: 12, Verify: terms.EachScore})
	require.NoError(t, err)
	assert.Equal(t, found, r.Audit)
	assert.Equal(t, 8, r.Audited)
	sampled := session(t, dial(t, start(t, "", gateway.Options{}, &fake{}), nil))
	_, err = sampled.Ask(t.Context(), terms.Question{Context: p, AuditFrom: 12, Verify: terms.EachScore})
	require.ErrorIs(t, err, netproto.CannotVerify)
	assert.ErrorContains(t, err, "looks at no tokens")
}
