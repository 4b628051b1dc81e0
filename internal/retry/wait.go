package retry

import (
	"context"
	"time"
)

// Wait waits for d and returns nil, or returns the cause of ctx's end if that is earlier.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
