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
