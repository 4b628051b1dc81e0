package client

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// wire describes one ask: the time of each way and in the gateway, and the offset of the gateway's clock.
type wire struct{ ahead, up, inside, down time.Duration }

// learnt returns the times that a clock computes for an ask, and the true ones.
func (w wire) learnt(c *clock, zero time.Time, leaves time.Duration) (have, truth terms.Times) {
	left := zero.Add(leaves)
	sent := w.up + w.inside
	truth = terms.Times{Left: left, Received: left.Add(w.up), Sent: left.Add(sent), Arrived: left.Add(sent + w.down)}
	theirs := netproto.Clock{Received: leaves + w.up + w.ahead, Sent: leaves + w.up + w.inside + w.ahead}
	return c.addSample(truth.Left, truth.Arrived, theirs), truth
}

// TestClockOffset: if both ways take the same time, the gateway's times are exact for any offset of its clock;
// otherwise the error is at most the stated one.
func TestClockOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		zero, c := time.Now(), new(clock)
		ahead := time.Duration(r.Int64N(int64(time.Hour)))
		for i := range 40 {
			w := wire{ahead, 10*time.Millisecond + time.Duration(r.Int64N(4e7)), time.Duration(r.Int64N(4e7)), 0}
			w.down = w.up
			if i%2 == 1 {
				w.down = 10*time.Millisecond + time.Duration(r.Int64N(4e7))
			}
			have, truth := w.learnt(c, zero, time.Duration(i)*time.Second)
			if i == 0 {
				const halves = 2 // nanoseconds, lost in two divisions
				require.WithinDuration(t, truth.Received, have.Received, halves, "the ways take the same time")
				require.WithinDuration(t, truth.Sent, have.Sent, halves)
				require.Equal(t, w.up, have.Within)
			}
			require.Equal(t, truth.Left, have.Left)
			require.Equal(t, truth.Arrived, have.Arrived)
			require.LessOrEqual(t, have.Received.Sub(truth.Received).Abs(), have.Within+2)
			require.LessOrEqual(t, have.Sent.Sub(truth.Sent).Abs(), have.Within+2)
			require.False(t, have.Received.Before(have.Left) || have.Sent.Before(have.Received))
			require.False(t, have.Arrived.Before(have.Sent))
		}
	}
}

// TestClockForgets: the ask with the min round trip counts, the later one of equal ones; it is dropped after 16 asks.
func TestClockForgets(t *testing.T) {
	zero, c := time.Now(), new(clock)
	ms := time.Millisecond
	slow := wire{0, 50 * ms, ms, 90 * ms} // taken alone, it suggests that the clock is 20 ms slow
	_, _ = wire{0, 5 * ms, ms, 5 * ms}.learnt(c, zero, 0)
	for i := range len(c.last) - 1 {
		have, truth := slow.learnt(c, zero, time.Duration(i+1)*time.Second)
		require.Equal(t, truth.Received, have.Received, "%d", i)
		require.Equal(t, 5*ms, have.Within)
	}
	have, truth := slow.learnt(c, zero, time.Minute)
	assert.Equal(t, truth.Received.Add(20*ms), have.Received, "the best ask is dropped")
	assert.Equal(t, 70*ms, have.Within)
	have, truth = wire{7 * ms, 70 * ms, ms, 70 * ms}.learnt(c, zero, 2*time.Minute)
	assert.Equal(t, truth.Received, have.Received, "as good as the others, and later")
}

// TestClockLies: times of the gateway that are impossible are ignored: before the ask was sent, or longer than the
// whole ask.
func TestClockLies(t *testing.T) {
	zero, c := time.Now(), new(clock)
	ms := time.Millisecond
	longest := time.Duration(1<<32) * time.Millisecond
	have := c.addSample(zero, zero.Add(10*ms), netproto.Clock{Received: 5 * ms, Sent: 16 * ms})
	assert.Zero(t, have, "11 of 10 ms")
	assert.Zero(t, c.n)
	assert.Zero(t, c.addSample(zero, zero.Add(10*ms), netproto.Clock{Received: longest, Sent: 2 * longest}))
	_, _ = wire{0, 5 * ms, ms, 5 * ms}.learnt(c, zero, 0)
	have = c.addSample(zero.Add(time.Second), zero.Add(time.Second+20*ms),
		netproto.Clock{Received: 3 * ms, Sent: 4 * ms})
	assert.Equal(t, have.Left, have.Received)
	assert.Equal(t, have.Left, have.Sent)
	have = c.addSample(zero.Add(time.Second), zero.Add(time.Second+20*ms),
		netproto.Clock{Received: longest, Sent: longest})
	assert.Equal(t, have.Arrived, have.Received)
	assert.Equal(t, have.Arrived, have.Sent)
}

// TestClockInTime: an ask with a clock gets the times in the gateway, and the bytes are counted. A clock before the
// answer to an ask without one breaks the protocol.
func TestClockInTime(t *testing.T) {
	const ahead, inside = 5 * time.Hour, 7 * time.Millisecond
	var zero time.Time
	s := &script{}
	s.reply = func(_ int, a netproto.Ask) []byte {
		arrived := time.Since(zero) + ahead
		time.Sleep(inside)
		var b []byte
		if a.Times || a.K == 1 {
			b = netproto.Clock{Received: arrived, Sent: arrived + inside}.Append(nil)
		}
		return netproto.Answer{Reply: terms.Reply{Token: 1}}.Append(b)
	}
	inAir(t, s, func(t *testing.T, a *air) {
		zero = time.Now()
		c, session := s.dial(t, nil)
		require.NoError(t, c.connectOnce(t.Context()))
		for range 3 {
			plain := mustAsk(t, session, terms.Question{Context: ids(20)})
			require.Zero(t, plain.Times)
			start := time.Now()
			r := mustAsk(t, session, terms.Question{Context: ids(20), Times: true})
			assert.Equal(t, terms.Times{Left: start, Received: start.Add(a.hop), Sent: start.Add(a.hop + inside),
				Arrived: start.Add(2*a.hop + inside), Within: a.hop}, r.Times)
			assert.Greater(t, r.BytesDown, plain.BytesDown+3)
		}
		_, err := session.Ask(t.Context(), terms.Question{Context: ids(20), K: 1})
		assert.ErrorIs(t, err, ErrProtocol)
	})
}
