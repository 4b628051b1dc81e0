package gateway

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// sync answers a Sync. The client need not wait until the upstream is warm: that is for afterwards.
func (c *connection) sync(s *quic.Stream, b []byte, e *Event) (ack []byte, afterwards func(), err error) {
	afterwards = func() {}
	y, _, err := netproto.ParseSync(b)
	if err != nil {
		return nil, afterwards, malformed(err)
	}
	e.Context, e.Delta = y.Path.Position(), y.Path.Delta.Count
	key := sessionKey{c.who.name, y.Session}
	path, need, err := c.path(s.Context(), s.StreamID(), key, y.Path)
	if err != nil || need != nil {
		e.Kind = Resent
		return need, afterwards, err
	}
	held, seen, done := c.g.sessions.learn(key, path, true)
	c.order.told(s.StreamID())
	e.Kind, e.Session = Synced, held.id
	afterwards = func() {
		defer done()
		c.warm(Question{Session: held.id, Context: path, Base: seen})
	}
	return netproto.Ack{Position: len(path)}.Append(nil), afterwards, nil
}

// warm lets the upstream compute tokens before they are needed, when it is the client's turn. It is a favour: without
// room for it, or when it fails, the next ask takes longer and that is all.
func (c *connection) warm(q Question) {
	up, ok := c.g.up.(Warmer)
	if !ok || q.Base == len(q.Context) {
		return
	}
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.AskTimeout)
	defer cancel()
	release, err := c.g.turns.take(ctx, c.who.name)
	if err != nil {
		return
	}
	defer release()
	if err := up.Warm(ctx, q); err != nil && ctx.Err() == nil {
		c.g.tell(Event{Kind: Refused, Client: c.who.name, Session: q.Session, Context: len(q.Context), Err: err})
	}
}
