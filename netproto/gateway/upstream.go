package gateway

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Upstream is the large model. The gateway calls it from many goroutines. If Info().Parallel is set, it is the maximum
// number of concurrent calls of Ask, Warm and Next, of which one device has at most half.
type Upstream interface {
	// Ask returns the token that follows a context. ctx is cancelled when the answer is no longer needed. The same
	// question has the same answer. The k best tokens and the audit are the model's; the token is drawn from its
	// probabilities by q.Sampling. An error that wraps a netproto.Code reaches the client with that code, any other
	// error as netproto.Failed; its text is not sent.
	Ask(ctx context.Context, q terms.Job) (terms.Reply, error)

	// Forget releases what is stored for a session. There will be no more calls for the session, and none is under way.
	Forget(session uint64)

	// Info describes the model. It is called once, by New.
	Info() Info
}

// Warmer is an upstream that can prefill tokens that clients stream early. For other upstreams the gateway only stores
// them.
type Warmer interface {
	// Warm prefills a context for a later Ask about a longer one, unless asks are waiting: then the error wraps
	// netproto.Busy. Of q only Device, Session, Domain, Context and Base are set.
	Warm(ctx context.Context, q terms.Job) error
}

// Decoder is an upstream that can decode ahead in the background. With other upstreams there are no answers ahead.
type Decoder interface {
	// Next returns the token that follows a context, as Ask does, unless asks are waiting for the upstream: then the
	// error wraps netproto.Busy. Of q neither K nor AuditFrom nor Verify is set. Info().Parallel also limits calls of
	// Next.
	Next(ctx context.Context, q terms.Job) (int32, error)
}

// Info describes an upstream.
type Info struct {
	Model      string            // for display
	Identity   netproto.Identity // what its tokens mean; a zero digest is not compared with the clients'
	MaxContext int               // tokens; 0 means 32768
	// maximum number of concurrent asks of all devices, which the gateway schedules fairly; 0: unlimited, for an
	// upstream that shares its work fairly between devices itself
	Parallel int
	Audit    netproto.Audit // the kind of audit in answers
	Choices  int            // maximum number of tokens to draw from, see netproto.Welcome; 0 means no limit
	Judge    string         // fingerprint of its judge; "" for none
	Ends     []int32        // tokens that end a text: nothing is decoded after them
}
