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

// member is one engine: whether it is in service, and what it has done.
type member struct {
	u   *Upstream
	url string
	// place is the URL without its scheme: what an engine is known by
	place string

	client  *dialect.Client
	idle    interface{ CloseIdleConnections() } // nil where the transport is not its own
	suspect chan struct{}                       // holds a value when it is to be looked at now
	felt    time.Time                           // the end of the last look; of the watcher alone, as the next
	missed  int                                 // looks in a row that found no sign of life

	mu      sync.Mutex
	e       dialect.Engine // nil until its dialect is known
	facts   dialect.Facts
	in      bool      // in service
	since   time.Time // when it went in or out
	why     error     // it is out
	next    time.Time // when it is tried again, while it is out
	faults  int       // replies in a row that were none
	crowded time.Time // until when it said that it takes no more
	stats   EngineStats
}

func newMember(u *Upstream, address string) (*member, error) {
	at, err := dialect.ParseURL(address)
	if err != nil {
		return nil, err
	}
	m := &member{
		u: u, url: at.String(), place: at.Host + at.Path, suspect: make(chan struct{}, 1), since: time.Now(),
		why: errors.New("it was not asked yet"),
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

// engine is the engine as its dialect, nil until that is known.
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

// parallel is how many questions an engine with these facts works on at a time.
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

// full reports whether questions should rather go elsewhere.
func (m *member) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats.Open >= m.parallel(m.facts) || time.Now().Before(m.crowded)
}

// ask asks the engine, and notes what became of it.
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

// sound refuses a reply with tokens that the vocabulary does not have.
func (m *member) sound(r *dialect.Reply) error {
	known := func(id int32) bool { return id >= 0 && int(id) < m.u.o.Vocabulary.Size() }
	if !known(r.Token) {
		return fmt.Errorf("%w: its token %d is not in the vocabulary", dialect.ErrReply, r.Token)
	}
	for i, c := range r.Top {
		if !known(c.ID) { // a row that only fills the table: improbable, and nothing to draw from here on
			r.Top = r.Top[:i]
			break
		}
	}
	return nil
}

func (m *member) enter() dialect.Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Asks++
	m.stats.Open++
	return m.e
}

// leave counts a reply, and takes the engine out of service when it fails.
func (m *member) leave(ctx context.Context, a dialect.Ask, r dialect.Reply, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.stats
	s.Open--
	s.Requests += uint64(r.Requests)
	switch {
	case err == nil:
		m.faults, m.crowded = 0, time.Time{}
		s.count(a, r, took)
	case ctx.Err() != nil:
		s.Cancelled++
		late := errors.Is(context.Cause(ctx), netproto.TooLate) || errors.Is(ctx.Err(), context.DeadlineExceeded)
		if late {
			s.Late++
		}
		if late || took > s.usual() { // a device may give up by itself, as its time is over
			m.look() // it may have died without a word
		}
	default:
		m.failed(err)
	}
}

// failed decides what a failure says of the engine. The lock is held.
func (m *member) failed(err error) {
	const most = 3 // faults in a row
	m.stats.Failed++
	switch status := dialect.Status(err); {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		s, _ := errors.AsType[*dialect.StatusError](err)
		m.crowded = time.Now().Add(max(s.RetryAfter, 100*time.Millisecond))
		m.stats.Crowded++
		m.look() // it also says so when it is dead
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		m.out(err)
	case status >= 500 || errors.Is(err, dialect.ErrReply):
		if m.faults++; m.faults >= most {
			m.out(err)
		}
	case status == 0 && !errors.Is(err, dialect.ErrPiece):
		m.out(err) // there is no connection
	}
}

// out takes the engine out of service. The lock is held.
func (m *member) out(err error) {
	if !m.in {
		return
	}
	m.in, m.since, m.why, m.next = false, time.Now(), err, time.Now()
	m.stats.Outages++
	m.u.o.Log.Warn("an engine is out of service", "engine", m.url, "error", err.Error())
	m.look()
}

// look makes the watcher look at the engine now.
func (m *member) look() {
	select {
	case m.suspect <- struct{}{}:
	default:
	}
}

// errBusy says that what nobody waits for was left.
var errBusy = fmt.Errorf("%w: the engine has other questions", netproto.Busy)

// hasTime reports whether the engine has time for what nobody waits for.
func (m *member) hasTime() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats.Open < max(1, m.parallel(m.facts)/2) && !time.Now().Before(m.crowded)
}

// warm has a context computed, unless the engine has enough to do.
func (m *member) warm(ctx context.Context, a dialect.Ask) error {
	if !m.hasTime() {
		return errBusy
	}
	m.mu.Lock()
	e := m.e
	m.stats.Open++
	m.stats.Warmed++
	m.mu.Unlock()
	err := e.Warm(ctx, a)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Open--
	if err != nil && ctx.Err() == nil {
		m.failed(err)
	}
	return err
}

// nextTry is how long it is until the engine is tried again.
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
