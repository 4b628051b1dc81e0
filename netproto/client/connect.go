package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// attempt is one attempt to connect. Any number of asks may wait for it.
type attempt struct {
	done chan struct{} // closed when link and err are set
	link *link
	err  error
}

// waitForLink returns the connection. If there is none it makes one, or returns why it cannot. A failed attempt is
// repeated until ctx ends, unless the next one would fail for the same reason.
func (c *Client) waitForLink(ctx context.Context) (*link, error) {
	start := time.Now()
	for {
		l, a, err := c.currentOrAttempt()
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, c.noConnectionError(ctx, start)
		case <-a.done:
		}
		if a.err == nil {
			return a.link, nil
		}
		if isLastingError(a.err) {
			return nil, a.err
		}
	}
}

func (c *Client) withPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, ErrNoReply)
}

// noConnectionError returns the error of a caller that has waited since start when ctx ends: why the last attempt
// failed, even if that was before start, or how long there has been no reply.
func (c *Client) noConnectionError(ctx context.Context, start time.Time) error {
	c.mu.Lock()
	why := c.failure
	c.mu.Unlock()
	if why == nil {
		why = &ConnectError{c.addr, noReplyError(c.addr, start)}
	}
	if cause := context.Cause(ctx); cause != ErrNoReply {
		return fmt.Errorf("%w: %w", cause, why)
	}
	return why
}

// currentOrAttempt returns the connection or the attempt under way. It starts an attempt if there is neither.
func (c *Client) currentOrAttempt() (*link, *attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, ErrClosed
	case c.current != nil && c.current.isUsable():
		return c.current, nil, nil
	case c.attempt != nil:
		return nil, c.attempt, nil
	}
	a := &attempt{done: make(chan struct{})}
	c.attempt, c.current = a, nil
	pause := reconnectDelay(c.failures, rand.Float64())
	c.tasks.Go(func() { c.runAttempt(a, pause) })
	return nil, a, nil
}

// reconnectDelay returns the wait before the next attempt, after a number of failures: none the first time, then 50 ms,
// doubling up to 5 s, each times 0.75 to 1.25 so that many edges do not reconnect at the same moment.
func reconnectDelay(failures int, random float64) time.Duration {
	return retry.Spread(retry.Delay(failures, 50*time.Millisecond, 5*time.Second), 0.25, random)
}

func (c *Client) runAttempt(a *attempt, pause time.Duration) {
	if retry.Wait(c.ctx, pause) == nil {
		a.link, a.err = c.dialGateway()
	} else {
		a.err = ErrClosed
	}
	if a.err != nil && !errors.Is(a.err, ErrClosed) {
		a.err = &ConnectError{c.addr, a.err}
		c.recordFailure(a.err)
	}
	c.mu.Lock()
	c.attempt = nil
	if a.err == nil && !c.closed { // otherwise Close closes it
		c.current = a.link
		c.stats.Connections++
	}
	c.mu.Unlock()
	close(a.done)
}

func (c *Client) recordFailure(err error) {
	c.mu.Lock()
	c.failures++
	c.failure = err
	c.mu.Unlock()
	c.opt.Attempted(err)
}

func (c *Client) retireLink(l *link) {
	c.mu.Lock()
	if c.current == l {
		c.current = nil
	}
	c.mu.Unlock()
	l.closeWhenIdle()
}

func (c *Client) recordSuccess(w netproto.Welcome, early bool) {
	c.mu.Lock()
	c.failures, c.failure = 0, nil
	c.welcome = w
	if early {
		c.stats.Early++
	}
	c.mu.Unlock()
	c.opt.Attempted(nil)
}
