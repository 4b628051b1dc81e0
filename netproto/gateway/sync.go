package gateway

import (
	"context"
	"errors"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/quic-go/quic-go"
)

// sync answers a Sync. The upstream prefills the path after the answer, so the client does not wait for it.
func (c *connection) sync(s *quic.Stream, b []byte, e *Event) (out outcome, err error) {
	y, _, err := netproto.ParseSync(b)
	if err != nil {
		return out, malformed(err)
	}
	e.Context, e.Delta = y.Path.Position(), y.Path.Delta.Count
	if wait := take(c.who.syncs); wait > 0 {
		detail := "text is sent early too often"
		return out, netproto.Refusal{Code: netproto.TooFast, RetryAfter: wait, Detail: detail}
	}
	key := sessionKey{c.who.id, y.Session}
	path, need, err := c.path(s.Context(), s.StreamID(), key, y.Path)
	if err != nil || need != nil {
		e.Kind = Resent
		return outcome{frame: need}, err
	}
	entry, seen, done := c.g.sessions.learn(key, path, true)
	c.tells(y.Session)
	c.order.pathKnown(s.StreamID())
	e.Kind, e.Session = Synced, entry.id
	out.afterwards = func() {
		defer done()
		c.warm(terms.Job{Client: c.who.client.number, Weight: c.who.client.weight(), Device: c.who.number,
			Session: entry.id, Domain: c.g.sessions.domain(entry, c.who), Base: seen,
			Question: terms.Question{Context: path}})
	}
	out.frame = netproto.Ack{Position: len(path)}.Append(nil)
	return out, nil
}

// textsWarming is the maximum number of texts of one device that are prefilled at a time: the latest one of a session,
// and the previous one if it is still under way.
const textsWarming = 2

// warm makes the upstream prefill tokens before they are needed, in the background. If there is no place or it fails,
// the only effect is that the next ask takes longer.
func (c *connection) warm(q terms.Job) {
	up, ok := c.g.up.(Warmer)
	if !ok || q.Base == len(q.Context) {
		return
	}
	defer c.who.warming.Add(-1)
	if c.who.warming.Add(1) > textsWarming {
		return
	}
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.AskTimeout)
	defer cancel()
	leave, err := c.g.admission.take(ctx, c.who, len(q.Context)-q.Base, true)
	if err != nil {
		return
	}
	defer leave()
	if err := up.Warm(ctx, q); err != nil && ctx.Err() == nil && !errors.Is(err, netproto.Busy) {
		e := c.event(Refused, err)
		e.Message, e.Session = netproto.KindSync, q.Session
		c.g.tell(e)
	}
}
