package wait_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/wait"
)

// TestFor: it takes as long as it is told to, or until the context ends, and then says why.
func TestFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Second, 0, 1, time.Hour} {
			begin := time.Now()
			assert.NoError(t, wait.For(t.Context(), d))
			assert.Equal(t, max(0, d), time.Since(begin))
		}
		why := errors.New("why")
		ctx, end := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer end()
		begin := time.Now()
		assert.NoError(t, wait.For(ctx, time.Minute-1))
		assert.Equal(t, why, wait.For(ctx, time.Hour))
		assert.Equal(t, time.Minute, time.Since(begin))
		assert.Equal(t, why, wait.For(ctx, time.Hour), "it has ended before")
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}
