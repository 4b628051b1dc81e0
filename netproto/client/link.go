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

	early   bool              // used before the gateway said Welcome
	first   chan *quic.Stream // for asks before the Welcome, in order of their numbers
	ready   chan struct{}     // closed when the gateway has accepted or refused; the fields below are then set
	agreed  netproto.Welcome
	codec   *netproto.Codec // for the dictionary that both sides have
	err     error           // a refusal
	control *quic.Stream

	clock clock // of the gateway

	mu      sync.Mutex
	open    int // asks and syncs under way
	retired bool
}

// run reads from the gateway until the connection ends, then frees it.
func (l *link) run() {
	defer l.c.forget(l)
	w, err := l.welcome()
	if err == nil {
		l.codec, err = l.c.codecFor(w)
	}
	if l.early && err != nil && !errors.Is(err, ErrClosed) { // otherwise the attempt fails with it
		err = &ConnectError{l.c.addr, err}
		l.c.failed(err)
	}
	l.agreed, l.err = w, err
	if err == nil {
		l.c.succeed(w, l.qc.ConnectionState().Used0RTT)
		close(l.ready)
		l.listen()
		l.retire()
	} else {
		l.c.tickets.refused(err)
		l.retire() // before the waiting asks see the error and look for another connection
		close(l.ready)
	}
	_ = l.close(netproto.NoReason) // the error of closing adds nothing
	if err == nil {
		l.codec.Close()
	}
}

// hello opens the control stream and sends the Hello. If the connection is used before the gateway has replied, it
// opens the streams of early asks as well: see gate.
func (l *link) hello(early bool) error {
	control, err := l.qc.OpenStream()
	if err != nil {
		return err
	}
	hello := netproto.Hello{Version: netproto.Version, Identity: l.c.opt.Identity, Device: l.c.opt.Device,
		Dictionary: l.c.opt.Dictionary.ID, Secret: l.c.opt.Secret}
	l.control = control
	if early {
		l.prepare()
	}
	_, err = control.Write(hello.Append(nil))
	return err
}

// prepare opens the streams for asks before the Welcome.
func (l *link) prepare() {
	const asks = 8
	l.first = make(chan *quic.Stream, asks)
	for range asks {
		s, err := l.qc.OpenStream()
		if err != nil {
			return // then fewer asks are sent before the Welcome
		}
		l.first <- s
	}
}

// discard drops the streams that a rejected 0-RTT made useless.
func (l *link) discard() {
	for {
		select {
		case <-l.first:
		default:
			return
		}
	}
}

// welcome returns the gateway's answer to the Hello, or why there is none.
func (l *link) welcome() (netproto.Welcome, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(l.c.ctx, l.c.opt.ConnectTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if l.early { // else openTo watches
		l.c.tasks.Go(func() { l.socket.watch(ctx, l.to, func(err error) { giveUp(l.c.at(l.to, err)) }) })
	}
	defer context.AfterFunc(ctx, func() { l.hangUp(netproto.NoReason) })()
	w, err := l.repeatHello(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return w, l.socket.slow(err, l.to, start)
}

// repeatHello reads the answer to the Hello. It repeats the Hello if the gateway rejects 0-RTT.
func (l *link) repeatHello(ctx context.Context) (netproto.Welcome, error) {
	w, err := l.readWelcome()
	if !errors.Is(err, quic.Err0RTTRejected) {
		return w, err
	}
	l.discard()
	if _, err := l.qc.NextConnection(ctx); err != nil {
		return w, reason(err)
	}
	if err := l.hello(false); err != nil {
		return w, reason(err)
	}
	return l.readWelcome()
}

func (l *link) readWelcome() (w netproto.Welcome, err error) {
	const longest = 8 << 10
	_ = l.control.SetReadDeadline(time.Now().Add(l.c.opt.ConnectTimeout)) // always returns nil
	kind, b, err := netproto.ReadFrame(l.control, longest)
	if err != nil {
		return w, reason(err)
	}
	_ = l.control.SetReadDeadline(time.Time{})
	if kind == netproto.KindRefusal {
		return w, refusal(b)
	}
	if w, _, err = netproto.ParseWelcome(b); err != nil {
		return w, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return w, nil
}

// listen reads the control stream until it ends: the gateway may announce that it is draining.
func (l *link) listen() {
	const longest = 4 << 10
	for {
		kind, b, err := netproto.ReadFrame(l.control, longest)
		if err != nil {
			return
		}
		if kind != netproto.KindRefusal || !errors.Is(refusal(b), netproto.Draining) {
			return
		}
		l.retire()
	}
}

// wait waits for the Welcome. It returns the reason if there is none.
func (l *link) wait(ctx context.Context) error {
	select {
	case <-l.ready:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usable reports whether new asks may go out.
func (l *link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.retired && l.qc.Context().Err() == nil
}

// begin registers an ask that is about to use the connection.
func (l *link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.open++
	return true
}

func (l *link) end() {
	l.mu.Lock()
	l.open--
	last := l.retired && l.open == 0
	l.mu.Unlock()
	if last {
		l.hangUp(netproto.NoReason)
	}
}

// retire admits no new asks; the connection ends with the last one.
func (l *link) retire() {
	l.mu.Lock()
	l.retired = true
	last := l.open == 0
	l.mu.Unlock()
	if last {
		l.hangUp(netproto.NoReason)
	}
}

// hangUp closes the connection, which informs the gateway. run then frees it.
func (l *link) hangUp(code netproto.Code) {
	_ = l.qc.CloseWithError(quic.ApplicationErrorCode(code), "") // the connection is over in any case
}

func (l *link) close(code netproto.Code) error {
	l.hangUp(code)
	return l.socket.close()
}

// bye sends a Bye for a session if that is possible without blocking, and returns its size in bytes.
func (l *link) bye(session uint32) int {
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
