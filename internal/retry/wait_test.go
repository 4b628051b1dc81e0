package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
)

// TestWait: the call takes the given time, or until the context ends, and then returns the cause.
func TestWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Second, 0, 1, time.Hour} {
			begin := time.Now()
			assert.NoError(t, retry.Wait(t.Context(), d))
			assert.Equal(t, max(0, d), time.Since(begin))
		}
		why := errors.New("why")
		ctx, end := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer end()
		begin := time.Now()
		assert.NoError(t, retry.Wait(ctx, time.Minute-1))
		assert.Equal(t, why, retry.Wait(ctx, time.Hour))
		assert.Equal(t, time.Minute, time.Since(begin))
		assert.Equal(t, why, retry.Wait(ctx, time.Hour), "the context has already ended")
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}
