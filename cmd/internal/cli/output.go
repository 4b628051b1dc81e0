package cli

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"syscall"
)

// Output is stdout. It keeps the first error, so that none is lost if a command ignores it, and writes nothing after
// it.
type Output struct {
	W  io.Writer
	mu sync.Mutex // protects e
	e  error
}

// Write implements [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.e != nil {
		return 0, o.e
	}
	var n int
	n, o.e = o.W.Write(b)
	return n, o.e
}

func (o *Output) writeError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.e
}

// OutputError returns the error of writing to stdout, if there was one, and whether it deserves no message: a reader of
// a pipe that closed it, such as head, needs no more output.
func (a *App) OutputError() (err error, silent bool) {
	o, ok := a.Stdout.(*Output)
	if !ok || o.writeError() == nil {
		return nil, false
	}
	return o.writeError(), errors.Is(o.writeError(), syscall.EPIPE) || errors.Is(o.writeError(), io.ErrClosedPipe)
}

// NewLog returns a log in the format of --log, and its level, which may change.
func (a *App) NewLog(form, level string) (*slog.Logger, *slog.LevelVar) {
	changing := new(slog.LevelVar)
	changing.Set(ParseLevel(level))
	o := &slog.HandlerOptions{Level: changing}
	switch form {
	case "text":
		return slog.New(slog.NewTextHandler(a.Stderr, o)), changing
	case "json":
		return slog.New(slog.NewJSONHandler(a.Stderr, o)), changing
	}
	return slog.New(slog.DiscardHandler), changing
}

// ParseLevel returns the level of --log-level.
func ParseLevel(level string) slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn,
		"error": slog.LevelError}[level] // 0 is info
}
