package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// attempt is one try to connect, which any number of asks wait for.
type attempt struct {
	done chan struct{} // closed when link and err are set
	link *link
	err  error
}

// link returns the connection, made anew where it has gone, or why there is none. A failed attempt is repeated until
// ctx ends, unless the gateway refuses for good.
func (c *Client) link(ctx context.Context) (*link, error) {
	var last error
	for {
		l, a, err := c.currentOrAttempt()
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), fmt.Errorf("%w: %w", ErrNoReply, orPending(last)))
		case <-a.done:
		}
		if a.err == nil {
			return a.link, nil
		}
		if last = a.err; lasting(last) {
			return nil, last
		}
	}
}

func orPending(err error) error {
	if err == nil {
		return errors.New("still connecting")
	}
	return err
}

// lasting reports whether an attempt would fail the same way the next time.
func lasting(err error) bool {
	_, wrongPin := errors.AsType[*PinError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if wrongPin || untrusted || errors.Is(err, ErrClosed) || errors.Is(err, ErrProtocol) {
		return true
	}
	code, ok := errors.AsType[netproto.Code](err)
	return ok && code.Lasting()
}

// currentOrAttempt returns the connection, or the attempt under way, which it starts if there is none.
func (c *Client) currentOrAttempt() (*link, *attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, ErrClosed
	case c.current != nil && c.current.usable():
		return c.current, nil, nil
	case c.attempt != nil:
		return nil, c.attempt, nil
	}
	a := &attempt{done: make(chan struct{})}
	c.attempt, c.current = a, nil
	pause := backoff(c.failures, rand.Float64())
	c.tasks.Go(func() { c.try(a, pause) })
	return nil, a, nil
}

// backoff returns how long to wait before the next attempt after some that failed: nothing the first time, then 50 ms,
// doubling up to 5 s, each times 0.75 to 1.25 so that many edges do not come back at the same moment.
func backoff(failures int, random float64) time.Duration {
	const first, longest = 50 * time.Millisecond, 5 * time.Second
	if failures == 0 {
		return 0
	}
	d := longest
	if failures < 8 {
		d = min(first<<(failures-1), longest)
	}
	return time.Duration(float64(d) * (0.75 + random/2))
}

// try makes one attempt after a pause.
func (c *Client) try(a *attempt, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		a.link, a.err = c.open()
	case <-c.ctx.Done():
		a.err = ErrClosed
	}
	c.mu.Lock()
	c.attempt = nil
	stale := c.closed && a.err == nil
	switch {
	case stale:
	case a.err != nil:
		c.failures++
	default:
		c.current = a.link
		c.stats.Connections++
	}
	c.mu.Unlock()
	if stale {
		a.err = errors.Join(ErrClosed, a.link.close(netproto.NoReason))
	}
	close(a.done)
}

// retire takes a connection out of use; it is closed when its last ask is done.
func (c *Client) retire(l *link) {
	c.mu.Lock()
	if c.current == l {
		c.current = nil
	}
	c.mu.Unlock()
	l.retire()
}

// succeed notes that the gateway welcomes us.
func (c *Client) succeed(w netproto.Welcome, early bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
	c.welcome = w
	if early {
		c.stats.Early++
	}
}

// fail notes that a connection that was already in use is not welcome, so that the next one does not come at once.
func (c *Client) fail(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.early {
		c.failures++
	}
}

// followRoute moves the connection when the way to the gateway begins at another local address.
func (c *Client) followRoute() {
	tick := time.NewTicker(c.opt.RouteCheck)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		l := c.current
		c.mu.Unlock()
		if l == nil || !l.usable() || !l.routeChanged() {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.opt.ConnectTimeout)
		if err := c.migrate(ctx, l); err != nil {
			c.retire(l)
		}
		cancel()
	}
}

// Migrate moves the connection to a new local socket, as after a change of network. Sessions and open asks go on. The
// client does so by itself when its local address changes.
func (c *Client) Migrate(ctx context.Context) error {
	l, err := c.link(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := l.wait(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return c.migrate(ctx, l)
}

func (c *Client) migrate(ctx context.Context, l *link) error {
	if err := l.migrate(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Migrations++
	return nil
}
