package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// slowEngine is an engine with places. It takes a time for each ask and one for each of its tokens.
type slowEngine struct {
	ask, token time.Duration
}

// answerTime asks about a number of tokens, and returns when the answer has come.
func (e slowEngine) answerTime(ctx context.Context, a *admission, who *device, tokens int) (time.Duration, error) {
	began := time.Now()
	release, err := a.acquirePlace(ctx, who, tokens, false)
	if err != nil {
		return time.Since(began), err
	}
	defer release()
	select {
	case <-time.After(e.ask + time.Duration(tokens)*e.token):
		return time.Since(began), nil
	case <-ctx.Done():
		return time.Since(began), ctx.Err()
	}
}

// flood has each of many devices ask once about tokens, within a time, one millisecond after the other. Others have
// asked about known tokens before, until there was nothing more to learn from that.
func (e slowEngine) flood(
	t *testing.T, places, known, tokens int, within time.Duration,
) (took []time.Duration, errs []error) {
	const before, devices = 200, 300
	a := newAdmission(Options{derived: derivedLimits{MaxAsks: 10000, MaxAsksPerDevice: 1000}}, places)
	all := some(before + devices)
	for i, who := range all {
		who.client = &client{number: uint64(i)}
	}
	took, errs = make([]time.Duration, devices), make([]error, devices)
	var done sync.WaitGroup
	for _, who := range all[:before] {
		done.Go(func() { _, _ = e.answerTime(t.Context(), a, who, known) })
	}
	done.Wait()
	for i, who := range all[before:] {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			took[i], errs[i] = e.answerTime(ctx, a, who, tokens)
		})
		synctest.Wait()
		time.Sleep(time.Millisecond)
	}
	done.Wait()
	empty(t, a, all...)
	return took, errs
}

// TestLateRefusals: of asks that come at about the same time those are refused at once that would be late, with the
// time to come back, and no others, whatever size of asks the gateway knows the engine's pace from. If they are of the
// same size, next to no ask waits in vain.
func TestLateRefusals(t *testing.T) {
	const within = 2 * time.Second
	for name, c := range map[string]struct {
		engine        slowEngine
		known, tokens int
	}{
		"time for tokens":          {slowEngine{token: time.Millisecond}, 200, 200},
		"time for asks":            {slowEngine{ask: 200 * time.Millisecond}, 200, 200},
		"large after small":        {slowEngine{ask: 50 * time.Millisecond, token: time.Millisecond / 2}, 10, 400},
		"large after small, fixed": {slowEngine{ask: 200 * time.Millisecond}, 1, 1000},
		"small after large":        {slowEngine{ask: 50 * time.Millisecond, token: time.Millisecond / 2}, 1000, 20},
		"small after large, fixed": {slowEngine{ask: 200 * time.Millisecond}, 1000, 1},
	} {
		for _, places := range []int{1, 4, 16} {
			t.Run(name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					free, _ := c.engine.flood(t, places, c.known, c.tokens, time.Hour)
					took, errs := c.engine.flood(t, places, c.known, c.tokens, within)
					refused, vain, longest := 0, 0, time.Duration(0)
					for i, err := range errs {
						r, is := errors.AsType[netproto.Refusal](err)
						switch {
						case is:
							refused++
							assert.Greater(t, free[i], within, "ask %d would have been answered in time", i)
							assert.Equal(t, netproto.Busy, r.Code)
							assert.Positive(t, r.RetryAfter)
							assert.Zero(t, took[i], "it is refused at once")
							longest = max(longest, r.RetryAfter)
						case err != nil:
							vain++
						}
					}
					if c.known == c.tokens {
						assert.LessOrEqual(t, vain, max(5, places), "at the edge: asks in progress are not counted")
						assert.Greater(t, refused, 100)
						each := 200 * time.Millisecond / time.Duration(places)
						most := min(within, time.Duration(refused)*each)
						assert.Greater(t, longest, most*3/4, "not all come back at once")
					}
				})
			})
		}
	}
}
