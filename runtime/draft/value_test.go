package draft

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// byValue decodes a schedule by the value rule with live costs, or with recorded costs.
func (s *schedule) byValue(t *testing.T, mode Mode, r *router.Router, costs *router.Costs) (got shown) {
	t.Helper()
	f := s.fakes()
	o := s.Options
	o.Mode, o.Deadline = mode, -1
	d, err := New(f.model, r.With(costs), f.cloud, o)
	require.NoError(t, err)
	sum, err := d.Decode(context.Background(), s.prompt, func(e Event) bool {
		got.collect(e)
		if q := e.Escalation; q != nil && q.answer() {
			costs.Tell(router.Took{
				Wait: q.Wait.Seconds(), Hidden: q.Hidden.Seconds(), Hit: q.Outcome == Hit,
				Bytes: q.BytesUp + q.BytesDown,
			})
		}
		return true
	})
	require.NoError(t, err)
	require.NoError(t, f.clean(sum))
	return got
}

// TestValueReplays: decisions of pipelined decoding with live costs, over networks with random delays, are reproduced
// by serial decoding with the recorded costs, token for token; and vice versa.
func TestValueReplays(t *testing.T) {
	racing.Spare(t)
	n := 600
	if testing.Short() {
		n = 100
	}
	moved, asked, stood := 0, 0, 0
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(n) {
			s := newSchedule(seed)
			s.world.failures, s.MaxTokens = 0, 20+s.MaxTokens
			r, err := router.New(router.Options{Policy: router.Value, Prices: router.Prices{
				Gain: 1, Ask: 0.05, Second: []float64{0.1, 1, 20}[seed%3], Byte: 0.0005,
			}})
			require.NoError(t, err)
			for _, modes := range [][2]Mode{{Pipelined, Serial}, {Serial, Pipelined}} {
				live := r.NewCosts()
				first := s.byValue(t, modes[0], r, live)
				record, err := router.ReplayCosts(live.Record())
				require.NoError(t, err)
				again := s.byValue(t, modes[1], r, record)
				require.Equal(t, first.Tokens, again.Tokens, "seed %d", seed)
				require.Equal(t, first.Escalated, again.Escalated, "seed %d", seed)
				if modes[1] == Serial { // it makes no speculative decisions
					require.False(t, record.Lacking(), "seed %d", seed)
				}
				for _, c := range live.Record() {
					if c.Cost != 0.05 {
						moved++
					}
				}
				asked, stood = asked+len(first.Escalated), stood+len(first.Tokens)-len(first.Escalated)
			}
		}
	})
	t.Logf("%d blocks with changed costs, %d escalated tokens, %d others", moved, asked, stood)
	assert.Greater(t, moved, n, "the costs are live")
	assert.Greater(t, asked, n)
	assert.Greater(t, stood, n)
}

// TestValueByThreshold: with constant costs the value rule decides like the threshold 1 - cost/gain, token for token.
func TestValueByThreshold(t *testing.T) {
	racing.Spare(t)
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(100) {
			s := newSchedule(seed)
			s.world.failures = 0
			value, err := router.New(router.Options{Policy: router.Value, Prices: router.Prices{Gain: 2, Ask: 1}})
			require.NoError(t, err)
			fixed, err := router.New(router.Options{Policy: router.Margin, Threshold: new(0.5)})
			require.NoError(t, err)
			for _, mode := range []Mode{Serial, Pipelined} {
				got := s.byValue(t, mode, value, value.NewCosts())
				want := s.byValue(t, mode, fixed, router.NewCosts(router.Prices{}))
				require.Equal(t, want, got)
			}
		}
	})
}
