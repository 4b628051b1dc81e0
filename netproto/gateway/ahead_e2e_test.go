package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
