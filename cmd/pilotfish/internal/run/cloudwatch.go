package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish"
)

// cloudWatch observes the questions to the cloud during a run, and the reasons for missing answers.
type cloudWatch struct {
	explain func(error) error       // adds advice to an error of configuration
	cancel  context.CancelCauseFunc // ends the run
	alone   bool                    // the run continues if the gateway cannot be reached
	patient bool                    // answers have no deadline
	done    <-chan struct{}         // closed when the run has ended; nil: not before its text ends
	began   time.Time               // start of the first attempt to connect
	tried   chan struct{}           // closed after the first attempt, and after the welcome is checked

	mu        sync.Mutex
	check     func() error // checks the welcome of the gateway for errors of configuration; nil: no check
	connected bool         // at least once
	shown     bool         // a token was shown
	connect   error        // error of the last attempt to connect; nil after a success
	fatal     error        // an error of configuration, or a gateway that could not be reached before text was shown
	cause     error        // why the last question that was sent had no answer
	unasked   error        // why the last question was not sent: an earlier failure, which may be reported later
	ended     bool         // the first attempt has ended
}

func newCloudWatch(cancel context.CancelCauseFunc, explain func(error) error) *cloudWatch {
	return &cloudWatch{cancel: cancel, explain: explain, began: time.Now(), tried: make(chan struct{})}
}

// connectAttempted is called after each attempt to connect. An error of configuration ends the run, unless there was a
// connection before. If the gateway cannot be reached, the run ends too, unless text is already shown: then the answer
// is completed.
func (w *cloudWatch) connectAttempted(err error) {
	first := w.recordAttempt(err)
	if err == nil {
		w.checkWelcome()
	}
	if first {
		close(w.tried)
	}
}

func (w *cloudWatch) recordAttempt(err error) (first bool) {
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

func (w *cloudWatch) setWelcomeCheck(check func() error) {
	w.mu.Lock()
	w.check = check
	w.mu.Unlock()
	w.checkWelcome()
}

// checkWelcome ends the run if the gateway lacks a required feature. It does nothing before the welcome and before
// there is a check.
func (w *cloudWatch) checkWelcome() {
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

// observeEvent records why a question at a position that became part of the text had no answer.
func (w *cloudWatch) observeEvent(e pilotfish.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := e.Escalation
	switch {
	case q == nil:
	case q.Outcome == "unasked":
		w.unasked = q.Err
	case q.Outcome == "late" || q.Outcome == "failed":
		w.cause = q.Err
	}
}

// unansweredCause returns why questions had no answer: the error of the connection, or else that of the last question;
// nil if all were answered.
func (w *cloudWatch) unansweredCause() error {
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

// awaitFirstAttempt waits for the end of the first attempt to connect, at most patience after its start. It returns an
// error of configuration, or an error if the gateway was never reached. So a wrong address or pin is reported even if
// no token was requested.
func (w *cloudWatch) awaitFirstAttempt(ctx context.Context, patience time.Duration) error {
	select {
	case <-w.tried:
	case <-ctx.Done():
	case <-time.After(time.Until(w.began.Add(patience))):
	}
	if err := w.fatalError(); err != nil {
		return err
	}
	return w.unreachedError()
}

// unreachedError returns an error if the gateway was never reached: an attempt to connect failed, or questions had no
// answer.
func (w *cloudWatch) unreachedError() error {
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

// failureCause returns why questions had no answer, or why there was no connection.
func (w *cloudWatch) failureCause() error {
	why := w.unansweredCause()
	w.mu.Lock()
	defer w.mu.Unlock()
	if why == nil && !w.connected {
		return w.connect
	}
	return why
}

// admitToken returns the error that ends the run, before a token is shown. A token of the large model arrived after a
// welcome that may still be in the check: admitToken waits for it. It also waits for unverified tokens without
// deadlines, since verification may have been refused.
func (w *cloudWatch) admitToken(t pilotfish.Token) error {
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

func (w *cloudWatch) fatalError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fatal
}

func (w *cloudWatch) requireAnswers(s pilotfish.Stats) error {
	failures := s.Late + s.Failed + s.Unasked
	if failures == 0 {
		return nil
	}
	return fmt.Errorf("--require-cloud: %d of %d questions to the cloud had no answer: %w",
		failures, failures+s.Answered, w.unansweredCause())
}
