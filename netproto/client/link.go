package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// link is one connection.
type link struct {
	c      *Client
	qc     *quic.Conn
	to     netip.AddrPort
	socket *socket

	early        bool              // used before the gateway said Welcome
	earlyStreams chan *quic.Stream // for asks before the Welcome, in order of their numbers
	ready        chan struct{}     // closed when the gateway has accepted or refused; the fields below are then set
	agreed       netproto.Welcome
	codec        *netproto.Codec // for the dictionary that both sides have
	err          error           // a refusal
	control      *quic.Stream

	clock clock // of the gateway

	mu      sync.Mutex
	open    int // asks and syncs under way
	retired bool
}

func (l *link) readUntilClosed() {
	defer l.c.removeLink(l)
	w, err := l.receiveWelcome()
	if err == nil {
		l.codec, err = l.c.codecFor(w)
	}
	if l.early && err != nil && !errors.Is(err, ErrClosed) { // otherwise the attempt fails with it
		err = &ConnectError{l.c.addr, err}
		l.c.recordFailure(err)
	}
	l.agreed, l.err = w, err
	if err == nil {
		l.c.recordSuccess(w, l.qc.ConnectionState().Used0RTT)
		close(l.ready)
		l.readControlStream()
		l.closeWhenIdle()
	} else {
		l.c.tickets.dropRefusedTicket(err)
		l.closeWhenIdle() // before the waiting asks see the error and look for another connection
		close(l.ready)
	}
	_ = l.closeWithSocket(netproto.NoReason) // the error of closing adds nothing
	if err == nil {
		l.codec.Close()
	}
}

// sendHello opens the control stream and sends the Hello. If the connection is used before the gateway has replied, it
// opens the streams of early asks as well: see gatedConn.
func (l *link) sendHello(early bool) error {
	control, err := l.qc.OpenStream()
	if err != nil {
		return err
	}
	hello := netproto.Hello{Version: netproto.Version, Identity: l.c.opt.Identity, Device: l.c.opt.Device,
		Dictionary: l.c.opt.Dictionary.ID, Secret: l.c.opt.Secret}
	l.control = control
	if early {
		l.openEarlyStreams()
	}
	_, err = control.Write(hello.Append(nil))
	return err
}

func (l *link) openEarlyStreams() {
	const asks = 8
	l.earlyStreams = make(chan *quic.Stream, asks)
	for range asks {
		s, err := l.qc.OpenStream()
		if err != nil {
			return // then fewer asks are sent before the Welcome
		}
		l.earlyStreams <- s
	}
}

func (l *link) discardEarlyStreams() {
	for {
		select {
		case <-l.earlyStreams:
		default:
			return
		}
	}
}

func (l *link) receiveWelcome() (netproto.Welcome, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(l.c.ctx, l.c.opt.ConnectTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if l.early { // else dialAddress watches
		l.c.tasks.Go(func() {
			l.socket.watchReachability(ctx, l.to, func(err error) { giveUp(l.c.wrapWithAddress(l.to, err)) })
		})
	}
	defer context.AfterFunc(ctx, func() { l.closeConnection(netproto.NoReason) })()
	w, err := l.readWelcomeWithRetry(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return w, l.socket.explainTimeout(err, l.to, start)
}

func (l *link) readWelcomeWithRetry(ctx context.Context) (netproto.Welcome, error) {
	w, err := l.readWelcome()
	if !errors.Is(err, quic.Err0RTTRejected) {
		return w, err
	}
	l.discardEarlyStreams()
	if _, err := l.qc.NextConnection(ctx); err != nil {
		return w, convertError(err)
	}
	if err := l.sendHello(false); err != nil {
		return w, convertError(err)
	}
	return l.readWelcome()
}

func (l *link) readWelcome() (w netproto.Welcome, err error) {
	const longest = 8 << 10
	_ = l.control.SetReadDeadline(time.Now().Add(l.c.opt.ConnectTimeout)) // always returns nil
	kind, b, err := netproto.ReadFrame(l.control, longest)
	if err != nil {
		return w, convertError(err)
	}
	_ = l.control.SetReadDeadline(time.Time{})
	if kind == netproto.KindRefusal {
		return w, parseRefusal(b)
	}
	if w, _, err = netproto.ParseWelcome(b); err != nil {
		return w, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return w, nil
}

// readControlStream reads the control stream until it ends: the gateway may announce that it is draining.
func (l *link) readControlStream() {
	const longest = 4 << 10
	for {
		kind, b, err := netproto.ReadFrame(l.control, longest)
		if err != nil {
			return
		}
		if kind != netproto.KindRefusal || !errors.Is(parseRefusal(b), netproto.Draining) {
			return
		}
		l.closeWhenIdle()
	}
}

func (l *link) waitForWelcome(ctx context.Context) error {
	select {
	case <-l.ready:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) isUsable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retired && l.qc.Context().Err() == nil
}

func (l *link) startRequest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.open++
	return true
}

func (l *link) finishRequest() {
	l.mu.Lock()
	l.open--
	last := l.retired && l.open == 0
	l.mu.Unlock()
	if last {
		l.closeConnection(netproto.NoReason)
	}
}

// closeWhenIdle admits no new asks; the connection ends with the last one.
func (l *link) closeWhenIdle() {
	l.mu.Lock()
	l.retired = true
	last := l.open == 0
	l.mu.Unlock()
	if last {
		l.closeConnection(netproto.NoReason)
	}
}

func (l *link) closeConnection(code netproto.Code) {
	_ = l.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // the connection is over in any case
}

func (l *link) closeWithSocket(code netproto.Code) error {
	l.closeConnection(code)
	return l.socket.close()
}

// sendBye sends a Bye for a session if that is possible without blocking, and returns its size in bytes.
func (l *link) sendBye(session uint32) int {
	select {
	case <-l.ready:
	default:
		return 0
	}
	if l.err != nil {
		return 0
	}
	frame := netproto.Bye{Session: session}.Append(nil)
	// If it is not sent, the gateway forgets the session later.
	_ = l.control.TryWriteAll(frame)
	return len(frame)
}
