package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
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

// interrupts are the Ctrl-C of a context: signals, and keys of an editor.
type interrupts struct {
	mu      sync.Mutex
	take    func() // takes a Ctrl-C; nil: a signal ends the command
	pending bool   // there was a key, and nobody to take it
}

type interruptsKey struct{}

// interruptsOf returns those of ctx, or new ones where nobody watches signals.
func interruptsOf(ctx context.Context) *interrupts {
	if i, ok := ctx.Value(interruptsKey{}).(*interrupts); ok {
		return i
	}
	return new(interrupts)
}

// taken gives a Ctrl-C to who wants it, and reports whether somebody does.
func (i *interrupts) taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.take == nil {
		return false
	}
	i.take()
	return true
}

// key gives a Ctrl-C that came as a key to who wants it, or to the next one who will.
func (i *interrupts) key() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending = i.take == nil; !i.pending {
		i.take()
	}
}

// left reports whether a key is left that nobody took, and forgets it.
func (i *interrupts) left() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.pending
	i.pending = false
	return left
}

// takeInterrupts has Ctrl-C call f instead of ending the command, until release is called.
func takeInterrupts(ctx context.Context, f func()) (release func()) {
	i := interruptsOf(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.take = f; i.pending {
		i.pending = false
		f()
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.take = nil
	}
}

// watchSignals returns a context that Ctrl-C and SIGTERM cancel, with an [interruption] as the cause, and what ends the
// watching. A second signal ends a command that is slow to stop. [takeInterrupts] is for a command that goes on.
//
// A closed pipe does not end the process: the write fails, and the command ends in order.
func watchSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	pipes := make(chan os.Signal, 1) // nobody reads it: that it is there is what counts
	signal.Notify(pipes, syscall.SIGPIPE)
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	own := new(interrupts)
	go func() {
		defer close(done)
		defer signal.Stop(stops)
		for {
			select {
			case s := <-stops:
				if s == os.Interrupt && own.taken() {
					continue
				}
				cancel(&interruption{signal: s})
			case <-ctx.Done():
			}
			return
		}
	}()
	return context.WithValue(ctx, interruptsKey{}, own), func() {
		cancel(nil)
		<-done
		signal.Stop(pipes)
	}
}
