package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/streams"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// handleStream serves one stream: an ask or a sync. The stream counts as open once the whole message has arrived: an
// incomplete message does not delay the end of the gateway.
func (c *connection) handleStream(s *quic.Stream) {
	e := c.newEvent(Refused, nil)
	defer c.order.markPathKnown(s.StreamID())
	_ = s.SetReadDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // always returns nil
	kind, b, err := netproto.ReadFrame(s, c.g.opt.maxMessageBytes())
	arrived := time.Now()
	e.BytesUp = len(b)
	switch {
	case err == nil:
		err = c.startRequest()
	case errors.Is(err, os.ErrDeadlineExceeded): // a link with high loss: the client may repeat it
		err = fmt.Errorf("%w: the message is incomplete: %w", netproto.TooLate, err)
	default:
		err = malformedError(err)
	}
	if err != nil {
		e.Message = requestKind(kind)
		c.writeReply(s, outcome{}, err, &e)
		e.Took = time.Since(arrived)
		c.updateStrikes(Refused) // also if the stream was reset before the message was complete
		c.g.emitEvent(e)
		return
	}
	out, err := c.handleMessage(s, kind, b, &e)
	c.order.markPathKnown(s.StreamID())
	c.writeReply(s, out, err, &e)
	e.Took = time.Since(arrived)
	c.finishRequest()
	if code := errorCode(err); err == nil || code != netproto.Failed && code != netproto.TooLate {
		c.updateStrikes(e.Kind) // else the large model failed, or was slow
	}
	c.g.emitEvent(e)
	if out.afterwards != nil {
		out.afterwards()
	}
	streams.Finish(s)
}

// outcome is the result of a message.
type outcome struct {
	frame      []byte // the answer
	afterwards func() // runs after the answer was written; nil: nothing
	open       bool   // more is written afterwards, which then ends the stream
}

// handleMessage returns the answer, and what to do afterwards even if the answer could not be sent.
func (c *connection) handleMessage(s *quic.Stream, kind netproto.Kind, b []byte, e *Event) (out outcome, err error) {
	e.Message = requestKind(kind)
	switch kind {
	case netproto.KindAsk:
		out, err = c.handleAsk(s, b, e)
	case netproto.KindSync:
		out, err = c.handleSync(s, b, e)
	default:
		err = malformedError(fmt.Errorf("a %s on a stream of its own", kind))
	}
	return out, err
}

// requestKind returns the kind of a message for events: an ask or a sync, 0 for all others.
func requestKind(k netproto.Kind) netproto.Kind {
	if k == netproto.KindAsk || k == netproto.KindSync {
		return k
	}
	return 0
}

func (c *connection) writeReply(s *quic.Stream, out outcome, err error, e *Event) {
	_ = s.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout))
	if err != nil {
		e.Kind, e.Err = Refused, err
		if s.Context().Err() != nil {
			e.Kind = Dropped
		}
		e.BytesDown = writeRefusal(s, err)
		return
	}
	n, err := s.Write(out.frame)
	e.BytesDown = n
	if err != nil {
		e.Kind, e.Err = Dropped, fmt.Errorf("%w: %w", netproto.Cancelled, err)
		s.CancelWrite(quic.StreamErrorCode(netproto.TooLate))
		return
	}
	if !out.open {
		_ = s.Close() // fails only if the stream has ended already
	}
}

func (c *connection) parseAsk(b []byte, e *Event) (netproto.Ask, error) {
	a, _, err := netproto.ParseAsk(b)
	if err != nil {
		return a, malformedError(err)
	}
	e.Context, e.Delta, e.Verify = a.Path.Position(), a.Path.Delta.Count, a.Verify
	if a.Verify != terms.AsItComes {
		if err := c.g.info.Audit.CannotVerify(); err != nil {
			return a, err
		}
	}
	if a.Verify == terms.EachJudged && c.g.info.Judge == "" {
		return a, netproto.CannotJudge("", "any")
	}
	return a, c.g.checkSampling(a.Sampling)
}

func (c *connection) handleAsk(s *quic.Stream, b []byte, e *Event) (out outcome, err error) {
	arrived := time.Now()
	a, err := c.parseAsk(b, e)
	if err != nil {
		return out, err
	}
	key := sessionKey{c.device.id, a.Session}
	ctx, cancel := context.WithDeadlineCause(s.Context(), arrived.Add(c.g.askTimeout(a)), netproto.TooLate)
	defer cancel()
	path, need, err := c.resolvePath(ctx, s.StreamID(), key, a.Path)
	if err != nil || need != nil {
		e.Kind = Resent
		return outcome{frame: need}, err
	}
	entry, seen, done := c.g.sessions.storeContext(key, path, false)
	defer func() {
		if out.afterwards == nil {
			done()
		}
	}()
	c.recordSentSession(a.Session)
	c.order.markPathKnown(s.StreamID())
	e.Session = entry.id
	q := c.newUpstreamJob(a, entry, path, seen)
	answer, err := c.g.askUpstream(ctx, c.device, q)
	if err != nil {
		return out, err
	}
	e.Kind, e.Audited, e.Looked, e.Queue, e.Compute = Answered, len(answer.Audit), answer.Audited, answer.Queue,
		answer.Compute
	if a.Times {
		out.frame = netproto.Clock{Received: arrived.Sub(c.began), Sent: time.Since(c.began)}.Append(nil)
	}
	out.frame = netproto.Answer{Reply: answer}.Append(out.frame)
	text, token := terms.Behind(path, answer.Token, a.Verify, answer.Audit)
	if most := c.g.maxAhead(a, token); most > 0 {
		q.K, q.AuditFrom, q.Verify = 0, 0, terms.AsItComes
		q.Context = append(slices.Clip(text), token)
		out.open, out.afterwards = true, func() {
			defer done()
			c.decodeAhead(s, entry, q, most)
		}
	}
	return out, nil
}

// newUpstreamJob takes as base the number of tokens of the path that the session held before.
func (c *connection) newUpstreamJob(a netproto.Ask, of *session, path []int32, base int) terms.Job {
	q := terms.Job{
		Question: a.Question, Base: base,
		Client: c.device.client.number, Weight: c.device.client.shareWeight(), Device: c.device.number, Session: of.id,
		Domain: c.g.sessions.sessionDomain(of, c.device),
	}
	q.Context = path
	if a.AuditFrom < 1 || a.AuditFrom >= len(path) { // no position to audit
		q.AuditFrom, q.Verify = 0, terms.AsItComes
	}
	return q
}

func (g *Gateway) checkSampling(s terms.Sampling) error {
	most := g.info.Choices
	if s.Possible(most) {
		return nil
	}
	return netproto.Refusal{Code: netproto.TooLarge, Detail: fmt.Sprintf(
		"at a temperature above 0 this large model gives its %d most probable tokens: "+
			"top-k must be 1 to %d", most, most)}
}

func (g *Gateway) askTimeout(a netproto.Ask) time.Duration {
	if a.Within > 0 {
		return min(a.Within, g.opt.AskTimeout)
	}
	return g.opt.AskTimeout
}

// resolvePath returns the whole context of a message, or a Need to be sent. id is the stream of the message.
func (c *connection) resolvePath(
	ctx context.Context, id quic.StreamID, key sessionKey, p netproto.Path,
) (path []int32, need []byte, err error) {
	if wait := c.device.takeMessagePermit(); wait > 0 {
		return nil, nil, netproto.Refusal{Code: netproto.TooFast, RetryAfter: wait}
	}
	if n := p.Position(); n < 1 || n > c.g.opt.derived.MaxContext {
		detail := fmt.Sprintf("the context has %d tokens, possible are 1 to %d", n, c.g.opt.derived.MaxContext)
		return nil, nil, netproto.Refusal{Code: netproto.TooLarge, Detail: detail}
	}
	base, wanted, ok := c.g.sessions.findBase(key, p, c.hasSentSession(key.number))
	if !ok {
		c.order.waitForEarlier(ctx, id)
		base, wanted, ok = c.g.sessions.findBase(key, p, c.hasSentSession(key.number))
	}
	if !ok {
		return nil, wanted.Append(nil), nil
	}
	ids, err := c.codec.Decode(base, p.Delta)
	if err != nil {
		return nil, nil, malformedError(err)
	}
	return append(base, ids...), nil, nil
}

func (g *Gateway) askUpstream(ctx context.Context, who *device, q terms.Job) (terms.Reply, error) {
	start := time.Now()
	release, err := g.admission.acquirePlace(ctx, who, len(q.Context)-q.Base, false)
	if err != nil {
		return terms.Reply{}, err
	}
	defer release()
	waited := time.Since(start)
	if end, ok := ctx.Deadline(); ok {
		q.Within = time.Until(end)
	}
	a, err := g.up.Ask(ctx, q)
	if ctx.Err() != nil {
		return terms.Reply{}, context.Cause(ctx)
	}
	if err != nil {
		return terms.Reply{}, err
	}
	a.Queue += waited
	if err := a.Check(q.Question, g.info.Identity.Vocab); err != nil {
		return terms.Reply{}, fmt.Errorf("%w: %w", netproto.Failed, err)
	}
	return a, nil
}
