package engine

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// A large model, for programs that put the parts together through this package.
type (
	Cloud         = draft.Cloud
	CloudQuestion = draft.Question
	CloudAnswer   = draft.Answer
	CloudFinding  = terms.Finding
)

// Receiver is a [Cloud] that counts what it receives.
type Receiver interface{ Receipt() Receipt }

// Far is a large model that can be asked for many texts at once: a [Service] of this process, or a [Remote].
type Far interface {
	// Session returns the cloud for one text at a time, and a function that ends the session.
	Session(ctx context.Context) (Cloud, func(), error)
}

// Verifier is a large model that may be able to verify the tokens of a small one: a [Service], or a [Remote].
type Verifier interface {
	// Verifies returns an error if the model cannot verify tokens chosen by this sampling, or not by the judge with a
	// fingerprint; "": without one.
	Verifies(ctx context.Context, sampling terms.Sampling, judge string) error
}

// Session returns a cloud that needs no network, for one text at a time, and a function that ends the session. The
// error is [ErrClosed] once the service or its engine is closed.
func (s *Service) Session(context.Context) (Cloud, func(), error) {
	if s.Closed() || s.e.isClosed() {
		return nil, nil, wrapClosed(batch.ErrClosed)
	}
	session := s.sessions.Add(1)
	end := func() { s.Forget(context.Background(), session) } // fails only when closed: all is forgotten then
	return s.Local(session), end, nil
}

// Verifies implements [Verifier]. The built-in model can verify with any sampling.
func (s *Service) Verifies(_ context.Context, _ terms.Sampling, judge string) error {
	return netproto.CannotJudge(s.judge, judge)
}

// Fingerprint identifies the model: see [gguf.File.Fingerprint].
func (e *Engine) Fingerprint() (string, error) { return e.file.Fingerprint() }

// Name returns the general.name of the model's file; "" if it has none.
func (e *Engine) Name() string {
	name, _ := e.file.String("general.name") // for display only
	return name
}

// Model returns the name of the large model that the gateway reports; "" before the first connection.
func (r *Remote) Model() string { return r.Welcome().Model }

// Context returns the longest context that the gateway accepts, in tokens; 0 before the first connection.
func (r *Remote) Context() int { return r.Welcome().Context }
