package bubble

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestExpiredTimers: without the workaround this nearly always crashes the race detector.
func TestExpiredTimers(t *testing.T) {
	Test(t, func(*testing.T) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50_000 {
					<-time.NewTimer(0).C
				}
			})
		}
		wg.Wait()
	})
}

func TestProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	want := 2
	if racing.Enabled {
		want = 1
	}
	Test(t, func(t *testing.T) { assert.Equal(t, want, runtime.GOMAXPROCS(0)) })
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}

// TestOverlap: while bubbles overlap there is one processor, until the last of them ends.
func TestOverlap(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	var s single
	s.enter()
	s.enter()
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))
	s.leave()
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))
	s.leave()
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}
