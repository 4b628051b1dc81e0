package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

// cloudWatch follows what becomes of the questions to the cloud during a run, and why some stay without an answer.
type cloudWatch struct {
	warn    func(why error)         // called once, at the first question without an answer
	explain func(error) error       // an error of configuration, with what to do about it
	cancel  context.CancelCauseFunc // ends the run
	alone   bool                    // a gateway that cannot be reached does not end the run
	patient bool                    // answers have no deadline
	done    <-chan struct{}         // the run is over; nil: never before its text is
	began   time.Time               // of the first attempt to connect
	tried   chan struct{}           // closed when the first attempt has ended, and the welcome is checked

	// Of the questions that the text passed, told by observe alone.
	answers, failures  int           // answered, and left without an answer
	wait, hidden, lost time.Duration // for answers; of this, drafted meanwhile; and for those that never came

	mu        sync.Mutex
	check     func() error // of what the gateway said in its welcome: an error of configuration; nil: none
	connected bool         // once, at least
	shown     bool         // a token was shown
	connect   error        // why the last attempt to connect failed; nil after a success
	fatal     error        // an error of configuration, or a gateway that could not be reached before text was shown
	cause     error        // why the last question that was asked stayed without an answer
	unasked   error        // why the last one that was not asked was not: an earlier failure, which may be told later
	ended     bool         // the first attempt
}

func newCloudWatch(cancel context.CancelCauseFunc, explain func(error) error, warn func(error)) *cloudWatch {
	return &cloudWatch{cancel: cancel, explain: explain, warn: warn, began: time.Now(), tried: make(chan struct{})}
}

// attempted is told how each attempt to connect ended. An error of configuration ends the run, unless there was a
// connection before, and so does a gateway that cannot be reached, unless text is shown already: an answer that has
// begun well is not cut off.
func (w *cloudWatch) attempted(err error) {
	first := w.note(err)
	if err == nil {
		w.welcomed()
	}
	if first {
		close(w.tried)
	}
}

// note notes how an attempt ended, and reports whether it was the first.
func (w *cloudWatch) note(err error) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, w.ended = !w.ended, true
	w.connect = err
	if err == nil {
		w.connected = true
		return first
	}
	c, ok := errors.AsType[*pilotfish.ConnectError](err)
	if ok && !w.connected && w.fatal == nil && (c.Configuration() || c.Unreachable() && !w.alone && !w.shown) {
		w.fatal = w.explain(err)
		w.cancel(w.fatal)
	}
	return first
}

// expect sets what is to be checked of the gateway's welcome.
func (w *cloudWatch) expect(check func() error) {
	w.mu.Lock()
	w.check = check
	w.mu.Unlock()
	w.welcomed()
}

// welcomed ends the run if the gateway cannot do what is wanted of it.
func (w *cloudWatch) welcomed() {
	w.mu.Lock()
	check, due := w.check, w.connected && w.fatal == nil
	w.mu.Unlock()
	if check == nil || !due {
		return
	}
	if err := check(); err != nil {
		w.mu.Lock()
		w.fatal = err
		w.mu.Unlock()
		w.cancel(err)
	}
}

// observe is told of every event of decoding, one after the other.
func (w *cloudWatch) observe(e pilotfish.Event) {
	q := e.Escalation
	if q == nil {
		return
	}
	switch q.Outcome {
	case "hit", "miss":
		w.answers++
		w.wait += q.Wait
		w.hidden += q.Hidden
	case "late", "failed", "unasked":
		w.failures++
		w.lost += q.Exposed
		w.missed(q.Err, q.Outcome != "unasked")
	}
}

// missed notes why a question stayed without an answer, and warns at the first that was asked.
func (w *cloudWatch) missed(err error, asked bool) {
	w.mu.Lock()
	warn := asked && w.cause == nil && w.fatal == nil
	if asked {
		w.cause = err
	} else {
		w.unasked = err
	}
	w.mu.Unlock()
	if warn {
		w.warn(w.why())
	}
}

// why returns why questions stayed without an answer: why there is no connection, or else what was said of
// the last question. It is nil where all were answered.
func (w *cloudWatch) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	why := w.cause
	if why == nil {
		why = w.unasked
	}
	if why != nil && w.connect != nil {
		return w.connect
	}
	return why
}

// settle waits until the first attempt to connect has ended, but not longer than patience from when it began, and
// returns an error of configuration, or that the gateway was never reached.
// So a wrong address or pin is told also where no token was asked for.
func (w *cloudWatch) settle(ctx context.Context, patience time.Duration) error {
	select {
	case <-w.tried:
	case <-ctx.Done():
	case <-time.After(time.Until(w.began.Add(patience))):
	}
	if err := w.failed(); err != nil {
		return err
	}
	return w.unreached()
}

// unreached says that the gateway was never reached, as far as that is known: an attempt to connect failed, or
// questions had no answer.
func (w *cloudWatch) unreached() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	why := w.connect
	if why == nil {
		why = w.cause
	}
	c, ok := errors.AsType[*pilotfish.ConnectError](why)
	if w.connected || w.alone || !ok || !c.Unreachable() {
		return nil
	}
	return fmt.Errorf("%w: the small model answered alone, which --require-cloud=false allows", w.explain(why))
}

// reached reports whether there was a connection.
func (w *cloudWatch) reached() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connected
}

// fit returns what ends the run, before a token is shown. One of the large model came after a welcome, which may still
// be looked at, and so did one that was refused verification: without deadlines, each that is unverified.
func (w *cloudWatch) fit(t pilotfish.Token) error {
	if t.Origin == "cloud" || t.Unverified && w.patient {
		select {
		case <-w.tried:
		case <-w.done:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = w.fatal == nil
	return w.fatal
}

// failed returns the error that ends the run, if there was one.
func (w *cloudWatch) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fatal
}

// required returns what --require-cloud makes of questions without an answer.
func (w *cloudWatch) required() error {
	if w.failures == 0 {
		return nil
	}
	return fmt.Errorf("--require-cloud: %d of %d questions to the cloud stayed without an answer: %w",
		w.failures, w.failures+w.answers, w.why())
}
