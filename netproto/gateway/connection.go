package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// connection is one client's.
type connection struct {
	g     *Gateway
	qc    *quic.Conn
	who   *client
	codec *netproto.Codec
	order *order

	control struct {
		sync.Mutex
		stream *quic.Stream // set when the client is welcome
	}

	mu      sync.Mutex
	open    int           // asks and syncs under way
	leaving bool          // no new ones
	idle    chan struct{} // closed when leaving and none is open
}

// serve greets the client and answers its streams until the connection ends.
func (c *connection) serve() {
	err := c.greet()
	c.g.pending.Add(-1)
	if err != nil {
		c.g.tell(Event{Kind: Refused, Client: hostOf(c.qc.RemoteAddr()), Err: err})
		c.part(codeOf(err))
		return
	}
	defer c.g.clients.leave(c.who)
	c.g.tell(Event{Kind: Connected, Client: c.who.name, Early: c.qc.ConnectionState().Used0RTT})
	var streams sync.WaitGroup
	streams.Go(c.listen)
	for {
		s, err := c.qc.AcceptStream(c.qc.Context())
		if err != nil {
			break
		}
		c.order.come(s.StreamID())
		streams.Go(func() { c.answer(s) })
	}
	streams.Wait()
	c.g.tell(Event{Kind: Disconnected, Client: c.who.name})
}

// greet reads the Hello on the first stream and says Welcome or why not.
func (c *connection) greet() error {
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.MessageTimeout)
	defer cancel()
	control, err := c.qc.AcceptStream(ctx)
	if err != nil {
		return errors.Join(netproto.Malformed, err)
	}
	_ = control.SetDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // it never errs
	welcome, err := c.admit(control)
	if err != nil {
		refuse(control, err)
		return err
	}
	if _, err := control.Write(welcome.Append(nil)); err != nil {
		c.g.clients.leave(c.who)
		return err
	}
	_ = control.SetDeadline(time.Time{})
	c.control.Lock()
	c.control.stream = control
	c.control.Unlock()
	return nil
}

// admit decides about a Hello.
func (c *connection) admit(control *quic.Stream) (w netproto.Welcome, err error) {
	hello, err := readHello(control)
	if err != nil {
		return w, err
	}
	who, err := c.g.clients.enter(hello.Secret, c.qc.RemoteAddr())
	if err != nil {
		return w, err
	}
	if err := c.g.compatible(hello.Identity); err != nil {
		c.g.clients.leave(who)
		return w, err
	}
	c.who = who
	w = netproto.Welcome{Version: netproto.Version, Model: c.g.info.Model, Limits: c.g.opt.limits()}
	for _, id := range hello.Dictionaries {
		if id != 0 && c.g.codecs[id] != nil {
			w.Dictionary = id
			break
		}
	}
	c.codec = c.g.codecs[w.Dictionary]
	return w, nil
}

func readHello(control io.Reader) (netproto.Hello, error) {
	const longest = 8 << 10
	_, b, err := netproto.ReadFrame(control, longest)
	if err != nil {
		return netproto.Hello{}, malformed(err)
	}
	hello, _, err := netproto.ParseHello(b)
	switch {
	case errors.Is(err, netproto.WrongVersion):
		return hello, netproto.Refusal{Code: netproto.WrongVersion}
	case err != nil:
		return hello, malformed(err)
	}
	return hello, nil
}

// compatible compares what tokens mean.
func (g *Gateway) compatible(theirs netproto.Identity) error {
	ours, none := g.info.Identity, netproto.Digest{}
	switch {
	case ours.Tokenizer != none && ours.Tokenizer != theirs.Tokenizer, ours.Vocab != theirs.Vocab:
		return netproto.Refusal{Code: netproto.WrongTokenizer}
	case ours.Template != none && theirs.Template != none && ours.Template != theirs.Template && !g.opt.AnyTemplate:
		return netproto.Refusal{Code: netproto.WrongTemplate}
	}
	return nil
}

// listen reads what comes on the control stream after the Hello: sessions that end.
func (c *connection) listen() {
	for {
		kind, b, err := netproto.ReadFrame(c.control.stream, 64)
		if err != nil {
			c.over(err)
			return
		}
		bye, _, err := netproto.ParseBye(b)
		if kind != netproto.KindBye || err != nil {
			c.over(malformed(err))
			return
		}
		c.g.sessions.end(sessionKey{c.who.name, bye.Session})
	}
}

// over ends a connection whose control stream has ended, in order or not.
func (c *connection) over(err error) {
	code := netproto.NoReason
	if err != io.EOF && c.qc.Context().Err() == nil {
		code = netproto.Malformed
		c.g.tell(Event{Kind: Refused, Client: c.who.name, Err: err})
	}
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // the connection is over in any case
}

// begin counts an ask, unless the gateway is about to go.
func (c *connection) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return netproto.Refusal{Code: netproto.Draining}
	}
	c.open++
	return nil
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.leaving && c.open == 0 {
		close(c.idle)
	}
}

// drain tells the client that the gateway is about to go, waits for the open asks and closes the connection, after a moment for the
// last answer to arrive and the client to close it by itself.
func (c *connection) drain() {
	c.mu.Lock()
	c.leaving = true
	if c.open == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	c.announce()
	select {
	case <-c.idle:
		c.part(netproto.Draining)
	case <-c.qc.Context().Done():
	}
}

func (c *connection) announce() {
	c.control.Lock()
	defer c.control.Unlock()
	if c.control.stream != nil {
		_ = c.control.stream.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout))
		_, _ = c.control.stream.Write(netproto.Refusal{Code: netproto.Draining}.Append(nil)) // else it learns from the refusal of its next ask
	}
}

// part leaves the client a moment to read what was sent, and to close the connection by itself.
func (c *connection) part(code netproto.Code) {
	const moment = 500 * time.Millisecond
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.qc.Context().Done():
	}
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // it is over in any case
}
