package draft

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// The figures of a realistic device: 60 tokens per second, an additional row in a forward call costs 6%, and 5% of the
// tokens escalate. The large model's token is the small model's first choice in 58% of those, among its best two in
// 75%, three in 85%, four in 93%. The cloud computes for 20 ms, or 0.
const (
	edgeTime = time.Second / 60
	rowCost  = 0.06
)

// overlap decodes texts of 200 tokens and returns the total time and statistics.
func overlap(t *testing.T, o Options, rtt, cloud time.Duration) (took time.Duration, sum Summary) {
	texts := uint64(40)
	if testing.Short() {
		texts = 10
	}
	for seed := range texts {
		w := &world{seed: seed, vocab: 600, share: 0.05, ranks: []float64{0.58, 0.75, 0.85, 0.93}}
		m := &fakeModel{world: w, slots: 10000, most: 8, calls: 100000, time: func(rows int) time.Duration {
			return time.Duration(float64(edgeTime) * (1 + rowCost*float64(rows-1)))
		}}
		c := &cloudFunc{ask: func(ctx context.Context, q Question) (Answer, error) {
			id, err := w.answer(hashOf(q.Context))
			return Answer{Reply: terms.Reply{Token: id, Compute: cloud}}, err
		}}
		c.ask = delayed(c.ask, rtt+cloud)
		o.MaxTokens = 200
		d, err := New(m, w, c, o)
		require.NoError(t, err)
		start := time.Now()
		s, err := d.Decode(t.Context(), []int32{1, 2, 3}, func(Event) bool { return true })
		require.NoError(t, err)
		took += time.Since(start)
		sum.Tokens += s.Tokens
		sum.Escalations += s.Escalations
		sum.Hits += s.Hits
		sum.Wait += s.Wait
		sum.Hidden += s.Hidden
		sum.Exposed += s.Exposed
		sum.Asks += s.Asks
		sum.Wasted += s.Wasted
	}
	return took, sum
}

func delayed(
	ask func(context.Context, Question) (Answer, error), by time.Duration,
) func(context.Context, Question) (Answer, error) {
	return func(ctx context.Context, q Question) (Answer, error) {
		if err := sleep(ctx, by); err != nil {
			return Answer{}, err
		}
		return ask(ctx, q)
	}
}

// TestOverlap compares the arithmetic with a run in virtual time: at 100 ms round trip a hit hides the wait, so the
// hidden share is about the hit rate. Drafting never costs more than 3% over waiting, at any round trip.
func TestOverlap(t *testing.T) {
	racing.Spare(t)
	t.Log("branches  rtt  cloud  serial  pipelined  ratio  hits  hidden share  questions/escalation  wasted/token")
	for _, ms := range [][2]int{
		{0, 0}, {1, 0}, {2, 0}, {5, 0}, {10, 0}, {0, 20}, {5, 20}, {10, 20}, {20, 20}, {50, 20}, {100, 20}, {200, 20},
		{300, 20}, {500, 20},
	} {
		rtt, cloud := time.Duration(ms[0])*time.Millisecond, time.Duration(ms[1])*time.Millisecond
		bubble.Test(t, func(t *testing.T) {
			serial, _ := overlap(t, Options{Mode: Serial}, rtt, cloud)
			for _, branches := range []int{1, 2, 4} {
				took, s := overlap(t, Options{Branches: branches}, rtt, cloud)
				ratio := took.Seconds() / serial.Seconds()
				hits := float64(s.Hits) / float64(s.Escalations)
				hidden := s.Hidden.Seconds() / (s.Hidden + s.Exposed).Seconds()
				t.Logf("%8d %4d %4d %6.1fs %8.1fs  %6.3f %6.3f %8.3f %12.2f %19.2f",
					branches, ms[0], ms[1], serial.Seconds(), took.Seconds(), ratio, hits, hidden,
					float64(s.Asks)/float64(s.Escalations), float64(s.Wasted)/float64(s.Tokens))
				if branches == 1 { // no additional rows
					assert.InDelta(t, (serial - took).Seconds(), (s.Wait - s.Exposed).Seconds(), 0.005*serial.Seconds(),
						"the sums of times")
				}
				assert.LessOrEqual(t, ratio, 1.03, "pipelined with %d branches at %v", branches, rtt)
				if ms[0] == 100 {
					assert.GreaterOrEqual(t, hidden, 0.9*hits, "%d branches", branches)
				}
				if branches == 4 && ms[0] > 0 && cloud > 0 {
					assert.GreaterOrEqual(t, hits, 0.8, "at %v", rtt)
				}
			}
		})
	}
}
