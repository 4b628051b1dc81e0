package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/internal/files"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// Errors of use at the wrong time.
var (
	// ErrClosed is returned after Close of an engine, or of one of its sessions, services or connections, was called:
	// before the call or during it.
	ErrClosed = gguf.ErrClosed
	// ErrBusy is returned if a second text is begun in a session before the first is over.
	ErrBusy = errors.New("the session is in use by another goroutine: " +
		"finish its text first, or open a session for each goroutine")
	// ErrContext is returned if a prompt leaves no room for an answer in the context.
	ErrContext = transformer.ErrContext
)

// lifetime lasts until Close of an engine. Every use of weights, device memory or the file takes a lease first.
type lifetime struct {
	uses    files.Lease
	closing context.Context // ends when Close is called, with ErrClosed
	end     context.CancelCauseFunc
	close   func() error  // once
	turn    chan struct{} // holds one value: the caller that receives it holds the model
}

func (l *lifetime) startLifetime(release func() error) {
	l.closing, l.end = context.WithCancelCause(context.Background())
	l.turn = make(chan struct{}, 1)
	l.turn <- struct{}{}
	l.close = sync.OnceValue(func() error {
		l.end(ErrClosed)
		l.uses.Close()
		return release()
	})
}

// Close ends the engine: it stops the workers and unmaps the file. It waits for a forward call that runs; a text that
// is being generated then ends with [ErrClosed] at its next token, and every later call gives this error. Close may be
// called from any goroutine, also from within a loop over [Session.Generate], and more than once.
func (e *Engine) Close() error { return e.close() }

func (l *lifetime) keepOpen() (done func(), err error) {
	if !l.uses.Take() {
		return nil, ErrClosed
	}
	return l.uses.Give, nil
}

func (l *lifetime) isClosed() bool { return l.closing.Err() != nil }

// bindContext returns a context that also ends, with ErrClosed, when Close is called. The caller must call release.
func (l *lifetime) bindContext(ctx context.Context) (bound context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// acquireModel waits until the model may be used, and keeps it until done is called.
func (l *lifetime) acquireModel(ctx context.Context) (done func(), err error) {
	give, err := l.keepOpen()
	if err != nil {
		return nil, err
	}
	select {
	case <-l.turn:
		if !l.isClosed() {
			return func() { l.turn <- struct{}{}; give() }, nil
		}
		l.turn <- struct{}{} // for the next waiting caller
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	give()
	return nil, err
}

// withFileName adds the name of the model file to an error, unless the error is only that ctx ended: in that case
// errors.Is finds both its cause and [context.Canceled] or [context.DeadlineExceeded].
func (e *Engine) withFileName(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if why := context.Cause(ctx); why != nil && !errors.Is(err, ErrClosed) && errors.Is(err, why) {
		return errs.EndedBy(ctx, err)
	}
	return fmt.Errorf("%s: %w", e.path, err)
}

// Ask waits for the answer to q: see [batch.Service.Ask]. After [Engine.Close] the error is [ErrClosed].
func (s *Service) Ask(ctx context.Context, q terms.Job) (batch.Answer, error) {
	if s.e.isClosed() {
		return batch.Answer{}, s.e.withFileName(ctx, ErrClosed)
	}
	if err := s.e.checkTokens("context", q.Context); err != nil { // it would fail a step of other questions, too
		return batch.Answer{}, s.e.withFileName(ctx, err)
	}
	a, err := s.Service.Ask(ctx, q)
	return a, wrapClosed(errs.EndedBy(ctx, err))
}

// wrapClosed wraps the error of a closed service or connection so that it is an [ErrClosed] as well.
func wrapClosed(err error) error {
	if errors.Is(err, batch.ErrClosed) || errors.Is(err, client.ErrClosed) {
		return errs.Also(err, ErrClosed)
	}
	return err
}
