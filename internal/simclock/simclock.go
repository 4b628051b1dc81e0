// Package simclock is the clock of a simulation: it stands still while a goroutine computes, and jumps to the next time
// that a goroutine waits for. The goroutines of a simulation run one at a time, in an order that depends only on what
// they wait for, so that the same inputs give the same run.
package simclock

import "time"

// Clock is the clock of one simulation. Make it with [New]; only goroutines of [Clock.Run] may call its methods.
type Clock struct {
	now     time.Time
	waiting []*waiter // in the order in which they began to wait
	paused  chan struct{}
}

// waiter is a waiting goroutine.
type waiter struct {
	until time.Time   // zero: without limit
	done  func() bool // nil: it only waits for the time
	wake  chan bool   // receives the result of done
}

// New returns a clock that begins at a time.
func New(now time.Time) *Clock { return &Clock{now: now, paused: make(chan struct{})} }

// Run runs f and all functions started with [Clock.Go], and returns when they have ended. It panics on a deadlock: if
// all goroutines wait without a time limit and no done function is true.
func (c *Clock) Run(f func()) {
	c.Go(f)
	for len(c.waiting) > 0 {
		w, done := c.popRunnable()
		w.wake <- done
		<-c.paused
	}
}

// Go runs f concurrently, as soon as the caller waits.
func (c *Clock) Go(f func()) {
	w := &waiter{done: func() bool { return true }, wake: make(chan bool)}
	c.waiting = append(c.waiting, w)
	go func() {
		<-w.wake
		f()
		c.paused <- struct{}{}
	}()
}

// Now returns the current time.
func (c *Clock) Now() time.Time { return c.now }

// Wait lets other goroutines run and time pass, until done, which may be nil, returns true or the time is t; the zero
// time means never. It returns the result of done. done is called while no goroutine runs.
func (c *Clock) Wait(t time.Time, done func() bool) bool {
	if done != nil && done() {
		return true
	}
	w := &waiter{t, done, make(chan bool)}
	c.waiting = append(c.waiting, w)
	c.paused <- struct{}{}
	return <-w.wake
}

// Sleep waits for d, or until done, which may be nil, returns true; it returns the result of done.
func (c *Clock) Sleep(d time.Duration, done func() bool) bool { return c.Wait(c.now.Add(d), done) }

// popRunnable removes the goroutine that runs next: the first one whose wait is over, or else the first of those with
// the earliest time. It then sets the clock to that time.
func (c *Clock) popRunnable() (w *waiter, done bool) {
	soonest := -1
	for i, w := range c.waiting {
		if w.done != nil && w.done() {
			return c.removeWaiter(i), true
		}
		if !w.until.IsZero() && (soonest < 0 || w.until.Before(c.waiting[soonest].until)) {
			soonest = i
		}
	}
	if soonest < 0 {
		panic("simclock: deadlock: all goroutines wait without a time limit")
	}
	if t := c.waiting[soonest].until; t.After(c.now) {
		c.now = t
	}
	return c.removeWaiter(soonest), false
}

func (c *Clock) removeWaiter(i int) *waiter {
	w := c.waiting[i]
	c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
	return w
}
