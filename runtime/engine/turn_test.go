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

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestCloseWaitsForOneCall: Close waits for the running forward call, and for none that waits for its turn.
func TestCloseWaitsForOneCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l lifetime
		released := false
		why := errors.New("what the release says")
		l.startLifetime(func() error { released = true; return why })
		running, err := l.acquireModel(t.Context())
		require.NoError(t, err)
		ran := 0
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				done, err := l.acquireModel(context.Background())
				if err == nil {
					ran++
					done()
				}
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		ctx, stop := l.bindContext(t.Context())
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

// TestAcquireGivesUp: a cancelled wait for the model returns the cause, and holds neither the model nor the engine.
func TestAcquireGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l lifetime
		l.startLifetime(func() error { return nil })
		done, err := l.acquireModel(t.Context())
		require.NoError(t, err)
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begin := time.Now()
		for range 3 {
			_, err = l.acquireModel(ctx)
			assert.Equal(t, why, err)
		}
		assert.Equal(t, time.Second, time.Since(begin))
		done()
		for range 3 { // the model is free, and only one call holds it at a time
			done, err := l.acquireModel(t.Context())
			require.NoError(t, err)
			assert.Empty(t, l.turn)
			done()
		}
		assert.False(t, l.isClosed())
		assert.NoError(t, l.close(), "no caller holds the engine")
		assert.True(t, l.isClosed())
		_, err = l.keepOpen()
		assert.Equal(t, ErrClosed, err)
		_, err = l.acquireModel(t.Context())
		assert.Equal(t, ErrClosed, err)
	})
}

// TestBind: a bound context ends with its parent, with the cause of the parent, and with the engine; releasing it
// leaves nothing.
func TestBind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l lifetime
		l.startLifetime(func() error { return nil })
		closing := &held.Context{Context: l.closing}
		l.closing = closing
		why := errors.New("why")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, release := l.bindContext(parent)
		other, releaseOther := l.bindContext(t.Context())
		over, releaseOver := l.bindContext(t.Context())
		assert.EqualValues(t, 3, closing.Waiting.Load())
		assert.NoError(t, ctx.Err())
		releaseOver()
		assert.Equal(t, context.Canceled, context.Cause(over))
		assert.EqualValues(t, 2, closing.Waiting.Load())
		cancel(why)
		assert.Equal(t, why, context.Cause(ctx))
		release()
		assert.NoError(t, l.close())
		synctest.Wait()
		assert.Equal(t, ErrClosed, context.Cause(other))
		releaseOther()
		assert.Zero(t, closing.Waiting.Load())
		late, releaseLate := l.bindContext(t.Context())
		defer releaseLate()
		synctest.Wait()
		assert.Equal(t, ErrClosed, context.Cause(late), "bound after Close")
	})
}
