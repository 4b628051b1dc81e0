package capacity

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/wait"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// fixedCloud answers each question after a fixed time.
type fixedCloud struct {
	err   error
	asked []draft.Question
}

// Ask implements [draft.Cloud].
func (c *fixedCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	if err := errors.Join(c.err, wait.For(ctx, 20*time.Millisecond)); err != nil {
		return draft.Answer{}, err
	}
	c.asked = append(c.asked, q)
	return draft.Answer{BytesUp: 10, BytesDown: 3}, nil
}

// TestLive: the times of answers in real time are those of their passes and asks, and figures per answer and per second
// follow from the number of asks.
func TestLive(t *testing.T) {
	w := Workload{Prompt: 3, Tokens: 5, Think: 100 * time.Millisecond, EdgeTPS: 100}
	for _, c := range []struct {
		mode   Mode
		budget float64
		asks   float64 // per answer
		ms     float64
	}{
		{Routed, 1, 5, 5 * (10 + 20)}, {Verified, 1, 5, 5 * (10 + 20)}, {Verified, 0, 1, 5*10 + 20},
		{Routed, 0, 0, 5 * 10},
	} {
		bubble.Test(t, func(t *testing.T) {
			w.Budget = c.budget
			clouds, left := make([]fixedCloud, 4), 0
			l := &Live{vocab: 10, Workload: w, Mode: c.mode,
				Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
					return &clouds[device], func() { left++ }, nil
				}}
			p, err := l.Run(t.Context(), 4, Window{time.Second, time.Minute})
			require.NoError(t, err)
			assert.Equal(t, []int{4, 1, 4}, []int{p.Devices, p.Gateways, left})
			assert.InDeltaSlice(t, []float64{c.ms, c.ms, c.ms}, []float64{p.P50, p.P95, p.P99}, 1e-6)
			assert.InEpsilon(t, 4/(0.1+c.ms/1e3), p.PerSecond, 0.1)
			assert.InEpsilon(t, p.PerSecond*59, float64(p.Answers), 0.01)
			assert.InDelta(t, c.asks*p.PerSecond, p.AsksPS, 1)
			assert.InDelta(t, 5*p.PerSecond, p.TokensTPS, 1e-9)
			assert.InDelta(t, 10*c.asks, p.BytesUp, 1e-9)
			assert.InDelta(t, 3*c.asks, p.BytesDown, 1e-9)
			assert.Equal(t, 4*(3+5), p.KVTokens, "all devices at once, at some time")
			for _, q := range clouds[3].asked {
				assert.GreaterOrEqual(t, len(q.Context), 3)
				assert.Less(t, len(q.Context), 8)
				assert.Less(t, slices.Max(q.Context), int32(10))
				assert.Equal(t, c.mode == Verified && c.budget == 0, q.AuditFrom == 3 && q.Verify == terms.EachChoice)
			}
		})
	}
}

// TestLiveFailed: a device that cannot connect, or an ask without an answer, ends the run, and all devices leave.
func TestLiveFailed(t *testing.T) {
	failed := errors.New("failed")
	window := Window{0, time.Minute}
	for _, broken := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			joined, left := 0, 0
			l := &Live{vocab: 10, Workload: usual(), Mode: Verified,
				Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
					if device == 2 && !broken {
						return nil, nil, failed
					}
					joined++
					return &fixedCloud{err: failed}, func() { left++ }, nil
				}}
			_, err := l.Run(t.Context(), 3, window)
			assert.ErrorIs(t, err, failed)
			assert.Equal(t, !broken, strings.Contains(err.Error(), "connect device 3 of 3"))
			assert.Equal(t, joined, left)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, failed)
			defer cancel()
			_, err = l.Run(ctx, 2, window)
			assert.ErrorIs(t, err, failed)
			assert.Equal(t, joined, left)
		})
	}
	for want, c := range map[string]struct {
		devices int
		window  Window
	}{"0 devices": {0, window}, "1001 devices": {1001, window}, "has no time": {1, Window{1, 1}}} {
		_, err := (&Live{Workload: usual()}).Run(t.Context(), c.devices, c.window)
		assert.ErrorContains(t, err, want)
	}
	_, err := new(Live).Run(t.Context(), 1, window)
	assert.ErrorContains(t, err, "prompt_tokens")
}

// TestLiveModel: the costs of a model are measured. Devices in real time get complete answers from it in each mode, and
// no faster than passes and round trips allow.
func TestLiveModel(t *testing.T) {
	racing.Spare(t)
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	recipe, err := synth.ParseRecipe("q8_0")
	require.NoError(t, err)
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, synth.Tiny(recipe, 1).Write(file, nil))
	require.NoError(t, file.Close())
	large, err := engine.Open(path, engine.Options{Threads: 1})
	require.NoError(t, err)
	defer large.Close()
	turns := 0
	c, err := Measure(t.Context(), large, 20, func(done, of int) { turns++; assert.Equal(t, turns, done) })
	require.NoError(t, err)
	assert.Equal(t, passSamples, turns)
	require.NoError(t, c.Validate())
	assert.Equal(t, []int{1, 20}, []int{c.Threads, c.Depth})
	s, err := large.Serve(engine.ServeOptions{Slots: 1 << 14, Lookup: -1, Apart: true})
	require.NoError(t, err)
	defer s.Close()
	c.AskMS, err = MeasureAsk(t.Context(), s.Local(1<<40), 0)
	require.NoError(t, err)
	assert.Less(t, c.AskMS, 1000.)
	w := Workload{Prompt: 20, Tokens: 5, Think: 5 * time.Millisecond, RTT: 2 * time.Millisecond, EdgeTPS: 1000,
		Budget: 0.5, Turned: 0.1}
	for _, mode := range Modes() {
		l := &Live{Large: large, Workload: w, Mode: mode,
			Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
				return s.Local(uint64(device)), func() {}, nil
			}}
		p, err := l.Run(t.Context(), 3, Window{20 * time.Millisecond, 250 * time.Millisecond})
		require.NoError(t, err)
		assert.Greater(t, p.Answers, 5, mode)
		assert.Equal(t, []int{3, 1}, []int{p.Devices, p.Gateways})
		low := 2. // the round trip
		if mode != Cloud {
			low = 5 // the passes of the small model
		}
		assert.GreaterOrEqual(t, p.P50, low, mode)
		assert.Positive(t, p.AsksPS)
		assert.Empty(t, l.sessions)
	}
}
