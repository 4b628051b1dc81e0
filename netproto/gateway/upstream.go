package gateway

import (
	"context"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// Upstream is the large model. The gateway calls it from many goroutines at once, and it answers each when it
// can. If Info().Parallel is set, at most so many calls are in Ask, Warm and Next, half of those for one device alone.
type Upstream interface {
	// Ask returns the token that follows a context. A cancelled ctx means that nobody wants the answer any more. The
	// same question has the same answer. The k best tokens and the audit are of the model; the token is drawn from its
	// probabilities by q.Sampling. An error that wraps a netproto.Code reaches the client under that code, any
	// other one as netproto.Failed; its text stays in the gateway.
	Ask(ctx context.Context, q terms.Job) (terms.Reply, error)

	// Forget says that a session will not be asked about any more: what is kept for it can go. No call for that session
	// is under way then.
	Forget(session uint64)

	// Info describes the model. It is called once, by New.
	Info() Info
}

// Warmer is an upstream that makes use of tokens that clients stream early. Without it they are only stored.
type Warmer interface {
	// Warm computes what an Ask about a longer context will need, unless asks are waiting: an error that wraps
	// netproto.Busy says that it was left. Of q only Device, Session, Domain, Context and Base are set.
	Warm(ctx context.Context, q terms.Job) error
}

// Decoder is an upstream that decodes on while nobody waits for it. Without it there are no answers ahead.
type Decoder interface {
	// Next returns the token that follows a context, as Ask does, unless others wait for the upstream: an error that
	// wraps netproto.Busy says that it was left. Of q neither K nor AuditFrom nor Verify is set. Info().Parallel bounds
	// it as it bounds Ask.
	Next(ctx context.Context, q terms.Job) (int32, error)
}

// Info describes an upstream.
type Info struct {
	Model      string            // for people
	Identity   netproto.Identity // what its tokens mean; a zero digest is not compared with the clients'
	MaxContext int               // tokens; 0 means 32768
	// asks of all devices that it works on at a time, for which the gateway lets devices take turns; 0: it takes any
	// number, and shares its work fairly between devices itself
	Parallel int
	Audit    netproto.Audit // the kind that Answer has
	Choices  int            // most tokens that it can draw from, see netproto.Welcome; 0 means any
	Ends     []int32        // tokens that end a text: nothing is decoded behind them
}
