package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruption is the end of a command by a signal.
type interruption struct {
	signal   os.Signal
	progress string // what was done until then, if the command tells
}

// Error implements error.
func (i *interruption) Error() string {
	text := "interrupted"
	if i.signal == syscall.SIGTERM {
		text = "terminated"
	}
	if i.progress != "" {
		text += ": " + i.progress
	}
	return text
}

// code is the exit code that shells give to a program which such a signal has ended: 130 after Ctrl-C, 143 after
// SIGTERM.
func (i *interruption) code() int {
	n, _ := i.signal.(syscall.Signal)
	return 128 + int(n)
}

// watchSignals returns a context that Ctrl-C and SIGTERM cancel, with an [interruption] as the cause, and what ends the
// watching. A second signal ends a command that is slow to stop.
//
// A closed pipe does not end the process: the write fails, and the command ends in order.
func watchSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	pipes := make(chan os.Signal, 1) // nobody reads it: that it is there is what counts
	signal.Notify(pipes, syscall.SIGPIPE)
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-stops:
			signal.Stop(stops)
			cancel(&interruption{signal: s})
		case <-ctx.Done():
			signal.Stop(stops)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		signal.Stop(pipes)
	}
}
