package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/streams"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
)

// errRepeat says that a frame was surely not answered on this connection, and may be sent on another one, or again.
var errRepeat = errors.New("to be repeated")

// reply is what came back for a frame.
type reply struct {
	kind netproto.Kind
	b    []byte
	more int          // bytes that came before b
	at   terms.Times  // where they said when the gateway had what
	told int          // tokens that travelled for it
	most int          // tokens ahead that may follow
	rest *quic.Stream // on which they do; nil: nothing follows
}

// drop gives up what follows an answer.
func (r reply) drop(why netproto.Code) {
	if r.rest != nil {
		r.rest.CancelRead(quic.StreamErrorCode(why))
	}
}

// message is a frame, how many tokens ahead it asks for, and whether for the gateway's clock.
type message struct {
	frame []byte
	ahead int
	clock bool
}

// exchange sends one frame on a stream of its own and returns the frame that answers it. It calls opened when the
// stream has its place among the others and nothing is written yet. When ctx ends, the stream is reset. Where tokens
// may follow the answer, the stream is left to the caller.
func (l *link) exchange(ctx context.Context, m message, opened func()) (reply, error) {
	s, err := l.stream(ctx)
	if err != nil {
		return reply{}, l.fault(ctx, err)
	}
	opened()
	var sent atomic.Bool
	stop := context.AfterFunc(ctx, func() { reset(s, &sent) })
	r, err := l.talk(s, m, &sent)
	if !stop() || err != nil {
		reset(s, &sent)
		return r, l.fault(ctx, err)
	}
	if m.ahead > 0 && r.kind == netproto.KindAnswer {
		r.rest, r.most = s, m.ahead
		return r, nil
	}
	l.c.tasks.Go(func() { streams.Finish(s) })
	return r, nil
}

// reset cancels a stream. What is sent already cannot be taken back, only the answer refused: after a rejected 0-RTT,
// QUIC would reset the stream of the same number on the connection as it is then.
func reset(s *quic.Stream, sent *atomic.Bool) {
	if !sent.Load() {
		s.CancelWrite(quic.StreamErrorCode(netproto.Cancelled))
	}
	s.CancelRead(quic.StreamErrorCode(netproto.Cancelled))
}

// talk sends a frame and reads one, and the gateway's clock before it where that was asked for. It sets sent when no
// more will be written. A gateway may refuse before it has taken the whole frame: writing fails then, and the refusal
// is there to be read all the same.
func (l *link) talk(s *quic.Stream, m message, sent *atomic.Bool) (r reply, err error) {
	left := time.Now()
	_, unwritten := s.Write(m.frame)
	if unwritten == nil {
		sent.Store(true)
		unwritten = s.Close()
	}
	r.kind, r.b, err = netproto.ReadFrame(s, netproto.MaxMessage)
	if err == nil && m.clock && r.kind == netproto.KindClock {
		r, err = l.told(s, r.b, left)
	}
	if err != nil && unwritten != nil {
		err = unwritten
	}
	return r, err
}

// told takes the gateway's clock from a frame, and reads the answer behind it.
func (l *link) told(s *quic.Stream, b []byte, left time.Time) (r reply, err error) {
	arrived := time.Now()
	theirs, _, err := netproto.ParseClock(b)
	if err != nil {
		return r, err
	}
	r.more, r.at = len(b), l.clock.learn(left, arrived, theirs)
	r.kind, r.b, err = netproto.ReadFrame(s, netproto.MaxMessage)
	return r, err
}

// stream returns a stream for one exchange. Before the gateway has said Welcome these are the ones that were opened
// with the connection: QUIC sets up its streams anew in the meantime.
func (l *link) stream(ctx context.Context) (*quic.Stream, error) {
	select {
	case s := <-l.first:
		return s, nil
	default:
	}
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.qc.OpenStreamSync(ctx)
}

// fault says why there is no answer: the end of ctx, a refusal of the connection,
// or errRepeat where another attempt may have one.
func (l *link) fault(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, quic.Err0RTTRejected):
		if err := l.wait(ctx); err != nil {
			return err
		}
		return errRepeat
	case l.unwelcome():
		return l.over(err)
	case errors.Is(err, net.ErrClosed): // as all errors of a whole connection are
		return l.ended(ctx, err)
	case l.qc.Context().Err() != nil:
		return l.ended(ctx, context.Cause(l.qc.Context()))
	}
	if _, bad := errors.AsType[*netproto.ParseError](err); bad {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return reason(err)
}

// unwelcome reports whether the gateway has said no to the Hello, or nothing in time.
func (l *link) unwelcome() bool {
	select {
	case <-l.ready:
		return l.err != nil
	default:
		return false
	}
}

// ended says what the end of a connection means for an ask. It lets run learn of it first, which takes a moment: where
// there was no Welcome yet, run counts the attempt as failed and drops the ticket, before there is another attempt.
func (l *link) ended(ctx context.Context, err error) error {
	select {
	case <-l.ready:
		return l.over(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over is ended where run knows of it.
func (l *link) over(err error) error {
	l.c.retire(l)
	if err = reason(err); l.unwelcome() {
		err = l.err
	}
	if lasting(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errRepeat, err)
}
