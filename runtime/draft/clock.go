package draft

import (
	"context"
	"time"
)

// Clock is the time that a decoder lives in, where that is not the computer's: that of a simulation in which one
// goroutine runs at a time, so that the same inputs give the same events. The goroutine of [Decoder.Decode] and those
// that Go starts take turns: one runs until it calls Wait or ends. What the decoder calls, a [Model] or a [Cloud],
// waits by the same clock and in no other way.
type Clock interface {
	// Now is the moment. It is the same until the caller waits.
	Now() time.Time
	// Go lets f run beside the caller, as soon as that waits.
	Go(f func())
	// Wait lets the others run and time pass, until done reports true or it is t; the zero time is never. It returns
	// what done reported. done is asked while nobody runs, and whenever somebody has run.
	Wait(t time.Time, done func() bool) bool
}

// now is the moment.
func (r *run) now() time.Time {
	if r.Clock != nil {
		return r.Clock.Now()
	}
	return time.Now()
}

// since is the time from t until now.
func (r *run) since(t time.Time) time.Duration { return r.now().Sub(t) }

// beside runs f in a goroutine of its own, which [run.drain] waits for.
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

// returning waits until there is a result, which it reports, or nothing runs beside the decoder any more. Call it until
// it reports false.
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

// await waits until nothing runs beside the decoder any more. Results are left as they are.
func (r *run) await() {
	if r.Clock != nil {
		r.Clock.Wait(time.Time{}, func() bool { return r.running == 0 })
		return
	}
	r.asks.Wait()
}

// pause waits for a result, for the end of ctx, or until it is due; the zero time is never. It reports whether there is
// a result, and not whether one came at the very moment at which it was due.
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
