package draft

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestProbesAreSpaced: a cloud that stays dead is probed after pauses that double up to 5 seconds: not earlier, and not
// later than the next escalation.
func TestProbesAreSpaced(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(11)
		tr.world.share, tr.most = 0.5, 2500
		var mu sync.Mutex
		var asked []time.Duration
		tr.cloud = &cloudFunc{ask: func(context.Context, Question) (Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Since(tr.began))
			return Answer{}, errFake
		}}
		_, events, _ := tr.decode(t, tr.decoder(t, mode))
		first := slices.IndexFunc(events,
			func(e Event) bool { return e.Escalation != nil && e.Escalation.Outcome == Probing })
		require.Positive(t, first)
		probes := asked[total(events).Failed:]
		require.Greater(t, len(probes), 8)
		const slack = 20 * tick // max time until a token is for the cloud
		want := firstPause
		for i := 1; i < len(probes); i++ {
			gap := probes[i] - probes[i-1]
			require.GreaterOrEqual(t, gap, want, "probe %d", i)
			require.LessOrEqual(t, gap, want+slack, "probe %d", i)
			want = min(2*want, maxPause)
		}
		assert.Equal(t, maxPause, want)
	})
}

// TestOneProbe: while the breaker is open there is one probe: at once after the failure, and another one when it has
// ended and the pause is over.
func TestOneProbe(t *testing.T) {
	var b Breaker
	now := time.Unix(1, 0)
	assert.False(t, b.startProbe(now), "the breaker is closed")
	b.recordFailure(now, now, errFake)
	b.recordFailure(now, now.Add(time.Hour), errFake) // changes nothing
	assert.True(t, b.startProbe(now))
	assert.False(t, b.startProbe(now), "one probe is open")
	b.endProbe(now, errFake)
	assert.False(t, b.startProbe(now.Add(firstPause-1)))
	assert.True(t, b.startProbe(now.Add(firstPause)))
	b.endProbe(time.Time{}, nil)
	assert.True(t, b.startProbe(now.Add(firstPause)), "the previous probe was cancelled and has no result")
	b.endProbe(now, errFake)
	assert.False(t, b.startProbe(now.Add(2*firstPause-1)))
	assert.True(t, b.startProbe(now.Add(2*firstPause)))
	b.recordSuccess()
	b.endProbe(time.Time{}, nil)
	b.recordFailure(now, now, errFake)
	assert.True(t, b.startProbe(now))
	b.endProbe(now, errFake)
	assert.True(t, b.startProbe(now.Add(firstPause)), "the pauses start again")
}

// TestProbeAtTheEnd: a probe that is open at the end of the text is cancelled, and the next text sends another one.
func TestProbeAtTheEnd(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(12)
		tr.most = 40
		tr.world.share = 0.5
		tr.cloud = &cloudFunc{ask: func(ctx context.Context, _ Question) (Answer, error) { return hole(ctx) }}
		d := tr.decoder(t, mode)
		d.o.Breaker.recordFailure(time.Now(), time.Now().Add(-time.Minute), errFake)
		open := 0
		for range 3 {
			_, events, _ := tr.decode(t, d)
			for _, e := range events {
				if e.Escalation != nil && e.Escalation.Outcome == Dropped && e.Escalation.Err != nil {
					open++
				}
			}
			assert.False(t, d.o.Breaker.probing)
		}
		assert.Equal(t, 3, open, "one probe was open at the end of each text")
		tr.cloud.ask = func(ctx context.Context, q Question) (Answer, error) { return tr.right(ctx, q, tick) }
		_, events, _ := tr.decode(t, d)
		assert.False(t, d.o.Breaker.Open())
		assert.Positive(t, total(events).Answered, "the cloud is in use again")
	})
}

// TestAnswerClosesBreaker: an answer to a question that was open when another one failed closes the breaker, long
// before a probe would.
func TestAnswerClosesBreaker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &script{escalate: []int{1, 2, 12}}
		s.slots = 1000
		cloud := &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
			if len(q.Context) == 1 {
				return Answer{}, errors.Join(sleep(ctx, 20*ms), errFake) // the next question is open by then
			}
			return s.Ask(ctx, q)
		}}
		d, err := New(s, s, cloud, Options{Branches: 1, MaxTokens: 20})
		require.NoError(t, err)
		sum, err := d.Decode(t.Context(), []int32{0}, func(e Event) bool {
			return assert.Less(t, e.At, firstPause+50*ms)
		})
		require.NoError(t, err)
		assert.False(t, d.o.Breaker.Open())
		assert.Equal(t, 1, sum.Failed)
		assert.Zero(t, sum.Late)
		assert.Zero(t, sum.Unasked)
		assert.Equal(t, 2, sum.Answered)
	})
}

// TestNoDeadlineNoBreaker: a decoder without deadlines neither uses a shared breaker nor updates it.
func TestNoDeadlineNoBreaker(t *testing.T) {
	for _, open := range []bool{true, false} {
		bothModes(t, func(t *testing.T, mode Mode) {
			s := newSchedule(2)
			s.world.share, s.world.failures, s.Deadline, s.Mode = 0.5, 0.5, -1, mode
			s.Warm, s.MaxTokens, s.world.ends = 3, 50, 0
			s.Breaker = new(Breaker)
			if open {
				s.Breaker.recordFailure(time.Now(), time.Now(), errFake)
			}
			f := s.fakes()
			f.model.slots, s.Vocab = 1000, int(s.world.vocab)
			d, err := New(f.model, &s.world, warmCloud{f.cloud}, s.Options)
			require.NoError(t, err)
			sum, err := d.Decode(t.Context(), s.prompt, func(e Event) bool {
				return assert.Equal(t, open, s.Breaker.Open())
			})
			require.NoError(t, err)
			assert.NotZero(t, sum.Answered)
			assert.NotZero(t, sum.Failed)
			assert.Zero(t, sum.Unasked)
			assert.NotEmpty(t, f.cloud.warmed)
			assert.Equal(t, open, s.Breaker.Open())
		})
	}
}

// failingWarmer is a cloud that fails to take text early.
type failingWarmer struct {
	*cloudFunc
	warmed int
}

func (c *failingWarmer) Warm(context.Context, []int32) (up, down int, err error) {
	c.warmed++
	return 0, 0, errFake
}

// TestWarmFails: after a failure to send text early, later text is still sent.
func TestWarmFails(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(13)
		tr.world.share = 0
		w := &failingWarmer{cloudFunc: &cloudFunc{}}
		d, err := New(tr.model, &tr.world, w,
			Options{Mode: mode, MaxTokens: tr.most, Vocab: int(tr.world.vocab), Pick: tr.world.pick, Warm: 50})
		require.NoError(t, err)
		reported := 0
		_, err = d.Decode(t.Context(), []int32{1, 2, 3}, func(e Event) bool {
			if e.Warming != nil {
				reported++
				assert.Equal(t, errFake, e.Warming.Err)
			}
			return true
		})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, w.warmed, tr.most/50-1)
		assert.Equal(t, w.warmed, reported)
	})
}
