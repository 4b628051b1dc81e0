package gateway

import (
	"context"
	"errors"
	"sync"

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
	if wait := c.who.syncs.take(); wait > 0 {
		detail := "text is streamed ahead too often"
		return nil, afterwards, netproto.Refusal{Code: netproto.TooFast, RetryAfter: wait, Detail: detail}
	}
	key := sessionKey{c.who.id, y.Session}
	path, need, err := c.path(s.Context(), s.StreamID(), key, y.Path)
	if err != nil || need != nil {
		e.Kind = Resent
		return need, afterwards, err
	}
	held, seen, done := c.g.sessions.learn(key, path, true)
	c.tells(y.Session)
	c.order.told(s.StreamID())
	e.Kind, e.Session = Synced, held.id
	afterwards = func() {
		defer done()
		c.warm(Question{Client: c.who.client.number, Device: c.who.number, Session: held.id,
			Domain:  c.g.sessions.domain(held, c.who),
			Context: path, Base: seen})
	}
	return netproto.Ack{Position: len(path)}.Append(nil), afterwards, nil
}

// warm lets the upstream compute tokens before they are needed, in the background. Where there is no room for it, or
// when it fails, the next ask takes longer and that is all.
func (c *connection) warm(q Question) {
	up, ok := c.g.up.(Warmer)
	if !ok || q.Base == len(q.Context) || !c.g.warming.take(c.who.id) {
		return
	}
	defer c.g.warming.release(c.who.id)
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.AskTimeout)
	defer cancel()
	release, err := c.g.turns.take(ctx, c.who.id, len(q.Context)-q.Base, true)
	if err != nil {
		return
	}
	defer release()
	if err := up.Warm(ctx, q); err != nil && ctx.Err() == nil && !errors.Is(err, netproto.Busy) {
		e := c.event(Refused, err)
		e.Session, e.Context, e.Ahead = q.Session, len(q.Context), true
		c.g.tell(e)
	}
}

// warming counts what is computed ahead for each device: a little at a time, and the rest is left to the next ask.
type warming struct {
	mu  sync.Mutex
	now map[deviceID]int
}

func (w *warming) take(who deviceID) bool {
	const most = 2 // the latest text of a session, while the one before it is still under way
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now[who] >= most {
		return false
	}
	w.now[who]++
	return true
}

func (w *warming) release(who deviceID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now[who]--; w.now[who] == 0 {
		delete(w.now, who)
	}
}
