package draft

import (
	"context"
	"sync"
	"time"
)

// scheduler runs the goroutines of a run and tells the time, either the computer's or that of a [Clock]. Each goroutine
// that it starts ends before the run returns. What asks bring is in results, in the order in which it came.
type scheduler struct {
	clock      Clock // nil: the computer's
	results    *resultQueue
	goroutines sync.WaitGroup // in the computer's time
	alone      chan struct{}  // closed when these have returned; nil before the first wait
	running    int            // goroutines in the time of the clock
}

func newScheduler(c Clock) *scheduler { return &scheduler{clock: c, results: newResultQueue()} }

func (s *scheduler) currentTime() time.Time {
	if s.clock != nil {
		return s.clock.Now()
	}
	return time.Now()
}

func (s *scheduler) elapsedSince(t time.Time) time.Duration { return s.currentTime().Sub(t) }

// startGoroutine runs f in a goroutine, which [decodeRun.drainAsks] waits for.
func (s *scheduler) startGoroutine(f func()) {
	if s.clock == nil {
		s.goroutines.Go(f)
		return
	}
	s.running++
	s.clock.Go(func() {
		defer func() { s.running-- }()
		f()
	})
}

// waitForResult waits until there is a result, or no goroutine of [scheduler.startGoroutine] is left, and reports
// whether there is a result. Call it until it returns false.
func (s *scheduler) waitForResult() (came bool) {
	if s.clock != nil {
		done := func() bool { return s.results.hasResults() || s.running == 0 }
		return s.clock.Wait(time.Time{}, done) && s.results.hasResults()
	}
	if s.alone == nil {
		s.alone = make(chan struct{})
		go func() {
			s.goroutines.Wait()
			close(s.alone)
		}()
	}
	select {
	case <-s.results.bell:
		return true
	case <-s.alone:
		return s.results.hasResults()
	}
}

func (s *scheduler) waitForGoroutines() {
	if s.clock != nil {
		s.clock.Wait(time.Time{}, func() bool { return s.running == 0 })
		return
	}
	s.goroutines.Wait()
}

// waitForResultUntil waits for a result, for the end of ctx, or until due; the zero time is never. It reports whether
// there is a result.
func (s *scheduler) waitForResultUntil(ctx context.Context, due time.Time) (came bool) {
	if s.clock != nil {
		s.clock.Wait(due, func() bool { return s.results.hasResults() || ctx.Err() != nil })
		return s.results.hasResults()
	}
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-s.results.bell:
		return true
	case <-timer:
	case <-ctx.Done():
	}
	return false
}

func (s *scheduler) receiveToken(tokens <-chan int32) (t int32, more bool) {
	if s.clock == nil {
		t, more = <-tokens
		return t, more
	}
	s.clock.Wait(time.Time{}, func() bool {
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
func (s *scheduler) afterFunc(ctx context.Context, d time.Duration, f func()) (stop func()) {
	if s.clock == nil {
		t := time.AfterFunc(d, f)
		return func() { t.Stop() }
	}
	stopped := false
	s.startGoroutine(func() {
		if !s.clock.Wait(s.currentTime().Add(d), func() bool { return stopped || ctx.Err() != nil }) {
			f()
		}
	})
	return func() { stopped = true }
}

// forwardStream passes on the tokens that follow an answer. It ends soon after the ask is cancelled.
func (s *scheduler) forwardStream(e *escalation, cancel context.CancelCauseFunc, res result) {
	if res.err != nil {
		cancel(res.err)
	}
	tokens := res.answer.Ahead
	for tokens != nil {
		t, more := s.receiveToken(tokens)
		if !more {
			break
		}
		some := []int32{t}
		for len(tokens) > 0 {
			some = append(some, <-tokens)
		}
		s.results.pushResult(result{of: e, ahead: some, at: s.currentTime()})
	}
	s.results.pushResult(result{of: e, ended: true})
}

// limitAskTime ends ask after the time limit, if there is one; stop is called when there is an answer. A question with
// tokens ahead has the deadline of its answer in Within, as its tokens may come later.
func (s *scheduler) limitAskTime(
	ask context.Context, q *Question, limit time.Duration, cancel context.CancelCauseFunc,
) (_ context.Context, stop func()) {
	switch {
	case limit <= 0:
		return ask, func() {}
	case q.Ahead > 0:
		q.Within = limit
	case s.clock == nil:
		return context.WithTimeoutCause(ask, limit, ErrDeadline)
	}
	return ask, s.afterFunc(ask, limit, func() { cancel(ErrDeadline) })
}
