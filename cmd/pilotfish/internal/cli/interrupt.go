package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Interruption is the end of a command by a signal.
type Interruption struct {
	Signal   os.Signal
	Progress string // what was done until then, if the command tells
}

// Error implements error.
func (i *Interruption) Error() string {
	text := "interrupted"
	if i.Signal == syscall.SIGTERM {
		text = "terminated"
	}
	if i.Progress != "" {
		text += ": " + i.Progress
	}
	return text
}

// code is the exit code that shells give to a program which such a signal has ended: 130 after Ctrl-C, 143 after
// SIGTERM.
func (i *Interruption) code() int {
	n, _ := i.Signal.(syscall.Signal)
	return 128 + int(n)
}

// Interrupts are the Ctrl-C of a context: signals, and keys of an editor.
type Interrupts struct {
	mu      sync.Mutex
	take    func() // takes a Ctrl-C; nil: a signal ends the command
	pending bool   // there was a key, and nobody to take it
}

type interruptsKey struct{}

// InterruptsOf returns those of ctx, or new ones where nobody watches signals.
func InterruptsOf(ctx context.Context) *Interrupts {
	if i, ok := ctx.Value(interruptsKey{}).(*Interrupts); ok {
		return i
	}
	return new(Interrupts)
}

// taken gives a Ctrl-C to who wants it, and reports whether somebody does.
func (i *Interrupts) taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.take == nil {
		return false
	}
	i.take()
	return true
}

// Key gives a Ctrl-C that came as a key to who wants it, or to the next one who will.
func (i *Interrupts) Key() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending = i.take == nil; !i.pending {
		i.take()
	}
}

// Left reports whether a key is left that nobody took, and forgets it.
func (i *Interrupts) Left() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.pending
	i.pending = false
	return left
}

// TakeInterrupts has Ctrl-C call f instead of ending the command, until release is called.
func TakeInterrupts(ctx context.Context, f func()) (release func()) {
	i := InterruptsOf(ctx)
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

// watchSignals returns a context that Ctrl-C and SIGTERM cancel, with an [Interruption] as the cause, and what ends the
// watching. A second signal ends a command that is slow to stop. [TakeInterrupts] is for a command that goes on.
//
// A closed pipe does not end the process: the write fails, and the command ends in order.
func watchSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	pipes := make(chan os.Signal, 1) // nobody reads it: that it is there is what counts
	signal.Notify(pipes, syscall.SIGPIPE)
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	own := new(Interrupts)
	go func() {
		defer close(done)
		defer signal.Stop(stops)
		for {
			select {
			case s := <-stops:
				if s == os.Interrupt && own.taken() {
					continue
				}
				cancel(&Interruption{Signal: s})
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
