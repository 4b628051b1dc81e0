package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Log writes events to a structured log: a line for each start and end of a connection, refusal, error and draining.
// The rate of each sort of line is limited: a burst at first, then one per second; the next line has the number of
// those left out. At level debug there is also a line for every ask, sync and removed session. A slow log does not
// delay the gateway: events that do not fit into its buffer are left out as well.
type Log struct {
	to        *slog.Logger
	lines     chan Event
	lost      atomic.Int64
	ending    chan struct{}
	done      sync.WaitGroup
	throttles map[lineKind]*throttle // used only by the writing goroutine
}

// lineKind groups lines that share a limit.
type lineKind struct {
	kind EventKind
	code netproto.Code
}

// throttle limits the lines of one sort.
type throttle struct {
	limit *rate.Limiter
	left  int // lines left out since the last one
}

// NewLog returns a log; pass its Event method as Options.Events. Close it when the gateway has ended.
func NewLog(to *slog.Logger) *Log {
	const buffer = 1024
	l := &Log{to: to, lines: make(chan Event, buffer), ending: make(chan struct{}), throttles: map[lineKind]*throttle{}}
	l.done.Go(l.writeLoop)
	return l
}

// Event queues an event.
func (l *Log) Event(e Event) {
	if !l.to.Enabled(context.Background(), eventLevel(e)) {
		return
	}
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

// Close writes the queued events and ends the log. Event must not be called afterwards.
func (l *Log) Close() {
	close(l.ending)
	l.done.Wait()
}

func (l *Log) writeLoop() {
	for {
		select {
		case e := <-l.lines:
			l.writeEvent(e)
		case <-l.ending:
			for len(l.lines) > 0 {
				l.writeEvent(<-l.lines)
			}
			l.reportLeftOut()
			return
		}
	}
}

func eventLevel(e Event) slog.Level {
	switch e.Kind {
	case Connected, Disconnected, Draining, Drained:
		return slog.LevelInfo
	case Decoded:
		if e.Code() == netproto.Failed {
			return slog.LevelError
		}
	case Refused:
		if e.Code() == netproto.Failed {
			return slog.LevelError
		}
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// writeEvent writes the line of an event, unless too many of its sort were written recently.
func (l *Log) writeEvent(e Event) {
	level := eventLevel(e)
	t := l.throttleFor(e)
	if level > slog.LevelDebug && !t.limit.Allow() {
		t.left++
		return
	}
	attributes := e.logAttrs()
	if left := t.left + int(l.lost.Swap(0)); left > 0 {
		attributes = append(attributes, slog.Int("left_out", left))
		t.left = 0
	}
	l.to.LogAttrs(context.Background(), level, e.Kind.String(), attributes...)
}

func (l *Log) throttleFor(e Event) *throttle {
	const burst = 20
	s := lineKind{e.Kind, e.Code()}
	t := l.throttles[s]
	if t == nil {
		t = &throttle{limit: rate.NewLimiter(rate.Every(time.Second), burst)}
		l.throttles[s] = t
	}
	return t
}

func (l *Log) reportLeftOut() {
	left := int(l.lost.Swap(0))
	for _, t := range l.throttles {
		left += t.left
	}
	if left > 0 {
		l.to.Info("lines left out", slog.Int("left_out", left))
	}
}

func (e Event) logAttrs() (all []slog.Attr) {
	text := func(key, value string) {
		if value != "" {
			all = append(all, slog.String(key, value))
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			all = append(all, slog.Int64(key, n))
		}
	}
	text("client", e.Client)
	text("device", e.Device)
	if e.Address.IsValid() {
		text("address", e.Address.Addr().String())
	}
	number("session", int64(e.Session))
	if e.Message != 0 {
		text("message", e.Message.String())
	}
	number("context", int64(e.Context))
	number("delta", int64(e.Delta))
	number("verify", int64(e.Verify))
	number("decoded", int64(e.Decoded))
	number("queue_us", e.Queue.Microseconds())
	number("compute_us", e.Compute.Microseconds())
	number("took_us", e.Took.Microseconds())
	number("connections", int64(e.Conns))
	number("asks", int64(e.Asks))
	number("lasted_ms", e.Lasted.Milliseconds())
	if e.Early {
		all = append(all, slog.Bool("early", true))
	}
	if e.Err != nil {
		number("code", int64(e.Code()))
		text("error", truncateText(e.Err.Error()))
	}
	return all
}

func truncateText(s string) string {
	const longest = 300
	if start := errs.Start(s, longest); len(start) < len(s) {
		return start + "…"
	}
	return s
}
