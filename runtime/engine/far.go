package engine

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// A large model as it is asked, for programs that put the parts together through this package.
type (
	Cloud         = draft.Cloud
	CloudQuestion = draft.Question
	CloudAnswer   = draft.Answer
	CloudFinding  = terms.Finding
)

// Receiver is a [Cloud] that counts what it was sent.
type Receiver interface{ Receipt() Receipt }

// Far is a large model that can be asked for many texts at once: a [Service] of this process, or a [Remote].
type Far interface {
	// Session returns the cloud for one text at a time, and what ends it.
	Session(ctx context.Context) (Cloud, func(), error)
}

// Verifier is a large model that knows whether it can say of each token of the small one if that is its choice: a
// [Service], or a [Remote].
type Verifier interface {
	// Verifies returns why it cannot, by choices that are made as sampling says, with or without scores; nil where it
	// can.
	Verifies(ctx context.Context, scores bool, sampling terms.Sampling) error
}

// Session returns a cloud that needs no network, for one text at a time, and what ends it. Once the service or its
// engine is closed, the error is [ErrClosed].
func (s *Service) Session(context.Context) (Cloud, func(), error) {
	if s.Closed() || s.e.closed() {
		return nil, nil, closedToo(batch.ErrClosed)
	}
	session := s.sessions.Add(1)
	end := func() { s.Forget(context.Background(), session) } // fails only when closed: all is forgotten then
	return s.Local(session), end, nil
}

// Verifies returns why what the small model says cannot be verified, by choices that are made as sampling says, with or
// without scores. The built-in model can always.
func (s *Service) Verifies(_ context.Context, scores bool, sampling terms.Sampling) error { return nil }

// Fingerprint tells the model from others: see [gguf.File.Fingerprint].
func (e *Engine) Fingerprint() (string, error) { return e.file.Fingerprint() }

// Name is the general.name of the model's file; "" where it has none.
func (e *Engine) Name() string {
	name, _ := e.file.String("general.name") // only for people
	return name
}

// Model is the name of the large model that the gateway gives; "" before the first connection.
func (r *Remote) Model() string { return r.c.Welcome().Model }

// Context is the longest context that the gateway takes, in tokens; 0 before the first connection.
func (r *Remote) Context() int { return r.c.Welcome().Limits.Context }
