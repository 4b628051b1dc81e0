package files

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestCloseWaits: every call of Close waits for all uses, also one that finds the lease closed; one of them is the
// first.
func TestCloseWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l Lease
		assert.True(t, l.Take())
		assert.True(t, l.Take())
		var first, over atomic.Int32
		for range 3 {
			go func() {
				if l.Close() {
					first.Add(1)
				}
				over.Add(1)
			}()
		}
		for range 2 {
			synctest.Wait()
			assert.Zero(t, over.Load())
			assert.False(t, l.Take())
			l.Give()
		}
		synctest.Wait()
		assert.EqualValues(t, 3, over.Load())
		assert.EqualValues(t, 1, first.Load())
	})
}

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
