package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCloseWaitsForOneCall: Close waits for the forward call that runs, and for none of those that wait for their turn.
func TestCloseWaitsForOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l life
		released := false
		why := errors.New("what the release says")
		l.begin(func() error { released = true; return why })
		running, err := l.hold(t.Context())
		require.NoError(t, err)
		ran := 0
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				done, err := l.hold(context.Background())
				if err == nil {
					ran++
					done()
				}
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		ctx, stop := l.bind(t.Context())
		defer stop()
		synctest.Wait()
		all.Go(func() { assert.Equal(t, why, l.close()) })
		time.Sleep(time.Second)
		assert.False(t, released, "a forward call runs")
		assert.Equal(t, ErrClosed, context.Cause(ctx))
		running()
		all.Wait()
		assert.True(t, released)
		assert.Zero(t, ran)
		assert.Equal(t, why, l.close(), "once more")
	})
}
