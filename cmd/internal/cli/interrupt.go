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
	Progress string // the progress until then, if the command reports it
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

// exitCode returns the exit code that shells report for a program that this signal ended: 130 after Ctrl-C, 143 after
// SIGTERM.
func (i *Interruption) exitCode() int {
	n, _ := i.Signal.(syscall.Signal)
	return 128 + int(n)
}

// Interrupts handles Ctrl-C in a context: signals, and keys of an editor.
type Interrupts struct {
	mu      sync.Mutex
	handler func() // called after Ctrl-C; nil: a signal ends the command
	pending bool   // a key was pressed while handler was nil
}

type interruptsKey struct{}

// InterruptsOf returns the Interrupts of ctx, or new ones if ctx has none.
func InterruptsOf(ctx context.Context) *Interrupts {
	if i, ok := ctx.Value(interruptsKey{}).(*Interrupts); ok {
		return i
	}
	return new(Interrupts)
}

func (i *Interrupts) callHandler() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handler == nil {
		return false
	}
	i.handler()
	return true
}

// Key handles Ctrl-C that was read as a key: it calls the current handler, or else the next one that is set.
func (i *Interrupts) Key() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending = i.handler == nil; !i.pending {
		i.handler()
	}
}

// Left reports whether a key was pressed without a handler, and clears it.
func (i *Interrupts) Left() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := i.pending
	i.pending = false
	return left
}

// TakeInterrupts makes Ctrl-C call f instead of ending the command, until release is called.
func TakeInterrupts(ctx context.Context, f func()) (release func()) {
	i := InterruptsOf(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handler = f; i.pending {
		i.pending = false
		f()
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.handler = nil
	}
}

// watchSignals returns a context that Ctrl-C and SIGTERM cancel, with an [Interruption] as the cause, and a function
// that stops watching. A second signal ends a command that is slow to stop. [TakeInterrupts] is for commands that
// continue after Ctrl-C.
//
// A closed pipe does not end the process: the write fails, and the command returns its error.
func watchSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	pipes := make(chan os.Signal, 1) // never read: Notify alone changes what SIGPIPE does
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
				if s == os.Interrupt && own.callHandler() {
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
