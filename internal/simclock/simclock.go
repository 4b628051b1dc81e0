// Package simclock is the time of a simulation: it stands still while anybody computes, and jumps to the next moment
// for which somebody waits. Of the goroutines of a simulation one runs at a time, in an order that follows from what
// they wait for alone, so that the same inputs give the same run.
package simclock

import "time"

// Clock is the time of one simulation. Make it with [New]; its methods are for the goroutines of [Clock.Run] alone.
type Clock struct {
	now     time.Time
	waiting []*waiter // in the order in which they began to wait
	paused  chan struct{}
}

// waiter is a goroutine that waits.
type waiter struct {
	until time.Time   // zero: for ever
	done  func() bool // nil: it waits for the time alone
	wake  chan bool   // takes what done reported
}

// New returns a clock that begins at a moment.
func New(now time.Time) *Clock { return &Clock{now: now, paused: make(chan struct{})} }

// Run runs f and all that it starts with [Clock.Go], and returns when they have ended. It panics where everybody waits
// for something that nobody will do.
func (c *Clock) Run(f func()) {
	c.Go(f)
	for len(c.waiting) > 0 {
		w, done := c.next()
		w.wake <- done
		<-c.paused
	}
}

// Go lets f run beside the others, as soon as the caller waits.
func (c *Clock) Go(f func()) {
	w := &waiter{done: func() bool { return true }, wake: make(chan bool)}
	c.waiting = append(c.waiting, w)
	go func() {
		<-w.wake
		f()
		c.paused <- struct{}{}
	}()
}

// Now is the moment.
func (c *Clock) Now() time.Time { return c.now }

// Wait lets the others run and time pass, until done, which may be nil, reports true or it is t; the zero time is
// never. It returns what done reported. done is called while nobody runs.
func (c *Clock) Wait(t time.Time, done func() bool) bool {
	if done != nil && done() {
		return true
	}
	w := &waiter{t, done, make(chan bool)}
	c.waiting = append(c.waiting, w)
	c.paused <- struct{}{}
	return <-w.wake
}

// Sleep waits for d, or until done, which may be nil, reports true; it returns what that reported.
func (c *Clock) Sleep(d time.Duration, done func() bool) bool { return c.Wait(c.now.Add(d), done) }

// next takes the goroutine out that goes on next: the first that waits for nothing any more, or else the first of those
// whose time comes next. Then it is that time.
func (c *Clock) next() (w *waiter, done bool) {
	soonest := -1
	for i, w := range c.waiting {
		if w.done != nil && w.done() {
			return c.take(i), true
		}
		if !w.until.IsZero() && (soonest < 0 || w.until.Before(c.waiting[soonest].until)) {
			soonest = i
		}
	}
	if soonest < 0 {
		panic("simclock: everybody waits, and nobody would end that")
	}
	if t := c.waiting[soonest].until; t.After(c.now) {
		c.now = t
	}
	return c.take(soonest), false
}

// take takes a goroutine out of those that wait.
func (c *Clock) take(i int) *waiter {
	w := c.waiting[i]
	c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
	return w
}
