package draft

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

const (
	tick     = 16 * time.Millisecond // of a forward call
	deadline = 800 * time.Millisecond
)

// TestEarlier: the earlier of two times; none counts as later than any.
func TestEarlier(t *testing.T) {
	none, one, two := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range [][3]time.Time{
		{one, two, one}, {two, one, one}, {one, one, one}, {none, one, one}, {one, none, one}, {none, none, none},
	} {
		assert.Equal(t, c[2], earlierTime(c[0], c[1]), "%v and %v", c[0], c[1])
	}
}

// cloudFunc is a cloud with a given kind of failure. It counts all questions and open ones.
type cloudFunc struct {
	ask         func(ctx context.Context, q Question) (Answer, error)
	asked, open atomic.Int32
}

func (c *cloudFunc) Ask(ctx context.Context, q Question) (Answer, error) {
	c.asked.Add(1)
	c.open.Add(1)
	defer c.open.Add(-1)
	return c.ask(ctx, q)
}

// trial decodes a long text with a cloud that can fail.
type trial struct {
	world world
	model *fakeModel
	cloud *cloudFunc
	began time.Time
	most  int
}

func newTrial(seed uint64) *trial {
	t := &trial{world: world{seed: seed, vocab: 120, share: 0.1, agree: 0.8}, most: 400, began: time.Now()}
	t.model = &fakeModel{world: &t.world, slots: 10000, most: 8, calls: 10000,
		time: func(int) time.Duration { return tick }}
	return t
}

// right answers according to the world, after a delay.
func (t *trial) right(ctx context.Context, q Question, after time.Duration) (Answer, error) {
	if err := sleep(ctx, after); err != nil {
		return Answer{}, err
	}
	id, err := t.world.answer(hashOf(q.Context))
	return Answer{Reply: terms.Reply{Token: id}}, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hole never answers.
func hole(ctx context.Context) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ctx.Err()
}

func (t *trial) decoder(tb testing.TB, mode Mode) *Decoder {
	d, err := New(t.model, &t.world, t.cloud, Options{
		Mode: mode, MaxTokens: t.most, Vocab: int(t.world.vocab), Pick: t.world.pick, Deadline: deadline,
	})
	require.NoError(tb, err)
	return d
}

// decode runs to the end and checks that the text is complete and that no slot or question is left. It returns the
// events, and the time of the last token.
func (t *trial) decode(tb testing.TB, d *Decoder) (got shown, events []Event, took time.Duration) {
	before := t.cloud.asked.Load()
	sum, err := d.Decode(tb.Context(), []int32{1, 2, 3}, func(e Event) bool {
		got.collect(e)
		events = append(events, e)
		if e.Token != nil {
			took = e.At
		}
		return true
	})
	require.NoError(tb, err)
	got.Stop = sum.Stop
	assert.Equal(tb, "length", sum.Stop)
	assert.Len(tb, got.Tokens, t.most, "the answer is complete")
	assert.NoError(tb, t.model.wrong)
	assert.Empty(tb, t.model.nodes, "no slot is in use")
	assert.Zero(tb, t.cloud.open.Load(), "no question is open")
	assert.Equal(tb, int(t.cloud.asked.Load()-before), sum.Asks, "the events report every question")
	return got, events, took
}

// bothModes runs a test in serial and in pipelined mode, in virtual time.
func bothModes(t *testing.T, test func(t *testing.T, mode Mode)) {
	for name, mode := range map[string]Mode{"serial": Serial, "pipelined": Pipelined} {
		t.Run(name, func(t *testing.T) { bubble.Test(t, func(t *testing.T) { test(t, mode) }) })
	}
}

// TestDeadCloud checks Promise 2 for a cloud that never answers usefully: all tokens are the small model's and marked,
// and the whole text costs one deadline more than without a cloud.
func TestDeadCloud(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, q Question) (Answer, error){
		"dead from the start": func(context.Context, Question) (Answer, error) { return Answer{}, errFake },
		"dead after a while": func(ctx context.Context, q Question) (Answer, error) {
			return Answer{}, errors.Join(sleep(ctx, 300*time.Millisecond), errFake)
		},
		"black hole": func(ctx context.Context, _ Question) (Answer, error) { return hole(ctx) },
		"slow": func(ctx context.Context, _ Question) (Answer, error) {
			return Answer{Reply: terms.Reply{Token: 5}}, sleep(ctx, 2*time.Second)
		},
		"just too slow": func(ctx context.Context, _ Question) (Answer, error) {
			return Answer{Reply: terms.Reply{Token: 5}}, sleep(ctx, deadline+time.Nanosecond)
		},
		"deaf to cancelling": func(context.Context, Question) (Answer, error) {
			time.Sleep(3 * time.Second)
			return Answer{Reply: terms.Reply{Token: 5}}, nil
		},
		"beyond the vocabulary": func(ctx context.Context, _ Question) (Answer, error) {
			return Answer{Reply: terms.Reply{Token: 120}}, sleep(ctx, 50*time.Millisecond)
		},
		"negative": func(ctx context.Context, _ Question) (Answer, error) {
			return Answer{Reply: terms.Reply{Token: -1}}, sleep(ctx, 50*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, mode Mode) {
				tr := newTrial(1)
				tr.cloud = &cloudFunc{ask: ask}
				d := tr.decoder(t, mode)
				got, _, took := tr.decode(t, d)
				alone := tr.world
				alone.failures = 1
				want := alone.oracle([]int32{1, 2, 3}, tr.most).Tokens
				assert.True(t, slices.Equal(want, got.Tokens), "the small model's text")
				assert.LessOrEqual(t, took, time.Duration(tr.most)*tick+deadline+tick)

				_, _, took = tr.decode(t, d)
				assert.LessOrEqual(t, took, time.Duration(tr.most)*tick, "the next text does not wait for the cloud")
			})
		})
	}
}

// TestCloudDies checks Promise 2 for a cloud that dies in the middle of an answer: the time is that of the answered
// questions plus one deadline.
func TestCloudDies(t *testing.T) {
	const died = 2 * time.Second
	for name, silent := range map[string]bool{"with an error": false, "silently": true} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, mode Mode) {
				tr := newTrial(2)
				tr.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
					left := died - time.Since(tr.began)
					if left > 100*time.Millisecond {
						return tr.right(ctx, q, 100*time.Millisecond)
					}
					if silent {
						return hole(ctx)
					}
					return Answer{}, errors.Join(sleep(ctx, max(0, left)), errFake)
				}}
				got, events, took := tr.decode(t, tr.decoder(t, mode))
				assert.LessOrEqual(t, took, died+deadline+time.Duration(tr.most)*tick)
				lost := time.Duration(0)
				for _, e := range events {
					if e.At > died && e.Escalation != nil {
						lost += e.Escalation.Exposed
					}
				}
				assert.LessOrEqual(t, lost, deadline+100*time.Millisecond+2*tick)
				origins := map[Origin]int{}
				for _, tok := range got.Tokens {
					origins[tok.Origin]++
				}
				assert.Positive(t, origins[FromCloud], "before it died")
				assert.Positive(t, origins[EdgeTimeout], "afterwards")
			})
		})
	}
}

// TestCloudRecovers checks that a probe finds a cloud that works again, that no token waits for it before, and that its
// tokens are then used.
func TestCloudRecovers(t *testing.T) {
	const from, to = time.Second, 3 * time.Second
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(3)
		var lost atomic.Int32
		tr.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
			if at := time.Since(tr.began); at > from && at < to {
				lost.Add(1)
				return hole(ctx)
			}
			return tr.right(ctx, q, 50*time.Millisecond)
		}}
		d := tr.decoder(t, mode)
		_, events, took := tr.decode(t, d)
		outcomes := map[Outcome]int{}
		var back time.Duration
		for _, e := range events {
			if e.Escalation != nil {
				outcomes[e.Escalation.Outcome]++
			}
			if e.Token != nil && e.Token.Origin == FromCloud && e.At > to && back == 0 {
				back = e.At
			}
		}
		assert.False(t, d.o.Breaker.Open())
		assert.NotZero(t, back)
		assert.Less(t, back, to+2*deadline)
		assert.Positive(t, outcomes[Unasked])
		assert.Equal(t, 1, outcomes[Probed])
		assert.LessOrEqual(t, lost.Load(), int32(4+3), "max all open questions and a few probes")
		assert.Less(t, took, time.Duration(tr.most)*(tick+10*time.Millisecond)+deadline)
	})
}

// TestDeadlineOff: without deadlines the decoder waits for a slow cloud, and an error affects only its own token.
func TestDeadlineOff(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		tr := newTrial(4)
		tr.world.failures = 0.5
		tr.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
			return tr.right(ctx, q, time.Minute)
		}}
		d := tr.decoder(t, mode)
		d.o.Deadline = -1
		got, _, _ := tr.decode(t, d)
		assert.True(t, slices.Equal(tr.world.oracle([]int32{1, 2, 3}, tr.most).Tokens, got.Tokens))
	})
}

// TestSharedBreaker: after one decoder has opened the breaker, another one does not wait.
func TestSharedBreaker(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		one, two := newTrial(5), newTrial(6)
		one.cloud = &cloudFunc{ask: func(ctx context.Context, _ Question) (Answer, error) { return hole(ctx) }}
		two.cloud = one.cloud
		a, b := one.decoder(t, mode), two.decoder(t, mode)
		b.o.Breaker = a.o.Breaker
		one.decode(t, a)
		_, _, took := two.decode(t, b)
		assert.LessOrEqual(t, took, time.Duration(two.most)*tick)
	})
}

// wired is a cloud with a connection that is lost at a time.
type wired struct {
	*cloudFunc
	lost time.Time
}

func (c wired) Connected() bool { return time.Now().Before(c.lost) }

// adaptive decodes with the deadline that follows the cloud. The connection is lost after a time.
func (t *trial) adaptive(tb testing.TB, mode Mode, lost time.Duration) *Decoder {
	d, err := New(t.model, &t.world, wired{t.cloud, t.began.Add(lost)}, Options{
		Mode: mode, MaxTokens: t.most, Vocab: int(t.world.vocab), Pick: t.world.pick,
	})
	require.NoError(tb, err)
	return d
}

// TestDeadlineFollows: without a given deadline, the first answer may take as long as reading the prompt of three
// tokens does, and later ones three times the usual time.
func TestDeadlineFollows(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		for name, c := range map[string]struct {
			first, usual, other time.Duration // of the answers; other: of the twelfth
			late                int
		}{
			"fast":           {time.Second, 10 * time.Millisecond, 790 * time.Millisecond, 0},
			"first too late": {1050 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 1},
			"one late":       {10 * time.Millisecond, 10 * time.Millisecond, 810 * time.Millisecond, 1},
			"slow":           {time.Second, 500 * time.Millisecond, 1400 * time.Millisecond, 0},
			"slow, one late": {time.Second, 500 * time.Millisecond, 1600 * time.Millisecond, 1},
		} {
			trial := newTrial(3)
			trial.world.agree = 1
			trial.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
				switch trial.cloud.asked.Load() {
				case 1:
					return trial.right(ctx, q, c.first)
				case 12:
					return trial.right(ctx, q, c.other)
				}
				return trial.right(ctx, q, c.usual)
			}}
			d := trial.adaptive(t, mode, time.Hour)
			d.o.InFlight = 1
			_, events, _ := trial.decode(t, d)
			var sum Summary
			for _, e := range events {
				sum.Add(e)
			}
			assert.Equal(t, c.late, sum.Late, name)
		}
	})
}

// TestDeadlineOfLostConnection: a cloud that never answers costs one deadline, the short one if it is not connected,
// and little more than the connection lasts; but never more than half a minute, whatever answers took before.
func TestDeadlineOfLostConnection(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		for name, c := range map[string]struct{ lost, usual, most time.Duration }{
			"not connected":          {0, 5 * time.Second, leastDeadline},
			"soon lost":              {900 * time.Millisecond, 5 * time.Second, 2 * leastDeadline},
			"connected":              {time.Hour, 0, leastDeadline + 3*readingTime},
			"slow answers before it": {time.Hour, 20 * time.Second, mostDeadline},
		} {
			trial := newTrial(4)
			trial.cloud = &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) { return hole(ctx) }}
			d := trial.adaptive(t, mode, c.lost)
			d.o.Waits = new(Waits)
			d.o.Waits.recordWait(c.usual)
			_, _, took := trial.decode(t, d)
			work := time.Duration(trial.most+40) * tick
			assert.LessOrEqual(t, took, c.most+work, name)
			assert.GreaterOrEqual(t, took, min(c.most, max(c.lost, leastDeadline)), name)
		}
	})
}
