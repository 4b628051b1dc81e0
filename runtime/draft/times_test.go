package draft

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// telling is a script with a cloud that reports its times if asked to.
type telling struct {
	*script
	wanted   []bool
	reported []terms.Times
}

func (c *telling) Ask(ctx context.Context, q Question) (Answer, error) {
	left := time.Now()
	a, err := c.script.Ask(ctx, q)
	c.wanted = append(c.wanted, q.Times)
	if q.Times && err == nil {
		a.Times = terms.Times{
			Left: left, Received: left.Add(10 * ms), Sent: left.Add(35 * ms), Arrived: time.Now(), Within: ms,
		}
		c.reported = append(c.reported, a.Times)
	}
	return a, err
}

// TestTimesOfAnswers: answers report their times only in a trace, and events contain those of their answer.
func TestTimesOfAnswers(t *testing.T) {
	for _, trace := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			s := &script{escalate: []int{2, 4}}
			c := &telling{script: s}
			d, err := New(s, s, c, Options{Mode: Serial, MaxTokens: 5, Deadline: -1, Trace: trace})
			require.NoError(t, err)
			var got []terms.Times
			_, err = d.Decode(t.Context(), []int32{0}, func(e Event) bool {
				if e.Escalation != nil {
					got = append(got, e.Escalation.Times)
				}
				return true
			})
			require.NoError(t, err)
			assert.Equal(t, []bool{trace, trace}, c.wanted)
			if !trace {
				assert.Equal(t, make([]terms.Times, 2), got)
				return
			}
			assert.Equal(t, c.reported, got)
		})
	}
}
