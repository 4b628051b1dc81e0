package capacity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/demo"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// fixedCloud answers each question after a fixed time.
type fixedCloud struct {
	err    error
	asked  []draft.Question
	copies [][]int32 // of the contexts, as they were
}

// Ask implements [draft.Cloud].
func (c *fixedCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	if err := errors.Join(c.err, retry.Wait(ctx, 20*time.Millisecond)); err != nil {
		return draft.Answer{}, err
	}
	c.asked, c.copies = append(c.asked, q), append(c.copies, slices.Clone(q.Context))
	return draft.Answer{BytesUp: 10, BytesDown: 3}, nil
}

// TestLive: the times of answers in real time are those of their passes and asks, and figures per answer and per second
// follow from the number of asks.
func TestLive(t *testing.T) {
	w := Workload{Prompt: 3, Tokens: 5, EdgeTPS: 100}
	for _, c := range []struct {
		name   string
		mode   Mode
		budget float64
		asks   float64 // per answer
		ms     float64
	}{
		{"escalated tokens", Routed, 1, 5, 5 * (10 + 20)},
		{"verification", Verified, 1, 5, 5 * (10 + 20)},
		{"the small model alone", Routed, 0, 0, 5 * 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w.Budget = c.budget
				clouds, left := make([]fixedCloud, 4), 0
				l := &Live{vocab: 10, Workload: w, Mode: c.mode,
					Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
						return &clouds[device], func() { left++ }, nil
					}}
				p, err := l.Run(t.Context(), 4, 40)
				require.NoError(t, err)
				assert.Equal(t, c.mode, p.Mode)
				assert.Equal(t, 4, p.Devices)
				assert.Equal(t, 40, p.Answers)
				assert.Equal(t, 4, left)
				assert.InDeltaSlice(t, []float64{c.ms, c.ms}, []float64{p.Time.Mean, p.Time.P99}, c.ms/1000)
				assert.InDelta(t, 4*1e3/c.ms, p.PerSecond, 1e-9)
				assert.InDelta(t, 40*10*c.asks, p.BytesUp, 1e-9)
				assert.InDelta(t, 40*3*c.asks, p.BytesDown, 1e-9)
			})
		})
	}
}

// slowing is a cloud that takes 10 ms more for each answer.
type slowing struct{ asked int }

// Ask implements [draft.Cloud].
func (c *slowing) Ask(ctx context.Context, _ draft.Question) (draft.Answer, error) {
	c.asked++
	return draft.Answer{BytesUp: 1 << c.asked}, retry.Wait(ctx, time.Duration(c.asked)*10*time.Millisecond)
}

// TestLiveCounts: the answers that count are those that begin after the first quarter. A device begins others until the
// last of them is complete.
func TestLiveCounts(t *testing.T) {
	for answers, first := range map[int]int{1: 2, 3: 2, 8: 3} { // the first one that counts
		t.Run(fmt.Sprint(answers, " answers"), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := &Live{vocab: 10, Workload: Workload{Prompt: 3, Tokens: 1, EdgeTPS: 1e6, Budget: 1}, Mode: Routed,
					Dial: func(context.Context, int) (draft.Cloud, func(), error) {
						return new(slowing), func() {}, nil
					}}
				p, err := l.Run(t.Context(), 1, answers)
				require.NoError(t, err)
				bytes, took := 0, 0.
				for i := first; i < first+answers; i++ {
					bytes, took = bytes+1<<i, took+float64(i)*10
				}
				assert.Equal(t, bytes, p.BytesUp)
				assert.InDelta(t, float64(answers)*1e3/took, p.PerSecond, 0.01)
				assert.InDelta(t, 10*(first+answers-1), p.Time.P99, 0.01)
			})
		})
	}
	bubble.Test(t, func(t *testing.T) { // the first of two devices is much slower
		l := &Live{vocab: 10, Workload: Workload{Prompt: 3, Tokens: 1, EdgeTPS: 1e6, Budget: 1}, Mode: Routed}
		l.Dial = func(_ context.Context, device int) (draft.Cloud, func(), error) {
			return &slowing{asked: 100 - 99*device}, func() {}, nil
		}
		p, err := l.Run(t.Context(), 2, 60)
		require.NoError(t, err)
		assert.Equal(t, 60, p.Answers)
		assert.Greater(t, p.Time.P99, 1000., "the answer of the slow device is waited for")
	})
}

// TestLiveTexts: the devices ask what their scripts say. A text keeps the tokens before those that were replaced, and
// a new prompt has no beginning in common with the one before.
func TestLiveTexts(t *testing.T) {
	for _, mode := range []Mode{Routed, Verified} {
		bubble.Test(t, func(t *testing.T) {
			w := Workload{Prompt: 7, Tokens: 40, EdgeTPS: 100, Budget: 0.2}
			clouds := make([]fixedCloud, 3)
			l := &Live{vocab: 1000, Workload: w, Mode: mode,
				Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
					return &clouds[device], func() {}, nil
				}}
			_, err := l.Run(t.Context(), 3, 20)
			require.NoError(t, err)
			assert.NotEqual(t, clouds[0].asked[0].Context[:7], clouds[1].asked[0].Context[:7], "each its own")
			for device, cloud := range clouds {
				u := newUser(&w, mode, device)
				var s script
				var before []int32
				for n := 0; n < len(cloud.asked); {
					u.planAnswer(&s)
					for i := 0; i < len(s.asks) && n < len(cloud.asked); i, n = i+1, n+1 {
						q, want := cloud.asked[n], s.asks[i]
						assert.Equal(t, cloud.copies[n], q.Context, "a text that was sent does not change")
						assert.Len(t, q.Context, want.text)
						assert.Equal(t, want.from, q.AuditFrom)
						assert.Equal(t, want.from > 0, q.Verify == terms.EachChoice)
						assert.Equal(t, 1, q.K)
						if i > 0 {
							assert.Equal(t, before[:want.keep], q.Context[:want.keep])
						} else if n > 0 {
							assert.NotEqual(t, before[:7], q.Context[:7])
						}
						before = q.Context
					}
				}
			}
		})
	}
}

// TestLiveFailed: a device that cannot connect, or an ask without an answer, ends the run, and all devices leave.
func TestLiveFailed(t *testing.T) {
	failed := errors.New("failed")
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
			_, err := l.Run(t.Context(), 3, 9)
			assert.ErrorIs(t, err, failed)
			assert.Equal(t, !broken, strings.Contains(err.Error(), "connect device 3 of 3"))
			assert.Equal(t, joined, left)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, failed)
			defer cancel()
			_, err = l.Run(ctx, 2, 9)
			assert.ErrorIs(t, err, failed)
			assert.Equal(t, joined, left)
		})
	}
}

// TestLiveStream: the large model streams as many tokens as the workload has, although its answer would end before, and
// its session serves the next answer.
func TestLiveStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, err := gguf.Parse(demo.Large())
		require.NoError(t, err)
		large, err := engine.New(f, "demo", engine.Options{Threads: 1})
		require.NoError(t, err)
		defer large.Close()
		prompt, err := large.Chat(tokenizer.Message{Role: "user", Content: demo.Questions(demo.Train)[0].Text})
		require.NoError(t, err)
		r := &liveRun{Live: &Live{Large: large, Workload: Workload{Tokens: 60, RTT: 10 * time.Millisecond}},
			ctx: t.Context()}
		session, err := large.NewSession()
		require.NoError(t, err)
		d := &liveDevice{text: prompt, alone: session}
		for range 2 {
			begin := time.Now()
			require.NoError(t, r.streamAnswer(d))
			assert.Equal(t, r.Workload.RTT, time.Since(begin), "computing takes no virtual time")
			sum := session.Summary()
			assert.Equal(t, 60, sum.Tokens)
			assert.Equal(t, "length", sum.Stop)
			assert.Zero(t, sum.Proposed)
		}
		require.NoError(t, large.Close())
		assert.ErrorIs(t, r.streamAnswer(d), engine.ErrClosed)
	})
}

// slowFirst is a cloud with a slow first answer and a slow eighth one.
type slowFirst struct{ asked int }

// Ask implements [draft.Cloud].
func (c *slowFirst) Ask(ctx context.Context, _ draft.Question) (draft.Answer, error) {
	took := 25 * time.Millisecond
	if c.asked++; c.asked == 1 || c.asked == 8 {
		took = time.Hour
	}
	return draft.Answer{}, retry.Wait(ctx, took)
}

// TestMeasureAsk: the cost of an ask is the median of the answers after the first one, without the round trip, and
// never negative.
func TestMeasureAsk(t *testing.T) {
	for rtt, want := range map[time.Duration]float64{0: 25, 15 * time.Millisecond: 10, time.Second: 0} {
		t.Run(rtt.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				got, err := MeasureAsk(t.Context(), new(slowFirst), rtt)
				require.NoError(t, err)
				assert.InDelta(t, want, got, 1e-9)
			})
		})
	}
	failed := errors.New("failed")
	_, err := MeasureAsk(t.Context(), &fixedCloud{err: failed}, 0)
	assert.ErrorIs(t, err, failed)
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
	assert.Equal(t, 1, c.Threads)
	assert.Equal(t, 20, c.Depth)
	assert.Equal(t, large.Device(), c.Device)
	var rows []int
	for _, p := range c.Passes {
		rows = append(rows, p.Rows)
		assert.Positive(t, p.MS)
		assert.GreaterOrEqual(t, p.HeadsMS, p.MS)
	}
	assert.Equal(t, []int{1, 2, 4, 8, 16, 32, 64, 128}, rows)
	over, stop := context.WithCancel(t.Context())
	stop()
	_, err = Measure(over, large, 20, nil)
	assert.ErrorIs(t, err, context.Canceled)
	s, err := large.Serve(engine.ServeOptions{Slots: 1 << 14, Lookup: -1, Apart: true})
	require.NoError(t, err)
	defer s.Close()
	c.AskMS, err = MeasureAsk(t.Context(), s.Local(1<<40), 0)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, c.AskMS, 0.)
	w := Workload{Prompt: 20, Tokens: 5, RTT: 2 * time.Millisecond, EdgeTPS: 1000, Budget: 0.5}
	for _, mode := range Modes() {
		l := &Live{Large: large, Workload: w, Mode: mode,
			Dial: func(_ context.Context, device int) (draft.Cloud, func(), error) {
				return s.Local(uint64(device)), func() {}, nil
			}}
		p, err := l.Run(t.Context(), 3, 9)
		require.NoError(t, err)
		assert.Equal(t, mode, p.Mode)
		assert.Equal(t, 3, p.Devices)
		assert.Equal(t, 9, p.Answers)
		low := 2. // the round trip
		if mode != Cloud {
			low = 5 // the passes of the small model
		}
		assert.GreaterOrEqual(t, p.Time.P50, low, mode)
	}
}
