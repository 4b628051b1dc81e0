package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream/dialect"
)

// managedEngine is one engine with its state and statistics.
type managedEngine struct {
	u   *Upstream
	url string
	// hostPath is the URL without its scheme. It identifies the engine.
	hostPath string

	client  *dialect.Client
	idle    interface{ CloseIdleConnections() } // nil if it does not own the transport
	suspect chan struct{}                       // holds a value when the engine should be checked now
	// of the watcher alone, after Open
	felt   time.Time // end of the last check
	missed int       // consecutive checks without a sign of life

	mu       sync.Mutex
	e        dialect.Engine // nil until its dialect is known
	facts    dialect.Facts
	in       bool      // in service
	why      error     // why it is out of service
	next     time.Time // when it is tried again, while it is out of service
	faults   int       // consecutive invalid replies
	examined time.Time // when it was examined last
	crowded  time.Time // the engine is full until then, as it reported
	stats    EngineStats
}

func newManagedEngine(u *Upstream, address string) (*managedEngine, error) {
	at, err := dialect.ParseURL(address)
	if err != nil {
		return nil, err
	}
	m := &managedEngine{
		u: u, url: at.String(), hostPath: at.Host + at.Path, suspect: make(chan struct{}, 1),
		why: errors.New("it has not been checked yet"),
	}
	if u.o.Transport != nil {
		m.client = dialect.NewClient(at, u.o.Key, u.o.Transport)
		return m, nil
	}
	t := dialect.NewTransport(unstated)
	m.client, m.idle = dialect.NewClient(at, u.o.Key, t), t
	return m, nil
}

// currentEngine returns the engine in its dialect, nil until that is known.
func (m *managedEngine) currentEngine() dialect.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.e
}

func (m *managedEngine) serviceState() (dialect.Facts, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.facts, m.in
}

// unstated is the number of concurrent questions of an engine that does not report one.
const unstated = 64

// maxParallel returns how many questions an engine with these facts answers concurrently.
func maxParallel(f dialect.Facts) int {
	const most = 4096
	if f.Parallel <= 0 {
		return unstated
	}
	return min(f.Parallel, most)
}

func (m *managedEngine) isAtCapacity() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats.Open >= maxParallel(m.facts) || time.Now().Before(m.crowded)
}

func (m *managedEngine) askEngine(ctx context.Context, a dialect.Ask) (dialect.Reply, error) {
	e := m.startQuestion()
	began := time.Now()
	r, err := e.Ask(ctx, a)
	if err == nil {
		err = m.validateTokens(&r)
	}
	m.finishQuestion(ctx, a, r, err, time.Since(began))
	return r, err
}

func (m *managedEngine) validateTokens(r *dialect.Reply) error {
	known := func(id int32) bool { return id >= 0 && int(id) < m.u.o.Vocabulary.Size() }
	if !known(r.Token) {
		return fmt.Errorf("%w: its token %d is not in the vocabulary", dialect.ErrReply, r.Token)
	}
	for i, c := range r.Top {
		if !known(c.ID) { // a row beyond the vocabulary: improbable; later candidates cannot be used either
			r.Top = r.Top[:i]
			break
		}
	}
	return nil
}

func (m *managedEngine) startQuestion() dialect.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Open++
	return m.e
}

// finishQuestion records a reply, and takes the engine out of service when it fails.
func (m *managedEngine) finishQuestion(
	ctx context.Context, a dialect.Ask, r dialect.Reply, err error, took time.Duration,
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.stats
	s.Open--
	switch {
	case err == nil:
		m.faults, m.crowded = 0, time.Time{}
		s.countAnswer(a, r, took)
	case ctx.Err() != nil:
		s.Cancelled++
		late := errors.Is(context.Cause(ctx), netproto.TooLate) || errors.Is(ctx.Err(), context.DeadlineExceeded)
		if late || took > s.usualTime() { // a device may cancel when its deadline has passed
			m.requestCheck() // the engine may have died silently
		}
	default:
		m.handleFailure(err)
	}
}

// handleFailure decides what a failure means for the engine. The lock is held.
func (m *managedEngine) handleFailure(err error) {
	const most = 3 // consecutive faults
	m.stats.Failed++
	switch status := dialect.Status(err); {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		s, _ := errors.AsType[*dialect.StatusError](err)
		m.crowded = time.Now().Add(max(s.RetryAfter, 100*time.Millisecond))
		m.requestCheck() // it may also report this when it is dead
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		m.takeOutOfService(err)
	case status >= 500 || errors.Is(err, dialect.ErrReply):
		if m.faults++; m.faults >= most {
			m.takeOutOfService(err)
		}
	case status == 0:
		m.takeOutOfService(err) // there is no connection
	case status != http.StatusRequestEntityTooLarge:
		m.requestCheck() // the question may be wrong, or the engine
	}
}

// takeOutOfService is called with the lock held.
func (m *managedEngine) takeOutOfService(err error) {
	if !m.in {
		return
	}
	m.in, m.why, m.next = false, err, time.Now()
	m.stats.Outages++
	m.u.o.Log.Warn("an engine is out of service", "engine", m.url, "error", err.Error())
	m.requestCheck()
}

func (m *managedEngine) requestCheck() {
	select {
	case m.suspect <- struct{}{}:
	default:
	}
}

// errBusy means that background work was dropped.
var errBusy = fmt.Errorf("%w: the engine has other questions", netproto.Busy)

func (m *managedEngine) hasSpareCapacityLocked() bool {
	return m.stats.Open < max(1, maxParallel(m.facts)/2) && !time.Now().Before(m.crowded)
}

func (m *managedEngine) hasSpareCapacity() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hasSpareCapacityLocked()
}

// warmEngine prefills a context, unless the engine is busy.
func (m *managedEngine) warmEngine(ctx context.Context, a dialect.Ask) error {
	m.mu.Lock()
	e, idle := m.e, m.hasSpareCapacityLocked()
	if idle {
		m.stats.Open++
	}
	m.mu.Unlock()
	if !idle {
		return errBusy
	}
	err := e.Warm(ctx, a)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Open--
	if err != nil && ctx.Err() == nil {
		m.handleFailure(err)
	}
	return err
}

func (m *managedEngine) timeToNextTry() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(time.Until(m.next), 0)
}

func (m *managedEngine) closeEngine() {
	m.client.Close()
	if m.idle != nil {
		m.idle.CloseIdleConnections()
	}
}
