package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// Log writes events to a structured log: a line for each connection that begins or ends, refusal, error and draining.
// Answered asks are not logged. Of each sort of line some are written at once and then one a second; the next one says
// how many were left out. A log that is slow holds nobody up: what does not fit into its buffer is left out too.
type Log struct {
	to     *slog.Logger
	lines  chan Event
	lost   atomic.Int64
	ending chan struct{}
	done   sync.WaitGroup
	sorts  map[sort]*throttle // used by the writing goroutine alone
}

// sort is what lines are counted by.
type sort struct {
	kind EventKind
	code netproto.Code
}

// throttle limits lines of one sort.
type throttle struct {
	limit *rate.Limiter
	left  int // out since the last line
}

// NewLog returns a log whose Event method is for Options.Events. Close it when the gateway has ended.
func NewLog(to *slog.Logger) *Log {
	const buffer = 1024
	l := &Log{to: to, lines: make(chan Event, buffer), ending: make(chan struct{}), sorts: map[sort]*throttle{}}
	l.done.Go(l.run)
	return l
}

// Event takes an event.
func (l *Log) Event(e Event) {
	if _, ok := levelOf(e); !ok {
		return
	}
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

// Close writes what is left and ends the log. Event must not be called any more.
func (l *Log) Close() {
	close(l.ending)
	l.done.Wait()
}

func (l *Log) run() {
	for {
		select {
		case e := <-l.lines:
			l.write(e)
		case <-l.ending:
			for len(l.lines) > 0 {
				l.write(<-l.lines)
			}
			l.rest()
			return
		}
	}
}

// levelOf returns the level of an event's line; false for an event that has none.
func levelOf(e Event) (slog.Level, bool) {
	switch e.Kind {
	case Connected, Disconnected, Draining, Drained:
		return slog.LevelInfo, true
	case Refused:
		if codeOf(e.Err) == netproto.Failed {
			return slog.LevelError, true
		}
		return slog.LevelWarn, true
	}
	return 0, false
}

// write writes the line of an event, unless too many of its sort were written lately.
func (l *Log) write(e Event) {
	const burst = 20
	s := sort{e.Kind, netproto.NoReason}
	if e.Err != nil {
		s.code = codeOf(e.Err)
	}
	t := l.sorts[s]
	if t == nil {
		t = &throttle{limit: rate.NewLimiter(rate.Every(time.Second), burst)}
		l.sorts[s] = t
	}
	if !t.limit.Allow() {
		t.left++
		return
	}
	level, _ := levelOf(e)
	attributes := e.attributes()
	if left := t.left + int(l.lost.Swap(0)); left > 0 {
		attributes = append(attributes, slog.Int("left_out", left))
		t.left = 0
	}
	l.to.LogAttrs(context.Background(), level, e.Kind.String(), attributes...)
}

// rest says what was left out and not told.
func (l *Log) rest() {
	left := int(l.lost.Swap(0))
	for _, t := range l.sorts {
		left += t.left
	}
	if left > 0 {
		l.to.Info("lines left out", slog.Int("left_out", left))
	}
}

// attributes returns what a line says of an event: what is not zero.
func (e Event) attributes() (all []slog.Attr) {
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
	number("context", int64(e.Context))
	number("connections", int64(e.Conns))
	number("asks", int64(e.Asks))
	number("lasted_ms", e.Lasted.Milliseconds())
	if e.Early {
		all = append(all, slog.Bool("early", true))
	}
	if e.Err != nil {
		number("code", int64(codeOf(e.Err)))
		text("error", quoted(e.Err.Error()))
	}
	return all
}

// quoted cuts a text that may come from outside.
func quoted(s string) string {
	const longest = 300
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}
