package pool

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCloseWaits: when Close returns, the workers have ended. On one processor, those that it does not wait for could
// not have run. A round in which another thread of the process disturbs this may fail, most may not.
func TestCloseWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 9
	ended := 0
	for range rounds {
		before := runtime.NumGoroutine()
		p := New(4)
		p.Run(8, 1, func(_, _, _ int) {})
		p.Close()
		if runtime.NumGoroutine() <= before {
			ended++
		}
	}
	assert.Greater(t, ended, rounds/2)
}

// TestNeeds: a worker does not go to sleep while a piece waits, since the call that would wake it may be over, nor when
// the pool is closed, nor soon after its last work in a pass.
func TestNeeds(t *testing.T) {
	p := New(1)
	assert.False(t, p.needs(0))
	p.hand(2, false)
	assert.True(t, p.needs(sleepAfter))
	p.shares[0].set(0, 0, false)
	assert.False(t, p.needs(sleepAfter))
	p.Begin()
	assert.True(t, p.needs(sleepAfter-1))
	assert.False(t, p.needs(sleepAfter))
	p.End()
	assert.False(t, p.needs(0))
	p.Close()
	assert.True(t, p.needs(sleepAfter))
}
