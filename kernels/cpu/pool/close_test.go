package pool

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCloseWaits: the workers have ended when Close returns. On one processor, workers that Close does not wait for
// could not have run. Another thread of the process may disturb a round, so a minority of rounds may fail.
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

// TestNeeds: a worker stays awake while a piece waits, because the call that would wake it may be over, when the pool
// is closed, and for a short time after its last work in a pass.
func TestNeeds(t *testing.T) {
	p := New(1)
	assert.False(t, p.mustStayAwake(0))
	p.shares[0].setPieces(1, 0, 2, false)
	assert.True(t, p.mustStayAwake(sleepAfter))
	p.shares[0].setPieces(1, 2, 2, false)
	assert.False(t, p.mustStayAwake(sleepAfter))
	p.Begin()
	assert.True(t, p.mustStayAwake(sleepAfter-1))
	assert.False(t, p.mustStayAwake(sleepAfter))
	p.End()
	assert.False(t, p.mustStayAwake(0))
	p.Close()
	assert.True(t, p.mustStayAwake(sleepAfter))
}
