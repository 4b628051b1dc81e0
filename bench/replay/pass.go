package replay

import (
	"context"
	"time"
)

// pass forwards tokens ahead, and records when they arrived. The lock is held.
func (t *Take) pass(ctx context.Context, from <-chan int32, ask int, start time.Time, room int) <-chan int32 {
	to := make(chan int32, room)
	t.beside(func() {
		defer close(to)
		for {
			token, more := t.receive(from)
			if !t.ahead(ctx, ask, start, token, more) {
				return
			}
			select {
			case to <- token:
			case <-ctx.Done():
			}
		}
	})
	return to
}

// ahead records a token ahead, or that there are no more; it returns more.
func (t *Take) ahead(ctx context.Context, ask int, start time.Time, token int32, more bool) bool {
	now := t.r.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &t.a.Asks[ask]
	t.came = now
	if more {
		a.Ahead = append(a.Ahead, Later{token, now.Sub(start)})
	} else {
		a.Until, a.Closed = now.Sub(start), ctx.Err() == nil
	}
	return more
}

// beside runs f in a new goroutine, which [Take.returned] waits for.
func (t *Take) beside(f func()) {
	if t.r.clock == nil {
		t.passes.Go(f)
		return
	}
	t.passed++
	t.r.clock.Go(func() {
		defer func() { t.passed-- }()
		f()
	})
}

// returned waits for the goroutines of [Take.beside].
func (t *Take) returned() {
	if t.r.clock != nil {
		t.r.clock.Wait(time.Time{}, func() bool { return t.passed == 0 })
	}
	t.passes.Wait()
}

// receive returns <-tokens.
func (t *Take) receive(tokens <-chan int32) (token int32, more bool) {
	if t.r.clock == nil {
		token, more = <-tokens
		return token, more
	}
	t.r.clock.Wait(time.Time{}, func() bool {
		select {
		case token, more = <-tokens:
			return true
		default:
			return false
		}
	})
	return token, more
}
