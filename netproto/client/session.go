package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Session is one text in progress, with all its drafts. It is safe for concurrent use.
type Session struct {
	c      *Client
	number uint32 // drawn at random, so that the first ask needs no setup
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	left  Left
	known *netproto.Known // what the gateway acknowledged
	sent  *netproto.Known // what was sent on the connection via, acknowledged or not
	via   *link
}

// NewSession begins a session. It sends nothing: the first Ask or Sync creates the session at the gateway.
func (c *Client) NewSession(ctx context.Context) (*Session, error) {
	var b [4]byte
	_, _ = rand.Read(b[:]) // always returns nil
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

// maxKnown returns how many tokens of acknowledged paths a session keeps. It is called with c.mu held.
func (c *Client) maxKnown() int {
	const unknown = 1 << 17 // before the Welcome gives the longest context
	if n := c.welcome.Context; n > 0 {
		return 4 * n
	}
	return unknown
}

// Left counts what was passed to QUIC for a gateway, before encryption and packing.
type Left struct {
	Tokens int // of texts; a token counts each time it is sent
	Bytes  int // of the messages with these tokens, and of other messages of the session
}

// Left returns what has been sent for the session. After Close there is no more.
func (s *Session) Left() Left {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

func (s *Session) countSent(tokens, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.Tokens += tokens
	s.left.Bytes += bytes
}

// Close ends the session and its asks, and the gateway forgets it.
func (s *Session) Close() {
	s.cancel(ErrClosed)
	s.c.mu.Lock()
	l := s.c.current
	s.c.mu.Unlock()
	if l != nil {
		s.countSent(0, l.sendBye(s.number))
	}
}

// Sync sends a path that all later asks begin with. The next ask is then short, and the large model has prefilled the
// path. Sync returns when the gateway has the path, with the payload in bytes; it waits as Ask does.
func (s *Session) Sync(ctx context.Context, path []int32) (bytesUp, bytesDown int, err error) {
	if len(path) == 0 {
		return 0, 0, fmt.Errorf("sync: no tokens: %w", netproto.ErrValue)
	}
	if !s.c.startTask() {
		return 0, 0, fmt.Errorf("sync: %w", ErrClosed)
	}
	defer s.c.tasks.Done()
	ctx, cancel := s.boundContext(ctx, 0)
	defer cancel()
	r, cost, err := s.sendUntilAnswered(ctx, path,
		func(_ *link, p netproto.Path) message {
			return message{frame: netproto.Sync{Session: s.number, Path: p}.Append(nil)}
		})
	if err == nil && r.kind != netproto.KindAck {
		err = fmt.Errorf("%w: a %s answers it", ErrProtocol, r.kind)
	}
	if err != nil {
		return cost.up, cost.down, fmt.Errorf("sync: %w", err)
	}
	return cost.up, cost.down, nil
}
