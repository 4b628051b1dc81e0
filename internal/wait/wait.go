// Package wait lets time go by.
package wait

import (
	"context"
	"time"
)

// For returns nil when d has gone by, or the cause of ctx's end if that comes first.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
