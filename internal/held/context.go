package held

import (
	"context"
	"sync/atomic"
)

// Context is a context that counts what waits for its end: functions of [context.AfterFunc] and contexts derived from
// it. What is over must not wait any more, since it would be held as long as the context lives.
type Context struct {
	context.Context
	Waiting atomic.Int32
	Ever    atomic.Int32 // the same, without those that have stopped waiting taken off
}

// Value returns nil: it hides the context within, so that package context calls AfterFunc.
func (c *Context) Value(any) any { return nil }

// AfterFunc is [context.AfterFunc], counted.
func (c *Context) AfterFunc(f func()) func() bool {
	c.Waiting.Add(1)
	c.Ever.Add(1)
	stop := context.AfterFunc(c.Context, func() { c.Waiting.Add(-1); f() })
	return func() bool { c.Waiting.Add(-1); return stop() }
}
