package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// Times of the monitoring of engines.
const (
	pulse        = 5 * time.Second  // between two checks of an engine in service
	minPulse     = time.Second      // minimum time between two checks, whatever happens
	firstPause   = time.Second      // before an engine that is out of service is tried again, doubled each time
	longestPause = 15 * time.Second // maximum of that pause
	pulseTime    = 3 * time.Second  // limit for a check
	examPeriod   = time.Minute      // between two examinations of an engine in service: it may be another one by now
	examTime     = 10 * time.Second // limit for such an examination, during which no other check runs
	joinTime     = time.Minute      // limit for all requests to an engine before it goes in service
)

func (m *managedEngine) monitorEngine(ctx context.Context) {
	missed := 0
	for ctx.Err() == nil {
		if _, in := m.serviceState(); in {
			missed = 0
			m.checkWhenDue(ctx)
			continue
		}
		missed, m.missed = missed+1, 0
		pause := retry.Delay(missed, firstPause, longestPause)
		m.mu.Lock()
		m.next = time.Now().Add(pause)
		m.mu.Unlock()
		if retry.Wait(ctx, pause) == nil {
			m.tryRejoin(ctx)
		}
	}
}

func (m *managedEngine) checkWhenDue(ctx context.Context) {
	if m.examinationDue() {
		m.reexamineEngine(ctx)
		return
	}
	t := time.NewTimer(pulse)
	defer t.Stop()
	doubted := false
	select {
	case <-t.C:
	case <-m.suspect:
		doubted = true
		_ = retry.Wait(ctx, time.Until(m.felt.Add(minPulse))) // an error: ctx has ended, see below
	case <-ctx.Done():
	}
	if _, in := m.serviceState(); in && ctx.Err() == nil {
		m.checkAlive(ctx, doubted)
		m.felt = time.Now()
	}
}

// examinationDue reports whether an engine in service has to be examined again, and counts the time from now on.
func (m *managedEngine) examinationDue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	due := time.Since(m.examined) >= examPeriod
	if due {
		m.examined = time.Now()
	}
	return due
}

// reexamineEngine takes an engine out of service if it is another one now, and drops the stored answers, some of which
// are its: it may have been restarted between two questions. It looks at what the engine says of itself and at its
// answers, which also differ with another vocabulary. One that does not complete the examination is left to the other
// checks.
func (m *managedEngine) reexamineEngine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, examTime)
	defer cancel()
	e := m.currentEngine()
	f, err := e.Describe(ctx, m.u.o.Vocabulary, rand.Text())
	if err = classifyRefusal(err); err == nil {
		err = m.checkCompatible(ctx, e, f)
	}
	if isUnsuitable(err) {
		m.mu.Lock()
		m.takeOutOfService(err)
		m.mu.Unlock()
		m.u.cache.dropAnswers()
	}
}

// checkAlive takes an engine out of service if it does not respond. After a question without an answer, only an answer
// counts as a response: to a trial, or in the meantime to any question.
func (m *managedEngine) checkAlive(ctx context.Context, doubted bool) {
	ctx, cancel := context.WithTimeout(ctx, pulseTime)
	defer cancel()
	before := m.answeredCount()
	e := m.currentEngine()
	err := e.Alive(ctx)
	if err == nil && doubted {
		err = m.tryQuestion(ctx, e, 1)
	}
	if err == nil || m.answeredCount() > before || errors.Is(context.Cause(ctx), context.Canceled) {
		m.missed = 0
		return
	}
	if m.missed++; !doubted && ctx.Err() != nil && m.missed < 2 {
		return // one slow response is tolerated
	}
	if s := dialect.Status(err); doubted && (s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable) &&
		e.Alive(ctx) == nil {
		m.missed = 0
		return // it is overloaded, and works
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takeOutOfService(err)
}

func (m *managedEngine) answeredCount() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats.Answered
}

func (m *managedEngine) tryQuestion(ctx context.Context, e dialect.Engine, n int) error {
	var a dialect.Ask
	for i := range n {
		a.Context = append(a.Context, int32((i*i+5*i+1)%min(m.u.o.Vocabulary.Size(), 256)))
	}
	_, err := m.askTrial(ctx, e, a)
	return err
}

func (m *managedEngine) askTrial(ctx context.Context, e dialect.Engine, a dialect.Ask) (dialect.Reply, error) {
	a.Name, a.Salt = fmt.Sprintf("%s-trial-%d", m.u.name, m.u.count.Add(1)), m.u.cacheSalt(0, 0)
	r, err := e.Ask(ctx, a)
	if f, ok := e.(dialect.Forgetter); ok {
		f.Forget(a.Session) // 0, which no client has
	}
	if err == nil {
		err = m.validateTokens(&r)
	}
	return r, err
}

// tryRejoin tries to put an engine in service again. It may be another engine now. One that does not respond at all is
// not waited for.
func (m *managedEngine) tryRejoin(ctx context.Context) {
	err := m.checkResponds(ctx)
	if err == nil {
		err = m.putInService(ctx)
	}
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why == nil || m.why.Error() != err.Error() {
		m.u.o.Log.Warn("an engine stays out of service", "engine", m.url, "error", err.Error())
	}
	m.why = err
}

// checkResponds returns an error if an engine whose dialect was known does not respond within seconds.
func (m *managedEngine) checkResponds(ctx context.Context) error {
	e := m.currentEngine()
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pulseTime)
	defer cancel()
	if err := e.Alive(ctx); dialect.Status(err) == 0 {
		return err // nil, or it did not even refuse
	}
	return nil
}

func (m *managedEngine) putInService(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	e, f, err := m.examineEngine(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.examined = time.Now()
	select {
	case <-m.suspect: // of the time before
	default:
	}
	m.e, m.facts, m.in, m.why, m.faults, m.crowded = e, f, true, nil, 0, time.Time{}
	m.mu.Unlock()
	m.u.o.Log.Info("an engine is in service", "engine", m.url, "dialect", f.Dialect, "version", f.Version, "model",
		f.Model,
		"context", f.MaxContext, "audit", f.Audit.String())
	return nil
}

func (m *managedEngine) examineEngine(ctx context.Context) (e dialect.Engine, f dialect.Facts, err error) {
	o := m.u.o
	if e, err = detectDialect(ctx, m.client, o.Model); err != nil {
		return e, f, err
	}
	if f, err = e.Describe(ctx, o.Vocabulary, rand.Text()); err != nil {
		return e, f, classifyRefusal(err)
	}
	if o.Model != "" && f.Model != o.Model {
		return e, f, &unsuitableError{fmt.Errorf("%w %q, but %q", dialect.ErrModel, o.Model, f.Model)}
	}
	if err = checkVocabulary(ctx, e, f, o.Vocabulary); err != nil {
		return e, f, classifyRefusal(err)
	}
	if err = m.tryQuestion(ctx, e, 3); err != nil {
		return e, f, classifyRefusal(err)
	}
	return e, f, m.checkCompatible(ctx, e, f)
}

// checkCompatible returns an error if what clients learned when the gateway started is not true of an engine, or if it
// answers otherwise.
func (m *managedEngine) checkCompatible(ctx context.Context, e dialect.Engine, f dialect.Facts) (err error) {
	switch now := m.u.info; {
	case now.MaxContext > 0 && f.MaxContext > 0 && f.MaxContext < now.MaxContext:
		err = &unsuitableError{fmt.Errorf("it takes %d tokens, this gateway promises its clients %d: "+
			"restart the gateway", f.MaxContext, now.MaxContext)}
	case min(f.Choices, m.u.o.Vocabulary.Size()) < m.u.most:
		err = &unsuitableError{fmt.Errorf("it gives %d probabilities, this gateway promises its clients %d: "+
			"restart the gateway", f.Choices, m.u.most)}
	case f.Audit < now.Audit:
		err = &unsuitableError{fmt.Errorf("its audit is %s, this gateway promises its clients one that is %s: "+
			"restart the gateway", f.Audit, now.Audit)}
	default:
		err = m.checkFingerprint(ctx, e, f)
	}
	return err
}

// unsuitableError is why an engine cannot be used at all: waiting does not help.
type unsuitableError struct{ err error }

func (w *unsuitableError) Error() string { return w.err.Error() }
func (w *unsuitableError) Unwrap() error { return w.err }

func isUnsuitable(err error) bool {
	_, ok := errors.AsType[*unsuitableError](err)
	return ok
}

// classifyRefusal distinguishes an engine that refuses from one that is unavailable or overloaded. These requests
// contain no text of users, so the engine's message is included.
func classifyRefusal(err error) error {
	switch s := dialect.Status(err); {
	case s >= 500 || s == http.StatusTooManyRequests:
		return err
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return &unsuitableError{fmt.Errorf("the engine requires another key: %s", dialect.Said(err))}
	case s != 0:
		return &unsuitableError{errors.New(dialect.Said(err))}
	case errors.Is(err, dialect.ErrReply) || errors.Is(err, dialect.ErrModel):
		return &unsuitableError{err}
	}
	return err
}
