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

// member is one engine with its state and statistics.
type member struct {
	u   *Upstream
	url string
	// place is the URL without its scheme. It identifies the engine.
	place string

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

func newMember(u *Upstream, address string) (*member, error) {
	at, err := dialect.ParseURL(address)
	if err != nil {
		return nil, err
	}
	m := &member{
		u: u, url: at.String(), place: at.Host + at.Path, suspect: make(chan struct{}, 1),
		why: errors.New("it has not been checked yet"),
	}
	if u.o.Transport != nil {
		m.client = dialect.NewClient(at, u.o.Key, u.o.Transport)
		return m, nil
	}
	const idle = 64
	t := dialect.NewTransport(max(u.o.Parallel, idle))
	m.client, m.idle = dialect.NewClient(at, u.o.Key, t), t
	return m, nil
}

// engine returns the engine in its dialect, nil until that is known.
func (m *member) engine() dialect.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.e
}

// serves returns what the engine can do, and whether it is in service.
func (m *member) serves() (dialect.Facts, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.facts, m.in
}

// parallel returns how many questions an engine with these facts answers concurrently.
func (m *member) parallel(f dialect.Facts) int {
	const unstated, most = 64, 4096
	switch {
	case m.u.o.Parallel > 0:
		return m.u.o.Parallel
	case f.Parallel > 0:
		return min(f.Parallel, most)
	}
	return unstated
}

// full reports whether other engines should be preferred.
func (m *member) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats.Open >= m.parallel(m.facts) || time.Now().Before(m.crowded)
}

// ask asks the engine and records the outcome.
func (m *member) ask(ctx context.Context, a dialect.Ask) (dialect.Reply, error) {
	e := m.enter()
	began := time.Now()
	r, err := e.Ask(ctx, a)
	if err == nil {
		err = m.sound(&r)
	}
	m.leave(ctx, a, r, err, time.Since(began))
	return r, err
}

// sound refuses a reply with tokens outside the vocabulary.
func (m *member) sound(r *dialect.Reply) error {
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

func (m *member) enter() dialect.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Open++
	return m.e
}

// leave records a reply, and takes the engine out of service when it fails.
func (m *member) leave(ctx context.Context, a dialect.Ask, r dialect.Reply, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.stats
	s.Open--
	switch {
	case err == nil:
		m.faults, m.crowded = 0, time.Time{}
		s.count(a, r, took)
	case ctx.Err() != nil:
		s.Cancelled++
		late := errors.Is(context.Cause(ctx), netproto.TooLate) || errors.Is(ctx.Err(), context.DeadlineExceeded)
		if late || took > s.usual() { // a device may cancel when its deadline has passed
			m.look() // the engine may have died silently
		}
	default:
		m.failed(err)
	}
}

// failed decides what a failure means for the engine. The lock is held.
func (m *member) failed(err error) {
	const most = 3 // consecutive faults
	m.stats.Failed++
	switch status := dialect.Status(err); {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		s, _ := errors.AsType[*dialect.StatusError](err)
		m.crowded = time.Now().Add(max(s.RetryAfter, 100*time.Millisecond))
		m.look() // it may also report this when it is dead
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		m.out(err)
	case status >= 500 || errors.Is(err, dialect.ErrReply):
		if m.faults++; m.faults >= most {
			m.out(err)
		}
	case status == 0:
		m.out(err) // there is no connection
	case status != http.StatusRequestEntityTooLarge:
		m.look() // the question may be wrong, or the engine
	}
}

// out takes the engine out of service. The lock is held.
func (m *member) out(err error) {
	if !m.in {
		return
	}
	m.in, m.why, m.next = false, err, time.Now()
	m.stats.Outages++
	m.u.o.Log.Warn("an engine is out of service", "engine", m.url, "error", err.Error())
	m.look()
}

// look makes the watcher check the engine now.
func (m *member) look() {
	select {
	case m.suspect <- struct{}{}:
	default:
	}
}

// errBusy means that background work was dropped.
var errBusy = fmt.Errorf("%w: the engine has other questions", netproto.Busy)

// idles reports whether the engine has capacity for background work. The lock is held.
func (m *member) idles() bool {
	return m.stats.Open < max(1, m.parallel(m.facts)/2) && !time.Now().Before(m.crowded)
}

// hasTime is idles without the lock.
func (m *member) hasTime() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.idles()
}

// warm prefills a context, unless the engine is busy.
func (m *member) warm(ctx context.Context, a dialect.Ask) error {
	m.mu.Lock()
	e, idle := m.e, m.idles()
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
		m.failed(err)
	}
	return err
}

// nextTry returns the time until the engine is tried again.
func (m *member) nextTry() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(time.Until(m.next), 0)
}

func (m *member) close() {
	if c, ok := m.engine().(dialect.Closer); ok {
		c.Close()
	}
	if m.idle != nil {
		m.idle.CloseIdleConnections()
	}
}
