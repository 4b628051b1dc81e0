package lease

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestLease: a use continues until its end, also inside another use; after Close no use can begin.
func TestLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l Lease
		var closed atomic.Bool
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for l.Take() {
					time.Sleep(time.Millisecond)
					if l.Take() {
						l.Give()
					}
					assert.False(t, closed.Load())
					l.Give()
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		assert.True(t, l.Close())
		closed.Store(true)
		assert.False(t, l.Close())
		assert.False(t, l.Take())
		all.Wait()
	})
}
