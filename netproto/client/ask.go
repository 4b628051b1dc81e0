package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Ask returns the large model's token for the position after the context of q. It waits for the answer, and for a
// connection if there is none, until ctx ends or q.Within has passed (then the error is netproto.TooLate). When it
// gives up, it cancels the request at the gateway. Any number of asks may be under way, for any paths, in any order. An
// ask without a deadline is repeated after a temporary refusal, for up to half a minute. With q.Ahead, further tokens
// arrive after Ask has returned, until ctx ends. An answer without the audit that q.Verify requests is an error; it is
// netproto.CannotVerify if the gateway refused. With an error, the answer holds only the numbers of bytes that were
// sent and received.
func (s *Session) Ask(ctx context.Context, q terms.Question) (terms.Answer, error) {
	if err := checkQuestionLimits(q); err != nil {
		return terms.Answer{}, fmt.Errorf("ask: %w", err)
	}
	if !s.c.startTask() {
		return terms.Answer{}, fmt.Errorf("ask: %w", ErrClosed)
	}
	defer s.c.tasks.Done()
	whole := ctx
	ctx, cancel := s.boundContext(ctx, q.Within)
	defer cancel()
	start := time.Now()
	ask := func(l *link, p netproto.Path) message { return s.newAskMessage(ctx, l, p, q) }
	r, cost, err := s.sendUntilAnswered(ctx, q.Context, ask)
	for err != nil {
		if err = s.waitBeforeRepeat(ctx, err, start); err != nil {
			break
		}
		before, prefilled := cost, r.prefilled
		r, cost, err = s.sendUntilAnswered(ctx, q.Context, ask)
		cost.up, cost.down = cost.up+before.up, cost.down+before.down
		r.prefilled = max(r.prefilled, prefilled) // a path that is sent again was new the first time
	}
	failed := terms.Answer{BytesUp: cost.up, BytesDown: cost.down}
	if err != nil {
		return failed, fmt.Errorf("ask: %w", err)
	}
	if r.kind != netproto.KindAnswer {
		return failed, fmt.Errorf("ask: %w: a %s answers it", ErrProtocol, r.kind)
	}
	a, _, err := netproto.ParseAnswer(r.b)
	if err == nil {
		err = a.Check(q, s.c.opt.Identity.Vocab)
	}
	if err != nil {
		r.cancelAhead(netproto.Malformed)
		return failed, fmt.Errorf("ask: %w: %w", ErrProtocol, err)
	}
	return terms.Answer{
		Reply: a.Reply, BytesUp: cost.up, BytesDown: cost.down, Prefilled: r.prefilled, Times: r.at,
		Ahead: s.streamAhead(whole, r),
	}, nil
}

func checkQuestionLimits(q terms.Question) error {
	if len(q.Context) == 0 || q.K < 0 || q.K > netproto.MaxK || q.Ahead < 0 || q.Ahead > netproto.MaxAhead ||
		q.Verify > terms.EachJudged {
		return fmt.Errorf("%d tokens, k of %d, %d ahead, verification %d: %w", len(q.Context), q.K, q.Ahead, q.Verify,
			netproto.ErrValue)
	}
	return nil
}

func (s *Session) newAskMessage(ctx context.Context, l *link, p netproto.Path, q terms.Question) message {
	a := netproto.Ask{Session: s.number, Path: p, Question: q}
	a.Within, a.Ahead = timeLeft(ctx), min(q.Ahead, l.maxAhead())
	return message{a.Append(nil), a.Ahead, a.Times}
}

// maxAhead returns the maximum number of tokens ahead of an ask. Before the Welcome it is that of the protocol.
func (l *link) maxAhead() int {
	select {
	case <-l.ready:
		if l.err == nil {
			return l.agreed.Ahead
		}
	default:
	}
	return netproto.MaxAhead
}

// boundContext returns a context that also ends with the session and at the deadline.
func (s *Session) boundContext(ctx context.Context, deadline time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })
	last := func() {}
	if deadline > 0 {
		ctx, last = context.WithTimeoutCause(ctx, deadline, netproto.TooLate)
	}
	return ctx, func() {
		stop()
		last()
		cancel(nil)
	}
}

// timeLeft returns 0 if ctx has no deadline.
func timeLeft(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return max(time.Until(d), time.Millisecond)
	}
	return 0
}

// cost is the payload of an exchange, in bytes.
type cost struct{ up, down int }

// sendUntilAnswered asks about a path until there is an answer. It tries again on a new connection, or with more of the
// path if the gateway needs that. It stores what the gateway acknowledged.
func (s *Session) sendUntilAnswered(
	ctx context.Context, path []int32, frame func(*link, netproto.Path) message,
) (r reply, sum cost, err error) {
	// A gateway that holds nothing gets the whole path at the second attempt, a restarted one at the third.
	const most = 16
	for range most {
		var up int
		r, up, err = s.sendOnce(ctx, path, frame)
		sum.up += up
		sum.down += len(r.b) + r.more
		switch {
		case errors.Is(err, errRepeat):
			continue
		case err != nil:
			return r, sum, err
		case r.kind == netproto.KindNeed:
			if err := s.applyNeed(r.b, path); err != nil {
				return r, sum, err
			}
			continue
		case r.kind == netproto.KindRefusal:
			return r, sum, parseRefusal(r.b)
		}
		s.mu.Lock()
		s.known.Add(path)
		s.mu.Unlock()
		return r, sum, nil
	}
	if err == nil {
		err = fmt.Errorf("%w: it does not take the path", ErrProtocol)
	}
	return r, sum, err
}

// waitBeforeRepeat waits before a refused ask is repeated. It returns err if it should not be repeated, or why ctx
// ended. An ask is repeated until patience has passed, unless it would be refused again, or the large model failed and
// the gateway does not say when it may be back; one with a deadline if the gateway says a time before that.
func (s *Session) waitBeforeRepeat(ctx context.Context, err error, start time.Time) error {
	r, refused := errors.AsType[netproto.Refusal](err)
	end, bounded := ctx.Deadline()
	if !refused || r.Code.Lasting() || r.RetryAfter == 0 && (bounded || r.Code == netproto.Failed) {
		return err
	}
	room := patience - time.Since(start)
	if bounded {
		room = min(room, time.Until(end)-1)
	}
	least := max(r.RetryAfter, 50*time.Millisecond)
	if least > room {
		return err
	}
	most := min(least+least/2, room) // later than the gateway says, so that not all come at once
	pause := least + time.Duration(rand.Float64()*float64(most-least))
	return retry.Wait(ctx, pause)
}

// sendOnce sends a path over the current connection. If the gateway is draining, it takes another connection.
func (s *Session) sendOnce(
	ctx context.Context, path []int32, frame func(*link, netproto.Path) message,
) (r reply, up int, err error) {
	l, err := s.waitForLink(ctx)
	if err != nil {
		return r, 0, err
	}
	if !l.startRequest() {
		return r, 0, errRepeat
	}
	defer l.finishRequest()
	p, fresh, err := s.encodePath(l, path)
	if err != nil {
		return r, 0, err
	}
	m := frame(l, p)
	before, start := l.qc.ConnectionStats().PacketsReceived, time.Now()
	prefilled := 0
	r, err = l.exchangeFrames(ctx, m, func() {
		s.noteSent(l, path)
		prefilled, up = fresh, len(m.frame)
		s.countSent(len(path)-p.Base, up)
	})
	r.prefilled = prefilled
	if err != nil && ctx.Err() != nil {
		err = s.c.addTimeoutCause(l, err, before, start)
	}
	if err == nil && r.kind == netproto.KindRefusal && errors.Is(parseRefusal(r.b), netproto.Draining) {
		s.c.retireLink(l)
		err = errRepeat
	}
	return r, up, err
}

// waitForLink waits for a connection, for patience at most.
func (s *Session) waitForLink(ctx context.Context) (*link, error) {
	ctx, cancel := s.c.withPatience(ctx)
	defer cancel()
	return s.c.waitForLink(ctx)
}

func (s *Session) noteSent(l *link, path []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.via != l {
		s.via = l
		s.sent.Clear()
	}
	s.sent.Add(path)
}

// encodePath encodes a path as the tokens after the longest base that the gateway has acknowledged, or that was sent on
// the same connection: the gateway waits for earlier streams before it reports an unknown base. A base that was sent
// but not acknowledged may get lost, which delays the asks that use it. On a link that loses packets, only acknowledged
// bases are therefore used, unless the path then needs more packets. fresh counts the tokens that were not sent before.
func (s *Session) encodePath(l *link, path []int32) (p netproto.Path, fresh int, err error) {
	codec := s.c.plain
	select {
	case <-l.ready:
		if l.err != nil {
			return p, 0, l.retireWithError(l.err)
		}
		codec = l.codec
	default:
	}
	s.mu.Lock()
	p.Base, p.Hash = s.known.Longest(path)
	base, hash := p.Base, p.Hash
	if s.via == l {
		if n, h := s.sent.Longest(path); n > base {
			base, hash = n, h
		}
	}
	s.mu.Unlock()
	fresh = len(path) - base
	if base > p.Base && l.losesPackets() {
		p.Delta, err = codec.Encode(path[:p.Base], path[p.Base:])
		if err != nil || len(p.Delta.Bytes) <= onePacket {
			return p, fresh, err
		}
	}
	p.Base, p.Hash = base, hash
	p.Delta, err = codec.Encode(path[:base], path[base:])
	return p, fresh, err
}

// onePacket is how many bytes of tokens fit into a packet with their overhead: QUIC guarantees packets of 1200 bytes.
const onePacket = 1000

func (l *link) losesPackets() bool {
	stats := l.qc.ConnectionStats()
	return stats.PacketsLost > 0 && 100*stats.PacketsLost >= stats.PacketsSent
}

// applyNeed forgets what the gateway no longer holds: all after the position that it names, if the hash there is ours.
func (s *Session) applyNeed(b []byte, path []int32) error {
	need, _, err := netproto.ParseNeed(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	base := path[:min(need.Position, len(path))]
	if netproto.RootHash.Over(base) != need.Hash {
		base = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Clear()
	s.known.Clear()
	s.known.Add(base)
	return nil
}

func (c *Client) addTimeoutCause(l *link, err error, packets uint64, since time.Time) error {
	silent := l.receivedNothing(packets, since)
	if silent {
		c.retireLink(l)
	}
	c.mu.Lock()
	why := c.failure // of the previous attempt, if the gateway has not said Welcome yet
	c.mu.Unlock()
	if why == nil && silent {
		why = noReplyError(c.addr, since)
	}
	if why == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// receivedNothing reports whether nothing was received during an exchange that lasted long enough. Then the path to the
// gateway is broken, and the next ask tries a new connection instead of waiting until this one times out.
func (l *link) receivedNothing(packets uint64, since time.Time) bool {
	const least = 300 * time.Millisecond
	s := l.qc.ConnectionStats()
	return s.PacketsReceived == packets && time.Since(since) > max(least, 3*s.SmoothedRTT)
}
