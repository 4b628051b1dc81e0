package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Session is one text that is being written, with all its drafts. It is safe for concurrent use.
type Session struct {
	c      *Client
	number uint64 // drawn at random: nothing has to be agreed on before the first ask
	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	mu    sync.Mutex
	known *netproto.Known // what the gateway acknowledged

	settled chan []int32 // the longest settled path that is still to be streamed ahead; holds at most one
}

// NewSession begins a session. It sends nothing: the first Ask or Sync tells the gateway.
func (c *Client) NewSession(ctx context.Context) (*Session, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("new session: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("new session: %w", ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("new session: %w", context.Cause(ctx))
	}
	s := &Session{c: c, number: binary.LittleEndian.Uint64(b[:]), known: netproto.NewKnown(c.maxKnown()), settled: make(chan []int32, 1)}
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	s.tasks.Go(s.streamAhead)
	c.tasks.Go(s.tasks.Wait) // so that Close waits for it as well
	return s, nil
}

// maxKnown is called with c.mu held.
func (c *Client) maxKnown() int {
	if c.opt.MaxKnown > 0 {
		return c.opt.MaxKnown
	}
	const unknown = 1 << 17 // before the gateway has said how long a context may be
	if n := c.welcome.Limits.Context; n > 0 {
		return 4 * n
	}
	return unknown
}

// Query says what is wanted of an answer.
type Query struct {
	K         int               // most probable tokens wanted beside the chosen one, at most netproto.MaxK
	AuditFrom int               // position where the edge's own tokens begin, which are to be audited; 0 means no audit
	Sampling  netproto.Sampling // how the token is chosen; zero means greedy
	Deadline  time.Duration     // for the whole exchange; 0 means none
}

// Reply is an answer and what it cost.
type Reply struct {
	Token     int32
	Top       []netproto.Candidate // the K most probable tokens, best first
	Audit     []netproto.Finding   // positions where the large model would have chosen another token
	Timings   Timings
	BytesUp   int // payload, with all repetitions
	BytesDown int
}

// Timings say where the time of an ask went.
type Timings struct {
	Queue   time.Duration // in the gateway, before computing
	Compute time.Duration // of the large model
	Wire    time.Duration // all the rest: network and reconnecting
}

// Close ends the session: nothing of it goes on, and the gateway forgets it.
func (s *Session) Close() {
	s.cancel(ErrClosed)
	s.tasks.Wait()
	s.c.mu.Lock()
	l := s.c.current
	s.c.mu.Unlock()
	if l != nil {
		l.bye(s.number)
	}
}

// Sync tells that a path is settled: all later asks begin with it. It is streamed ahead in the background, so that the
// next ask is short and finds the large model warm. It returns at once; context is copied.
func (s *Session) Sync(context []int32) {
	path := append([]int32(nil), context...)
	for {
		select {
		case s.settled <- path:
			return
		default:
		}
		select {
		case <-s.settled: // only the newest matters
		default:
		}
	}
}

// streamAhead sends what Sync leaves, until the session ends. What fails is left to the next ask.
func (s *Session) streamAhead() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case path := <-s.settled:
			s.mu.Lock()
			n, _ := s.known.Longest(path)
			s.mu.Unlock()
			if n == len(path) {
				continue
			}
			ctx, cancel := context.WithTimeout(s.ctx, s.c.opt.Patience)
			_, _, _ = s.send(ctx, path, func(p netproto.Path) []byte { return netproto.Sync{Session: s.number, Path: p}.Append(nil) })
			cancel()
		}
	}
}
