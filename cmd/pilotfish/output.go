package main

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"syscall"
)

// output is stdout. It remembers the first error, so that none is lost where a command does not look at it, and writes
// nothing after it.
type output struct {
	w  io.Writer
	mu sync.Mutex // of e
	e  error
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.e != nil {
		return 0, o.e
	}
	var n int
	n, o.e = o.w.Write(b)
	return n, o.e
}

// err is the first error of a write.
func (o *output) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.e
}

// outputError returns why stdout could not be written, if it could not, and whether that is worth a message: a reader
// of a pipe that has closed it, such as head, wants no more.
func (a *app) outputError() (err error, silent bool) {
	o, ok := a.stdout.(*output)
	if !ok || o.err() == nil {
		return nil, false
	}
	return o.err(), errors.Is(o.err(), syscall.EPIPE) || errors.Is(o.err(), io.ErrClosedPipe)
}

// newLog returns a log of the form that --log names, and its level, which may change.
func (a *app) newLog(form, level string) (*slog.Logger, *slog.LevelVar, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	changing := new(slog.LevelVar)
	changing.Set(least)
	o := &slog.HandlerOptions{Level: changing}
	switch form {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, o)), changing, nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, o)), changing, nil
	case "off":
		return slog.New(slog.DiscardHandler), changing, nil
	}
	return nil, nil, usagef("--log %s is not a form of log: choose text, json or off", form)
}

// parseLevel reads the level that --log-level names.
func parseLevel(level string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError}
	l, ok := levels[level]
	if !ok {
		return l, usagef("--log-level %s is no level: choose debug, info, warn or error", level)
	}
	return l, nil
}
