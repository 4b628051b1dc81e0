package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestStreamEnds: a stream ends where the recorded one did if the large model ended it, not if no more were wanted.
func TestStreamEnds(t *testing.T) {
	for _, c := range []struct {
		wanted, sent, recorded, then int
		closed, more                 bool
	}{
		{wanted: 5, sent: 2, recorded: 2, then: 3, closed: true},
		{wanted: 5, sent: 1, recorded: 2, then: 3, closed: true, more: true},
		{wanted: 5, sent: 2, recorded: 2, then: 3, more: true},
		{wanted: 5, sent: 2, recorded: 2, then: 2, closed: true, more: true},
		{wanted: 2, sent: 2, recorded: 3, then: 3, closed: true},
	} {
		s := &stream{wanted: c.wanted, sent: c.sent, exact: &Ask{Closed: c.closed, Wanted: c.then,
			Ahead: make([]Later, c.recorded)}}
		assert.Equal(t, c.more, s.more(), c)
	}
}
