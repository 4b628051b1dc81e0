package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/quic-go/quic-go"
)

// connection is a connection of a device, also before its Hello.
type connection struct {
	g       *Gateway
	qc      *quic.Conn
	address netip.Prefix
	began   time.Time
	who     *device // set after the Welcome
	codec   *netproto.Codec
	order   *order

	control struct {
		sync.Mutex
		stream *quic.Stream // set after the Welcome
	}

	mu       sync.Mutex
	used     use
	asks     int                 // received
	strikes  int                 // see blame
	known    map[uint32]struct{} // sessions with paths of this connection; Need reveals nothing of others
	leaving  bool                // no new asks
	idle     chan struct{}       // closed when leaving is true and no ask is open
	staying  context.Context     // ends when leaving becomes true
	leave    context.CancelFunc
	replaced error // why the gateway closed it: it was displaced by another connection, or its token was revoked
}

func (g *Gateway) newConnection(qc *quic.Conn) *connection {
	now := time.Now()
	c := &connection{
		g: g, qc: qc, address: prefixOf(qc.RemoteAddr()), began: now, used: use{since: now}, order: newOrder(),
		known: map[uint32]struct{}{}, idle: make(chan struct{}),
	}
	c.staying, c.leave = context.WithCancel(qc.Context())
	return c
}

// serve handles the Hello and then the client's streams until the connection ends.
func (c *connection) serve() {
	victim, err := c.g.room.enter(c)
	if err != nil {
		c.g.pending.Add(-1)
		c.g.tell(c.event(Refused, err))
		_ = c.qc.CloseWithError(quic.ApplicationErrorCode(netproto.Busy), err.Error()) // it ends in any case
		return
	}
	defer c.g.room.leave(c)
	victim.displace()
	err = c.greet()
	c.g.pending.Add(-1)
	if err != nil {
		c.g.tell(c.event(Refused, err))
		c.part(codeOf(err))
		return
	}
	defer c.g.clients.leave(c.who, c)
	e := c.event(Connected, nil)
	e.Early = c.qc.ConnectionState().Used0RTT
	c.g.tell(e)
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
	c.g.tell(c.parted())
}

func (c *connection) event(kind EventKind, err error) Event {
	e := Event{Kind: kind, Address: c.address, Err: err}
	if c.who != nil {
		e.Client, e.Device = c.who.id.names()
	}
	return e
}

// parted returns the event of the end of the connection.
func (c *connection) parted() Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.event(Disconnected, c.replaced)
	e.Lasted, e.Asks = time.Since(c.began), c.asks
	return e
}

// greet reads the Hello on the first stream and answers with a Welcome or a refusal.
func (c *connection) greet() error {
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.MessageTimeout)
	defer cancel()
	control, err := c.qc.AcceptStream(ctx)
	if err != nil {
		return fmt.Errorf("%w: no Hello arrived: %w", netproto.Malformed, err)
	}
	_ = control.SetReadDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // always returns nil
	welcome, err := c.admit(control)
	_ = control.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // an incomplete Hello may need a refusal
	if err != nil {
		refuse(control, err)
		return err
	}
	if _, err := control.Write(welcome.Append(nil)); err != nil {
		c.g.clients.leave(c.who, c)
		c.who = nil
		return fmt.Errorf("%w: the Welcome could not be sent: %w", netproto.Cancelled, err)
	}
	_ = control.SetDeadline(time.Time{})
	c.control.Lock()
	c.control.stream = control
	c.control.Unlock()
	return nil
}

func (c *connection) admit(control *quic.Stream) (w netproto.Welcome, err error) {
	hello, err := readHello(control)
	if err != nil {
		return w, err
	}
	who, err := c.g.clients.enter(hello, c.address, c)
	if err != nil {
		return w, err
	}
	otherTemplate, err := c.g.info.Identity.Compare(hello.Identity)
	if err != nil {
		err = netproto.Refusal{Code: netproto.WrongTokenizer}
	} else {
		var victim *connection
		victim, err = c.g.room.welcome(c, who, c.g.clients.several())
		victim.displace()
	}
	if err != nil {
		c.g.clients.leave(who, c)
		return w, err
	}
	c.who = who
	w = netproto.Welcome{Model: c.g.info.Model, Context: c.g.opt.MaxContext,
		Audit: c.g.info.Audit, Choices: c.g.info.Choices, Judge: c.g.info.Judge,
		OtherTemplate: otherTemplate}
	if c.g.decoder != nil {
		w.Ahead = netproto.MaxAhead
	}
	if c.g.codecs[hello.Dictionary] != nil {
		w.Dictionary = hello.Dictionary
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
		return hello, netproto.Refusal{Code: netproto.WrongVersion,
			Detail: fmt.Sprintf("it speaks version %d", netproto.Version)}
	case err != nil:
		return hello, malformed(err)
	}
	return hello, nil
}

// listen reads the messages on the control stream after the Hello: sessions that end.
func (c *connection) listen() {
	for {
		_, b, err := netproto.ReadFrame(c.control.stream, 64)
		var bye netproto.Bye
		if err == nil {
			bye, _, err = netproto.ParseBye(b)
		}
		if err != nil {
			c.over(err)
			return
		}
		if !c.g.sessions.end(sessionKey{c.who.id, bye.Session}) && c.slowDown() != nil {
			return
		}
	}
}

// slowDown waits for a permit to send text early, for a message that does nothing. Meanwhile the control stream is not
// read, so that its sender has to wait, too. The error is the end of the connection.
func (c *connection) slowDown() error {
	for wait := take(c.who.syncs); wait > 0; wait = take(c.who.syncs) {
		if err := retry.Wait(c.qc.Context(), wait); err != nil {
			return err
		}
	}
	return nil
}

// over closes a connection after its control stream has ended, or brought something else than a Bye.
func (c *connection) over(err error) {
	code := netproto.NoReason
	if err != io.EOF && !errors.Is(err, net.ErrClosed) { // else the connection has ended
		err = malformed(err)
		code = codeOf(err)
		c.g.tell(c.event(Refused, err))
	}
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // it is over in any case
}

// begin registers an ask, unless the gateway is draining.
func (c *connection) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return netproto.Refusal{Code: netproto.Draining}
	}
	c.asks++
	c.used.open++
	c.used.asked, c.used.since = true, time.Now()
	return nil
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.since = time.Now()
	if c.used.open--; c.leaving && c.used.open == 0 {
		close(c.idle)
	}
}

func (c *connection) use() use {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *connection) belong(d *device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.device = d
}

// displace closes the connection to make room for another one. It does nothing if the connection is nil.
func (c *connection) displace() {
	if c == nil {
		return
	}
	c.replace(netproto.Busy, "closed to make room for another connection")
}

// replace closes the connection for a reason that the event of its end has, too.
func (c *connection) replace(code netproto.Code, detail string) {
	c.mu.Lock()
	c.replaced = netproto.Refusal{Code: code, Detail: detail}
	c.mu.Unlock()
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), detail) // it ends in any case
}

// blame compares the numbers of refused and answered messages: a connection is closed if its device guesses bases that
// it never sent, or floods the gateway with messages that are refused. After a restart or an eviction a device repeats
// each open ask once, which is far below the limit.
func (c *connection) blame(kind EventKind) {
	const most = 64
	c.mu.Lock()
	switch kind {
	case Answered, Synced:
		c.strikes = max(0, c.strikes-1)
	case Resent, Refused:
		c.strikes++
	}
	over := c.strikes > most
	c.mu.Unlock()
	if over {
		_ = c.qc.CloseWithError(quic.ApplicationErrorCode(netproto.TooFast), "too many messages without an answer")
	}
}

// tells records that the connection has sent a path of a session; hasTold reports it.
func (c *connection) tells(session uint32) {
	const most = 1024 // sessions; with more, Need reveals less
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= most {
		clear(c.known)
	}
	c.known[session] = struct{}{}
}

func (c *connection) hasTold(session uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[session]
	return ok
}

// drain announces the end to the client, waits for the open asks and closes the connection, after a moment for the last
// answer to arrive and for the client to close it.
func (c *connection) drain() {
	c.mu.Lock()
	c.leaving = true
	c.leave()
	if c.used.open == 0 {
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
		// otherwise the client gets a refusal for its next ask
		_, _ = c.control.stream.Write(netproto.Refusal{Code: netproto.Draining}.Append(nil))
	}
}

// part gives the client a moment to read what was sent and to close the connection, then closes it.
func (c *connection) part(code netproto.Code) {
	const moment = 500 * time.Millisecond
	_ = retry.Wait(c.qc.Context(), moment)                       // the client may be faster
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // it is over in any case
}
