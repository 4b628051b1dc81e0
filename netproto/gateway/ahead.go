package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// streamsAhead is the maximum number of asks of one device that are decoded ahead at a time: those of one text with
// overlapping answers. Further asks get only their answer.
const streamsAhead = 4

// maxAhead returns how many tokens may follow an answer: as many as the ask wants, the limits allow and the context has
// room for. None follow the end of a text.
func (g *Gateway) maxAhead(a netproto.Ask, token int32) int {
	if g.decoder == nil || slices.Contains(g.info.Ends, token) {
		return 0
	}
	return min(a.Ahead, g.opt.derived.MaxContext-a.Path.Position())
}

// decodeAhead sends at most the given number of tokens that follow a context, as they are computed, and ends the
// stream. This is background work: it stops when there is other work, when the client resets the stream, when the
// session or the connection ends, when the gateway is draining, and after AskTimeout.
func (c *connection) decodeAhead(s *quic.Stream, entry *session, q terms.Job, most int) {
	e := c.newEvent(Decoded, nil)
	e.Message, e.Session, e.Context = netproto.KindAsk, entry.id, len(q.Context)-1
	began := time.Now()
	e.Decoded, e.BytesDown, e.Err = c.decodeAheadLimited(s, entry, q, most)
	if e.Err != nil && s.Context().Err() != nil {
		e.Err = netproto.Cancelled
	}
	_ = s.Close() // fails only if the stream has ended already
	e.Took = time.Since(began)
	c.g.emitEvent(e)
}

// decodeAheadLimited is writeAheadTokens with a limit of streams and time. It also stops when the gateway is draining
// or the session ends.
func (c *connection) decodeAheadLimited(
	s *quic.Stream, entry *session, q terms.Job, most int,
) (n, bytes int, err error) {
	defer c.device.decoding.Add(-1)
	if c.device.decoding.Add(1) > streamsAhead {
		return 0, 0, busyRefusal(soon, "%d answers to this device are being decoded ahead", streamsAhead)
	}
	ctx, cancel := context.WithTimeoutCause(s.Context(), c.g.opt.AskTimeout, netproto.TooLate)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.activeCtx, func() { end(netproto.Draining) })()
	defer context.AfterFunc(entry.ctx, func() { end(netproto.Cancelled) })()
	return c.writeAheadTokens(ctx, s, q, most)
}

// writeAheadTokens returns with an error the reason for fewer than the maximum, nil if the text ends.
func (c *connection) writeAheadTokens(
	ctx context.Context, s *quic.Stream, q terms.Job, most int,
) (n, bytes int, err error) {
	for n < most {
		q.Base = len(q.Context) - 1
		token, err := c.g.decodeNextToken(ctx, c.device, q)
		if err != nil {
			return n, bytes, err
		}
		_ = s.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // always returns nil
		w, err := s.Write(netproto.Ahead{Token: token}.Append(nil))
		bytes += w
		if err != nil {
			s.CancelWrite(quic.StreamErrorCode(netproto.TooLate))
			return n, bytes, fmt.Errorf("%w: %w", netproto.Cancelled, err)
		}
		n++
		if slices.Contains(c.g.info.Ends, token) {
			break
		}
		q.Context = append(q.Context, token)
	}
	return n, bytes, nil
}

func (g *Gateway) decodeNextToken(ctx context.Context, who *device, q terms.Job) (int32, error) {
	release, err := g.admission.acquirePlace(ctx, who, 1, true)
	if err != nil {
		return 0, err
	}
	defer release()
	token, err := g.decoder.Next(ctx, q)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, netproto.Busy):
		return 0, netproto.Refusal{Code: netproto.Busy, Detail: "the large model has other work"}
	case err != nil:
		return 0, err
	case token < 0 || int(token) >= g.info.Identity.Vocab:
		return 0, fmt.Errorf("%w: its token %d is not in the vocabulary", netproto.Failed, token)
	}
	return token, nil
}
