package batch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// TestFlood: the first prompts of many devices that come at about the same time are computed one after the other, in
// the order in which they came, with room for all of them in memory or for a few: so the mean of the times is half of
// the time for all. A short question beside them does not wait, and is not refused.
func TestFlood(t *testing.T) {
	for name, slots := range map[string]int{"all": 1000 * 250, "few": 2000} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { flood(t, slots) })
		})
	}
}

func flood(t *testing.T, slots int) {
	const devices, tokens = 1000, 200
	m := &counter{perRow: tick}
	c := &crowd{t: t, s: service(t, m, slots, batch.Options{})}
	defer c.s.Close()
	took := make([]time.Duration, devices)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range devices {
		q := terms.Job{Client: uint64(1 + i), Device: uint64(1 + i), Session: uint64(1 + i), Domain: uint64(1 + i),
			Question: terms.Question{Context: text(i, tokens), K: 1}}
		all.Go(func() {
			time.Sleep(time.Duration(i) * tick)
			c.mustAsk(q)
			took[i] = time.Since(begin)
		})
	}
	time.Sleep(1000 * tick)
	for n := range 20 {
		at := time.Now()
		c.mustAsk(terms.Job{Session: 5000, Device: 5000, Client: 5000, Domain: 5000,
			Question: terms.Question{Context: text(1, 3+n), K: 1, Within: 300 * tick}})
		assert.LessOrEqual(t, time.Since(at), (128+16+4)*tick, "the step in progress, and one with a few other rows")
		time.Sleep(100 * tick)
	}
	all.Wait()
	mean := time.Duration(0)
	for i, d := range took {
		mean += d / devices
		assert.False(t, i > 0 && d < took[i-1], "device %d overtakes", i)
	}
	assert.InDelta(t, devices*tokens/2, mean.Seconds()/tick.Seconds(), devices*tokens/50)
}

// TestFloodInTime: of first prompts with a deadline that come at about the same time those are computed that will be
// answered by then. All others are refused when they come, with the time after which they may be answered, and come
// back less than once for each such time that all of them take.
func TestFloodInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const devices, tokens, within = 300, 200, 10_000 * tick
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 2000, batch.Options{})}
		defer c.s.Close()
		c.mustAsk(terms.Job{Session: 999, Question: terms.Question{Context: text(999, 100), K: 1}}) // its pace is known
		var refused, atOnce, most atomic.Int64
		begin := time.Now()
		for i := range devices {
			q := terms.Job{Client: uint64(1 + i), Device: uint64(1 + i), Session: uint64(1 + i), Domain: uint64(1 + i),
				Question: terms.Question{Context: text(i, tokens), K: 1, Within: within}}
			c.wait.Go(func() {
				time.Sleep(time.Duration(i) * tick)
				for n := int64(1); ; n++ {
					asked := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), within)
					_, err := c.s.Ask(ctx, q)
					cancel()
					took := time.Since(asked)
					late, is := errors.AsType[*batch.Late](err)
					if !is {
						assert.NoError(t, err, "device %d, attempt %d, after %v", i, n, took)
						atOnce.Add(1 / n)
						most.Store(max(most.Load(), n))
						return
					}
					refused.Add(1)
					assert.LessOrEqual(t, took, 128*tick, "the step in progress")
					time.Sleep(late.After)
				}
			})
		}
		c.wait.Wait()
		assert.InDelta(t, within/(tokens*tick), atOnce.Load(), 2)
		assert.LessOrEqual(t, most.Load(), int64(10))
		assert.Less(t, refused.Load(), int64(3*devices))
		assert.Less(t, time.Since(begin), devices*tokens*tick*11/10, "nor does it keep others from being computed")
		assert.LessOrEqual(t, m.rows, devices*tokens*11/10, "what is refused is not computed")
	})
}

// TestLateAlone: a question that takes longer than its time even alone is computed as far as that goes, so that the
// next ones of its session get an answer.
func TestLateAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{t: t, s: service(t, &counter{perRow: tick}, 2000, batch.Options{})}
		defer c.s.Close()
		q := terms.Job{Question: terms.Question{Context: text(1, 1000), K: 1, Within: 400 * tick}}
		for attempt := 1; ; attempt++ {
			ctx, cancel := context.WithTimeout(t.Context(), q.Within)
			_, err := c.s.Ask(ctx, q)
			cancel()
			if err == nil {
				assert.Equal(t, 3, attempt)
				return
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}
