package draft

import (
	"context"
	"time"
)

// Clock is the time of a simulation, in which one goroutine runs at a time, so that the same inputs give the same
// events. The goroutine of [Decoder.Decode] and those that Go starts take turns: one runs until it calls Wait or ends.
// [Model] and [Cloud] wait by the same clock only.
type Clock interface {
	// Now returns the time. It does not change until the caller waits.
	Now() time.Time
	// Go runs f once the caller waits.
	Go(f func())
	// Wait runs other goroutines and advances the time until done returns true or the time is t; the zero time is
	// never. It returns the last result of done, which is called while no goroutine runs, and after each that has run.
	Wait(t time.Time, done func() bool) bool
}

func (r *decodeRun) clockNow() time.Time {
	if r.Clock != nil {
		return r.Clock.Now()
	}
	return time.Now()
}

func (r *decodeRun) elapsedSince(t time.Time) time.Duration { return r.clockNow().Sub(t) }

// startGoroutine runs f in a goroutine, which [decodeRun.drainAsks] waits for.
func (r *decodeRun) startGoroutine(f func()) {
	if r.Clock == nil {
		r.asks.Go(f)
		return
	}
	r.running++
	r.Clock.Go(func() {
		defer func() { r.running-- }()
		f()
	})
}

// waitForResult waits until there is a result, or no goroutine of [decodeRun.startGoroutine] is left, and reports
// whether there is a result. Call it until it returns false.
func (r *decodeRun) waitForResult() (came bool) {
	if r.Clock != nil {
		done := func() bool { return r.results.hasResults() || r.running == 0 }
		return r.Clock.Wait(time.Time{}, done) && r.results.hasResults()
	}
	if r.alone == nil {
		r.alone = make(chan struct{})
		go func() {
			r.asks.Wait()
			close(r.alone)
		}()
	}
	select {
	case <-r.results.bell:
		return true
	case <-r.alone:
		return r.results.hasResults()
	}
}

func (r *decodeRun) waitForGoroutines() {
	if r.Clock != nil {
		r.Clock.Wait(time.Time{}, func() bool { return r.running == 0 })
		return
	}
	r.asks.Wait()
}

// waitForResultUntil waits for a result, for the end of ctx, or until due; the zero time is never. It reports whether
// there is a result.
func (r *decodeRun) waitForResultUntil(ctx context.Context, due time.Time) (came bool) {
	if r.Clock != nil {
		r.Clock.Wait(due, func() bool { return r.results.hasResults() || ctx.Err() != nil })
		return r.results.hasResults()
	}
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-r.results.bell:
		return true
	case <-timer:
	case <-ctx.Done():
	}
	return false
}

func (r *decodeRun) receiveToken(tokens <-chan int32) (t int32, more bool) {
	if r.Clock == nil {
		t, more = <-tokens
		return t, more
	}
	r.Clock.Wait(time.Time{}, func() bool {
		select {
		case t, more = <-tokens:
			return true
		default:
			return false
		}
	})
	return t, more
}

// afterFunc calls f once d has passed, unless stop is called or ctx is done before.
func (r *decodeRun) afterFunc(ctx context.Context, d time.Duration, f func()) (stop func()) {
	if r.Clock == nil {
		t := time.AfterFunc(d, f)
		return func() { t.Stop() }
	}
	stopped := false
	r.startGoroutine(func() {
		if !r.Clock.Wait(r.clockNow().Add(d), func() bool { return stopped || ctx.Err() != nil }) {
			f()
		}
	})
	return func() { stopped = true }
}
