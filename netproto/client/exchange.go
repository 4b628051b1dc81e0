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

// errRepeat means that a frame was certainly not answered on this connection. It may be sent again, also on another
// one.
var errRepeat = errors.New("to be repeated")

// reply is what the gateway sent in answer to a frame.
type reply struct {
	kind      netproto.Kind
	b         []byte
	more      int          // bytes received before b
	at        terms.Times  // when the gateway received and answered the frame, if it sent its clock
	prefilled int          // tokens sent for it
	most      int          // maximum number of tokens ahead
	rest      *quic.Stream // with the tokens ahead; nil: none follow
}

func (r reply) cancelAhead(why netproto.Code) {
	if r.rest != nil {
		r.rest.CancelRead(quic.StreamErrorCode(why))
	}
}

// message is a frame, the number of tokens ahead that it requests, and whether it requests the gateway's clock.
type message struct {
	frame []byte
	ahead int
	clock bool
}

// exchangeFrames sends one frame on a stream of its own and returns the frame that answers it. It calls opened when the
// stream has its number and nothing is written yet. When ctx ends, the stream is reset. If tokens may follow the
// answer, the caller must finish the stream.
func (l *link) exchangeFrames(ctx context.Context, m message, opened func()) (reply, error) {
	s, err := l.openStream(ctx)
	if err != nil {
		return reply{}, l.exchangeError(ctx, err)
	}
	opened()
	var sent atomic.Bool
	stop := context.AfterFunc(ctx, func() { resetStream(s, &sent) })
	r, err := l.sendAndReceive(s, m, &sent)
	if !stop() || err != nil {
		resetStream(s, &sent)
		return r, l.exchangeError(ctx, err)
	}
	if m.ahead > 0 && r.kind == netproto.KindAnswer {
		r.rest, r.most = s, m.ahead
		return r, nil
	}
	l.c.tasks.Go(func() { streams.Finish(s) })
	return r, nil
}

// resetStream cancels a stream. If all has been sent, it cancels only the reading side: after a rejected 0-RTT, QUIC
// would reset the stream with the same number on the new connection.
func resetStream(s *quic.Stream, sent *atomic.Bool) {
	if !sent.Load() {
		s.CancelWrite(quic.StreamErrorCode(netproto.Cancelled))
	}
	s.CancelRead(quic.StreamErrorCode(netproto.Cancelled))
}

// sendAndReceive sends a frame and reads its answer, and before it the gateway's clock if that was requested. It sets
// sent when nothing more will be written. A gateway may refuse before it has received the whole frame: writing then
// fails, but the refusal can still be read.
func (l *link) sendAndReceive(s *quic.Stream, m message, sent *atomic.Bool) (r reply, err error) {
	left := time.Now()
	if _, err := s.Write(m.frame); err == nil {
		sent.Store(true)
		_ = s.Close() // fails if the stream was reset: then reading fails, too
	}
	r.kind, r.b, err = netproto.ReadFrame(s, netproto.MaxMessage)
	if err == nil && m.clock && r.kind == netproto.KindClock {
		r, err = l.readClock(s, r.b, left)
	}
	return r, err
}

// readClock also reads the answer that follows the gateway's clock.
func (l *link) readClock(s *quic.Stream, b []byte, left time.Time) (r reply, err error) {
	arrived := time.Now()
	theirs, _, err := netproto.ParseClock(b)
	if err != nil {
		return r, err
	}
	r.more, r.at = len(b), l.clock.addSample(left, arrived, theirs)
	r.kind, r.b, err = netproto.ReadFrame(s, netproto.MaxMessage)
	return r, err
}

// openStream returns a stream for one exchange. Before the gateway has said Welcome, it returns one of the streams that
// were opened with the connection: until then quic-go may set up its streams anew, see gatedConn.
func (l *link) openStream(ctx context.Context) (*quic.Stream, error) {
	select {
	case s := <-l.earlyStreams:
		return s, nil
	default:
	}
	if err := l.waitForWelcome(ctx); err != nil {
		return nil, err
	}
	return l.qc.OpenStreamSync(ctx)
}

// exchangeError returns why there is no answer: the end of ctx, a refusal of the connection, or errRepeat if another
// attempt may succeed.
func (l *link) exchangeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, quic.Err0RTTRejected):
		switch err := l.waitForWelcome(ctx); {
		case err == nil:
			return errRepeat
		case l.helloFailed():
			return l.retireWithError(err)
		default:
			return err
		}
	case l.helloFailed():
		return l.retireWithError(err)
	case errors.Is(err, net.ErrClosed): // as is every error of a whole connection
		return l.awaitCloseError(ctx, err)
	case l.qc.Context().Err() != nil:
		return l.awaitCloseError(ctx, context.Cause(l.qc.Context()))
	}
	return convertError(err)
}

func (l *link) helloFailed() bool {
	select {
	case <-l.ready:
		return l.err != nil
	default:
		return false
	}
}

// awaitCloseError returns the error of an ask after its connection has ended. It first lets readUntilClosed handle the
// end, which takes a moment: if there was no Welcome yet, readUntilClosed counts the attempt as failed and drops the
// ticket before the next attempt.
func (l *link) awaitCloseError(ctx context.Context, err error) error {
	select {
	case <-l.ready:
		return l.retireWithError(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retireWithError is awaitCloseError after readUntilClosed has handled the end.
func (l *link) retireWithError(err error) error {
	l.c.retireLink(l)
	if err = convertError(err); l.helloFailed() {
		err = l.err
	}
	if isLastingError(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errRepeat, err)
}
