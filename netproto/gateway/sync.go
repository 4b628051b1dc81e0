package gateway

import (
	"context"
	"errors"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
)

// handleSync answers a Sync. The upstream prefills the path after the answer, so the client does not wait for it.
func (c *connection) handleSync(s *quic.Stream, b []byte, e *Event) (out outcome, err error) {
	y, _, err := netproto.ParseSync(b)
	if err != nil {
		return out, malformedError(err)
	}
	e.Context, e.Delta = y.Path.Position(), y.Path.Delta.Count
	if wait := takePermit(c.device.syncs); wait > 0 {
		detail := "text is sent early too often"
		return out, netproto.Refusal{Code: netproto.TooFast, RetryAfter: wait, Detail: detail}
	}
	key := sessionKey{c.device.id, y.Session}
	path, need, err := c.resolvePath(s.Context(), s.StreamID(), key, y.Path)
	if err != nil || need != nil {
		e.Kind = Resent
		return outcome{frame: need}, err
	}
	entry, seen, done := c.g.sessions.storeContext(key, path, true)
	c.recordSentSession(y.Session)
	c.order.markPathKnown(s.StreamID())
	e.Kind, e.Session = Synced, entry.id
	out.afterwards = func() {
		defer done()
		c.warmUpstream(terms.Job{Client: c.device.client.number, Weight: c.device.client.shareWeight(),
			Device: c.device.number, Session: entry.id, Domain: c.g.sessions.sessionDomain(entry, c.device),
			Base: seen, Question: terms.Question{Context: path}})
	}
	out.frame = netproto.Ack{Position: len(path)}.Append(nil)
	return out, nil
}

// textsWarming is the maximum number of texts of one device that are prefilled at a time: the latest one of a session,
// and the previous one if it is still under way.
const textsWarming = 2

// warmUpstream makes the upstream prefill tokens before they are needed, in the background. If there is no place or it
// fails, the only effect is that the next ask takes longer.
func (c *connection) warmUpstream(q terms.Job) {
	up, ok := c.g.up.(Warmer)
	if !ok || q.Base == len(q.Context) {
		return
	}
	defer c.device.warming.Add(-1)
	if c.device.warming.Add(1) > textsWarming {
		return
	}
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.AskTimeout)
	defer cancel()
	release, err := c.g.admission.acquirePlace(ctx, c.device, len(q.Context)-q.Base, true)
	if err != nil {
		return
	}
	defer release()
	if err := up.Warm(ctx, q); err != nil && ctx.Err() == nil && !errors.Is(err, netproto.Busy) {
		e := c.newEvent(Refused, err)
		e.Message, e.Session = netproto.KindSync, q.Session
		c.g.emitEvent(e)
	}
}
