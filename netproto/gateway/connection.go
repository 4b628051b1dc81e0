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
	device  *device // set after the Welcome
	codec   *netproto.Codec
	order   *streamOrder

	control struct {
		sync.Mutex
		stream *quic.Stream // set after the Welcome
	}

	mu           sync.Mutex
	used         usage
	asks         int                 // received
	strikes      int                 // see updateStrikes
	known        map[uint32]struct{} // sessions with paths of this connection; Need reveals nothing of others
	draining     bool                // no new asks
	idle         chan struct{}       // closed when draining is true and no ask is open
	activeCtx    context.Context     // ends when draining becomes true
	cancelActive context.CancelFunc
	closeReason  error // why the gateway closed it: it was displaced by another connection, or its token was revoked
}

func (g *Gateway) newConnection(qc *quic.Conn) *connection {
	now := time.Now()
	c := &connection{
		g: g, qc: qc, address: addressPrefix(qc.RemoteAddr()), began: now, used: usage{since: now},
		order: newStreamOrder(), known: map[uint32]struct{}{}, idle: make(chan struct{}),
	}
	c.activeCtx, c.cancelActive = context.WithCancel(qc.Context())
	return c
}

func (c *connection) serveConnection() {
	victim, err := c.g.limiter.admitConnection(c)
	if err != nil {
		c.g.pending.Add(-1)
		c.g.emitEvent(c.newEvent(Refused, err))
		_ = c.qc.CloseWithError(quic.ApplicationErrorCode(netproto.Busy), err.Error()) // it ends in any case
		return
	}
	defer c.g.limiter.removeConnection(c)
	victim.closeDisplaced()
	err = c.handleHello()
	c.g.pending.Add(-1)
	if err != nil {
		c.g.emitEvent(c.newEvent(Refused, err))
		c.closeGracefully(errorCode(err))
		return
	}
	defer c.g.clients.unregisterConnection(c.device, c)
	e := c.newEvent(Connected, nil)
	e.Early = c.qc.ConnectionState().Used0RTT
	c.g.emitEvent(e)
	var streams sync.WaitGroup
	streams.Go(c.handleControlStream)
	for {
		s, err := c.qc.AcceptStream(c.qc.Context())
		if err != nil {
			break
		}
		c.order.addStream(s.StreamID())
		streams.Go(func() { c.handleStream(s) })
	}
	streams.Wait()
	c.g.emitEvent(c.disconnectedEvent())
}

func (c *connection) newEvent(kind EventKind, err error) Event {
	e := Event{Kind: kind, Address: c.address, Err: err}
	if c.device != nil {
		e.Client, e.Device = c.device.id.eventNames()
	}
	return e
}

func (c *connection) disconnectedEvent() Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.newEvent(Disconnected, c.closeReason)
	e.Lasted, e.Asks = time.Since(c.began), c.asks
	return e
}

func (c *connection) handleHello() error {
	ctx, cancel := context.WithTimeout(c.qc.Context(), c.g.opt.MessageTimeout)
	defer cancel()
	control, err := c.qc.AcceptStream(ctx)
	if err != nil {
		return fmt.Errorf("%w: no Hello arrived: %w", netproto.Malformed, err)
	}
	_ = control.SetReadDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // always returns nil
	welcome, err := c.acceptHello(control)
	_ = control.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout)) // an incomplete Hello may need a refusal
	if err != nil {
		writeRefusal(control, err)
		return err
	}
	if _, err := control.Write(welcome.Append(nil)); err != nil {
		c.g.clients.unregisterConnection(c.device, c)
		c.device = nil
		return fmt.Errorf("%w: the Welcome could not be sent: %w", netproto.Cancelled, err)
	}
	_ = control.SetDeadline(time.Time{})
	c.control.Lock()
	c.control.stream = control
	c.control.Unlock()
	return nil
}

func (c *connection) acceptHello(control *quic.Stream) (w netproto.Welcome, err error) {
	hello, err := readHello(control)
	if err != nil {
		return w, err
	}
	who, err := c.g.clients.registerConnection(hello, c.address, c)
	if err != nil {
		return w, err
	}
	otherTemplate, err := c.g.info.Identity.Compare(hello.Identity)
	if err != nil {
		err = netproto.Refusal{Code: netproto.WrongTokenizer}
	} else {
		var victim *connection
		victim, err = c.g.limiter.assignDevice(c, who, c.g.clients.hasSeveralTokens())
		victim.closeDisplaced()
	}
	if err != nil {
		c.g.clients.unregisterConnection(who, c)
		return w, err
	}
	c.device = who
	w = netproto.Welcome{Model: c.g.info.Model, Context: c.g.opt.derived.MaxContext,
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
		return netproto.Hello{}, malformedError(err)
	}
	hello, _, err := netproto.ParseHello(b)
	switch {
	case errors.Is(err, netproto.WrongVersion):
		return hello, netproto.Refusal{Code: netproto.WrongVersion,
			Detail: fmt.Sprintf("it speaks version %d", netproto.Version)}
	case err != nil:
		return hello, malformedError(err)
	}
	return hello, nil
}

func (c *connection) handleControlStream() {
	for {
		_, b, err := netproto.ReadFrame(c.control.stream, 64)
		var bye netproto.Bye
		if err == nil {
			bye, _, err = netproto.ParseBye(b)
		}
		if err != nil {
			c.closeAfterControlStream(err)
			return
		}
		if !c.g.sessions.endSession(sessionKey{c.device.id, bye.Session}) && c.awaitSyncPermit() != nil {
			return
		}
	}
}

// awaitSyncPermit waits for a permit to send text early, for a message that does nothing. Meanwhile the control stream
// is not read, so that its sender has to wait, too. The error is the end of the connection.
func (c *connection) awaitSyncPermit() error {
	for wait := takePermit(c.device.syncs); wait > 0; wait = takePermit(c.device.syncs) {
		if err := retry.Wait(c.qc.Context(), wait); err != nil {
			return err
		}
	}
	return nil
}

// closeAfterControlStream closes the connection after its control stream has ended, or brought something else than a
// Bye.
func (c *connection) closeAfterControlStream(err error) {
	code := netproto.NoReason
	if err != io.EOF && !errors.Is(err, net.ErrClosed) { // else the connection has ended
		err = malformedError(err)
		code = errorCode(err)
		c.g.emitEvent(c.newEvent(Refused, err))
	}
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // it is over in any case
}

// startRequest registers an ask, unless the gateway is draining.
func (c *connection) startRequest() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return netproto.Refusal{Code: netproto.Draining}
	}
	c.asks++
	c.used.open++
	c.used.asked, c.used.since = true, time.Now()
	return nil
}

func (c *connection) finishRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.since = time.Now()
	if c.used.open--; c.draining && c.used.open == 0 {
		close(c.idle)
	}
}

func (c *connection) currentUsage() usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *connection) setDevice(d *device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.device = d
}

// closeDisplaced makes room for another connection. It does nothing if the connection is nil.
func (c *connection) closeDisplaced() {
	if c == nil {
		return
	}
	c.closeWithReason(netproto.Busy, "closed to make room for another connection")
}

// closeWithReason closes the connection; the event of its end has the reason, too.
func (c *connection) closeWithReason(code netproto.Code, detail string) {
	c.mu.Lock()
	c.closeReason = netproto.Refusal{Code: code, Detail: detail}
	c.mu.Unlock()
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), detail) // it ends in any case
}

// updateStrikes compares the numbers of refused and answered messages: a connection is closed if its device guesses
// bases that it never sent, or floods the gateway with messages that are refused. After a restart or an eviction a
// device repeats each open ask once, which is far below the limit.
func (c *connection) updateStrikes(kind EventKind) {
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

func (c *connection) recordSentSession(session uint32) {
	const most = 1024 // sessions; with more, Need reveals less
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= most {
		clear(c.known)
	}
	c.known[session] = struct{}{}
}

func (c *connection) hasSentSession(session uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[session]
	return ok
}

// drainAndClose announces the end to the client, waits for the open asks and closes the connection, after a moment for
// the last answer to arrive and for the client to close it.
func (c *connection) drainAndClose() {
	c.mu.Lock()
	c.draining = true
	c.cancelActive()
	if c.used.open == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	c.announceDraining()
	select {
	case <-c.idle:
		c.closeGracefully(netproto.Draining)
	case <-c.qc.Context().Done():
	}
}

func (c *connection) announceDraining() {
	c.control.Lock()
	defer c.control.Unlock()
	if c.control.stream != nil {
		_ = c.control.stream.SetWriteDeadline(time.Now().Add(c.g.opt.MessageTimeout))
		// otherwise the client gets a refusal for its next ask
		_, _ = c.control.stream.Write(netproto.Refusal{Code: netproto.Draining}.Append(nil))
	}
}

// closeGracefully gives the client a moment to read what was sent and to close the connection, then closes it.
func (c *connection) closeGracefully(code netproto.Code) {
	const moment = 500 * time.Millisecond
	_ = retry.Wait(c.qc.Context(), moment)                       // the client may be faster
	_ = c.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // it is over in any case
}
