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

func (r *run) now() time.Time {
	if r.Clock != nil {
		return r.Clock.Now()
	}
	return time.Now()
}

// since returns the duration from t until now.
func (r *run) since(t time.Time) time.Duration { return r.now().Sub(t) }

// beside runs f in a goroutine, which [run.drain] waits for.
func (r *run) beside(f func()) {
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

// returning waits until there is a result, or no goroutine of [run.beside] is left, and reports whether there is a
// result. Call it until it returns false.
func (r *run) returning() (came bool) {
	if r.Clock != nil {
		return r.Clock.Wait(time.Time{}, func() bool { return r.results.any() || r.running == 0 }) && r.results.any()
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
		return r.results.any()
	}
}

// await waits for the goroutines of [run.beside]. Results stay.
func (r *run) await() {
	if r.Clock != nil {
		r.Clock.Wait(time.Time{}, func() bool { return r.running == 0 })
		return
	}
	r.asks.Wait()
}

// pause waits for a result, for the end of ctx, or until due; the zero time is never. It reports whether there is a
// result.
func (r *run) pause(ctx context.Context, due time.Time) (came bool) {
	if r.Clock != nil {
		r.Clock.Wait(due, func() bool { return r.results.any() || ctx.Err() != nil })
		return r.results.any()
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

// receive is <-tokens.
func (r *run) receive(tokens <-chan int32) (t int32, more bool) {
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

// after calls f once d has passed, unless stop is called or ctx is done before.
func (r *run) after(ctx context.Context, d time.Duration, f func()) (stop func()) {
	if r.Clock == nil {
		t := time.AfterFunc(d, f)
		return func() { t.Stop() }
	}
	stopped := false
	r.beside(func() {
		if !r.Clock.Wait(r.now().Add(d), func() bool { return stopped || ctx.Err() != nil }) {
			f()
		}
	})
	return func() { stopped = true }
}
