package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Session is one text that is being written, with all its drafts. It is safe for concurrent use.
type Session struct {
	c      *Client
	number uint32 // drawn at random: nothing has to be agreed on before the first ask
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	known *netproto.Known // what the gateway acknowledged
	sent  *netproto.Known // what was sent on the connection via, acknowledged or not
	via   *link
}

// NewSession begins a session. It sends nothing: the first Ask or Sync tells the gateway.
func (c *Client) NewSession(ctx context.Context) (*Session, error) {
	var b [4]byte
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
	s := &Session{c: c, number: binary.LittleEndian.Uint32(b[:]), known: netproto.NewKnown(c.maxKnown()),
		sent: netproto.NewKnown(c.maxKnown())}
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
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
	K         int            // most probable tokens wanted beside the chosen one, at most netproto.MaxK
	AuditFrom int            // position where the edge's own tokens begin, which are to be audited; 0 means no audit
	Sampling  terms.Sampling // how the token is chosen; zero means greedy
	Deadline  time.Duration  // until the answer is there; 0 means none
	// what the audit has to be. Where the gateway cannot give it, the error is netproto.CannotVerify
	Verify terms.Verify
	Ahead  int  // most tokens beyond the one asked for that are wanted as well, at most netproto.MaxAhead
	Clock  bool // the answer says when it was where, if the gateway can tell: see Reply.Times
}

// Reply is an answer and what it cost.
type Reply struct {
	Token   int32
	Top     []terms.Candidate // the K most probable tokens, best first
	Audited int               // positions at the end of the path that the audit is about
	Sampled int               // the only one of them that was looked at, drawn at random; 0: all were
	Audit   []terms.Finding   // those of them where the large model would have chosen another token
	// Ahead are the tokens behind Token, each what the large model chooses behind all before, as they come: at most
	// Query.Ahead. With terms.EachChoice and findings they are those behind the first finding. It is closed when
	// there are no more, also where the stream breaks off, and soon after the context of the Ask or the session has
	// ended. Whoever does not read it holds nobody up. nil: none were asked for, or the gateway gives none.
	Ahead     <-chan int32
	Timings   Timings
	Times     terms.Times // with Query.Clock; all zero where the gateway does not tell
	New       int         // tokens of the path that the gateway had not been told before
	BytesUp   int         // payload, with all repetitions
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
	s.c.mu.Lock()
	l := s.c.current
	s.c.mu.Unlock()
	if l != nil {
		l.bye(s.number)
	}
}

// Sync tells that a path is settled: all later asks begin with it. The next ask is then short, and finds the large
// model warm. It returns when the gateway has the path, with the payload that it took in bytes, and waits like Ask.
func (s *Session) Sync(ctx context.Context, path []int32) (bytesUp, bytesDown int, err error) {
	if len(path) == 0 {
		return 0, 0, fmt.Errorf("sync: no tokens: %w", netproto.ErrValue)
	}
	if !s.c.enter() {
		return 0, 0, fmt.Errorf("sync: %w", ErrClosed)
	}
	defer s.c.tasks.Done()
	ctx, cancel := s.bound(ctx, 0)
	defer cancel()
	r, cost, err := s.send(ctx, path,
		func(_ *link, p netproto.Path) (message, error) {
			return message{frame: netproto.Sync{Session: s.number, Path: p}.Append(nil)}, nil
		})
	if err == nil && r.kind != netproto.KindAck {
		err = fmt.Errorf("%w: a %s answers it", ErrProtocol, r.kind)
	}
	if err != nil {
		return cost.up, cost.down, fmt.Errorf("sync: %w", err)
	}
	return cost.up, cost.down, nil
}
