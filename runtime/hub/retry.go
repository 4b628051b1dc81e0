package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
)

// transientError is a failure that another try may mend. Only what happens on the network is one: a full disk is not.
type transientError struct {
	err   error
	after time.Duration // the server's wish how long to wait; 0 where it has none
	moved bool          // bytes arrived before it failed, so it does not count against the attempts
}

func (e *transientError) Error() string { return e.err.Error() }
func (e *transientError) Unwrap() error { return e.err }

// retry calls try until it succeeds, fails for good, or has failed opt.Attempts times in a row without bringing anything.
// It waits between tries, longer each time and never exactly as long as others do.
func (p *puller) retry(ctx context.Context, try func() error) error {
	delay, failed := firstDelay, 0
	for {
		err := try()
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		again, ok := errors.AsType[*transientError](err)
		if !ok {
			return err
		}
		if again.moved {
			delay, failed = firstDelay, 0
		}
		if failed++; failed >= p.opt.Attempts {
			return fmt.Errorf("gave up after %d tries: %w", failed, again.err)
		}
		pause := max(delay/2+rand.N(delay), again.after)
		p.opt.Notice(fmt.Sprintf("%v; trying again in %.1fs", again.err, pause.Seconds()))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		delay = min(2*delay, maxDelay)
	}
}

// sleep waits for d or for the end of ctx, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
