package draft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestAheadStreams: tokens ahead are facts in the order in which they come, at most as many as were asked for. After a
// token that cannot be, or when the text has passed it, a stream has ended: what comes then only counts.
func TestAheadStreams(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := runOf(Options{Ahead: 4, Vocab: 10}.withDefaults(), []int32{1}, nil)
		var why error
		begin := func() *escalation {
			e := &escalation{at: r.tree.tip, cancel: func(err error) { why = err }}
			e.Pos = 1
			r.streams.openStream(e)
			r.streams.beginStream(e, result{answer: Answer{Reply: Reply{Token: 2}}, at: time.Now()})
			return e
		}
		e := begin()
		time.Sleep(20 * ms)
		assert.True(t, r.streams.applyAhead(result{of: e, ahead: []int32{3, 4}, at: time.Now()}))
		assert.Equal(t, 10*ms, r.lately.pace)
		second := r.tree.tip.fact.next[2]
		assert.Equal(t, []int32{3, 4}, []int32{second.token, second.next[3].token})
		assert.Same(t, e.stream, second.from)

		assert.True(t, r.streams.applyAhead(result{of: e, ahead: []int32{10, 5}, at: time.Now()}))
		assert.ErrorIs(t, why, ErrToken)
		assert.Equal(t, []int32{2, 3, 4}, e.stream.tokens)
		assert.False(t, r.streams.hasLiveStream())
		assert.False(t, r.streams.applyAhead(result{of: e, ahead: []int32{5, 6}}))
		assert.Equal(t, 1, e.stream.late, "four were asked for")

		f := begin()
		r.tree.addChild(r.tree.tip, 7, 1)
		r.streams.cancelUselessStreams()
		assert.ErrorIs(t, why, errDropped)
		assert.False(t, f.stream.live, "the draft contradicts it")
	})
}
