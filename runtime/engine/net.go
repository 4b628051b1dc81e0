package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/pilotfish-ai/pilotfish/internal/errs"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/netproto/upstream"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// Options of the two sides of the network, for programs that put them together through this package.
type (
	Gateway        = gateway.Gateway
	GatewayOptions = gateway.Options
	GatewayToken   = gateway.Token
	DialOptions    = client.Options
	ServiceStats   = batch.Stats

	GatewayEvent        = gateway.Event
	GatewayTicketKey    = gateway.TicketKey
	UpstreamEngineStats = upstream.EngineStats
)

// Identity describes the meaning of the model's ids and its form of chats: see [netproto.Identity.Compare].
func (e *Engine) Identity() (netproto.Identity, error) {
	t, err := e.Tokenizer()
	if err != nil {
		return netproto.Identity{}, err
	}
	return identityOf(t), nil
}

func identityOf(t *tokenizer.Tokenizer) netproto.Identity {
	return netproto.Identity{Tokenizer: t.Hash(), Vocab: t.Used(), Template: t.ChatHash()}
}

// Gateway makes a QUIC server in front of the service.
func (s *Service) Gateway(o GatewayOptions) (*gateway.Gateway, error) {
	u, err := s.newUpstream()
	if err != nil {
		return nil, err
	}
	return gateway.New(o, u)
}

func (s *Service) newUpstream() (builtIn, error) {
	id, err := s.e.Identity()
	if err != nil {
		return builtIn{}, err
	}
	t, err := s.e.Tokenizer()
	if err != nil {
		return builtIn{}, err
	}
	return builtIn{s, gateway.Info{
		Model: s.e.Name(), Identity: id, MaxContext: s.e.o.Context, Audit: netproto.ExactAudit, Judge: s.judge,
		Ends: endsOf(t),
	}}, nil
}

// builtIn is a service as the upstream of a gateway.
type builtIn struct {
	s    *Service
	info gateway.Info
}

func (u builtIn) Info() gateway.Info { return u.info }

func (u builtIn) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	a, err := u.s.askPaced(ctx, q)
	return a.Reply, asBusyRefusal(err)
}

func (u builtIn) Next(ctx context.Context, q terms.Job) (int32, error) {
	token, err := u.s.decodeNext(ctx, q)
	return token, asBusyRefusal(err)
}

// asBusyRefusal turns the error of a question that was not computed for others into one that a gateway passes on.
func asBusyRefusal(err error) error {
	if errors.Is(err, batch.ErrShed) {
		return fmt.Errorf("%w: %w", netproto.Busy, err)
	}
	if late, ok := errors.AsType[*batch.Late](err); ok {
		return netproto.Refusal{Code: netproto.Busy, RetryAfter: late.After, Detail: late.Error()}
	}
	return err
}

// Warm implements [gateway.Warmer]. It keeps the keys and values, and discards the answer.
func (u builtIn) Warm(ctx context.Context, q terms.Job) error {
	q.Priority = terms.Background
	_, err := u.s.Ask(ctx, q)
	return asBusyRefusal(err)
}

func (u builtIn) Forget(session uint64) {
	// It fails only if the service is closed, which has already dropped everything.
	u.s.Service.Forget(context.Background(), session)
}

// Remote is a connection to a gateway. It may connect at first use.
type Remote struct{ *client.Client }

// Dial connects to the gateway at addr, "host:port". Identity is that of the engine.
func (e *Engine) Dial(ctx context.Context, addr string, o DialOptions) (*Remote, error) {
	var err error
	if o.Identity, err = e.Identity(); err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, addr, o)
	if err != nil {
		return nil, errs.EndedBy(ctx, err)
	}
	return &Remote{c}, nil
}

// Audit returns the kind of audit that the gateway's model supports: "exact" or "none"; "" before the first connection.
func (r *Remote) Audit() string {
	w := r.Welcome()
	if w == (netproto.Welcome{}) {
		return ""
	}
	return w.Audit.String()
}

// OtherTemplate reports whether the chat templates of edge and cloud differ, so that the large model reads a form of
// chat that it was not trained on; false before the first connection.
func (r *Remote) OtherTemplate() bool { return r.Welcome().OtherTemplate }

// Choices returns the number of most probable tokens from which the gateway's model can draw; 0 means all, or no
// connection yet.
func (r *Remote) Choices() int { return r.Welcome().Choices }

// Verifies implements [Verifier]. It connects if necessary, and waits for the connection until ctx ends. The error is
// netproto.CannotVerify if only another gateway or another engine can help.
func (r *Remote) Verifies(ctx context.Context, sampling terms.Sampling, judge string) error {
	w, err := r.Connect(ctx)
	if err != nil {
		return wrapClosed(errs.EndedBy(ctx, err))
	}
	return checkVerification(w, sampling, judge)
}

// CannotVerify is [Remote.Verifies] without waiting: nil before the first connection.
func (r *Remote) CannotVerify(sampling terms.Sampling, judge string) error {
	w := r.Welcome()
	if w == (netproto.Welcome{}) {
		return nil
	}
	return checkVerification(w, sampling, judge)
}

func checkVerification(w netproto.Welcome, sampling terms.Sampling, judge string) error {
	if err := w.Audit.CannotVerify(); err != nil {
		return err
	}
	if n := w.Choices; !sampling.Possible(n) {
		return fmt.Errorf("%w: at a temperature above 0 the gateway's engine gives its %d most probable tokens: "+
			"top-k must be 1 to %d", netproto.CannotVerify, n, n)
	}
	return netproto.CannotJudge(w.Judge, judge)
}

// Session returns the cloud for one text at a time, and a function that ends the session.
func (r *Remote) Session(ctx context.Context) (draft.Cloud, func(), error) {
	s, err := r.NewSession(ctx)
	if err != nil {
		return nil, nil, wrapClosed(errs.EndedBy(ctx, err))
	}
	return remoteCloud{s, r}, func() { s.Close() }, nil
}

// remoteCloud is a session of a client as a [draft.Cloud].
type remoteCloud struct {
	s *client.Session
	r *Remote
}

func (c remoteCloud) Ask(ctx context.Context, q draft.Question) (draft.Answer, error) {
	q.Ahead = min(q.Ahead, netproto.MaxAhead)
	a, err := c.s.Ask(ctx, q)
	return a, wrapClosed(err)
}

// Connected implements [draft.Connection].
func (c remoteCloud) Connected() bool { return c.r.Connected() }

// CannotVerify implements [draft.Verifier].
func (c remoteCloud) CannotVerify(s terms.Sampling, judge string) error {
	return c.r.CannotVerify(s, judge)
}

func (c remoteCloud) Receipt() Receipt {
	left := c.s.Left()
	if left == (client.Left{}) {
		return Receipt{}
	}
	return Receipt{Tokens: left.Tokens, Bytes: left.Bytes, To: c.r.Addr()}
}

func (c remoteCloud) Warm(ctx context.Context, text []int32) (bytesUp, bytesDown int, err error) {
	return c.s.Sync(ctx, text)
}

// NewGatewayLog returns a log with an Event method for [GatewayOptions]. Close the log after the gateway has ended.
func NewGatewayLog(to *slog.Logger) *gateway.Log { return gateway.NewLog(to) }

// CheckTokens returns an error if a gateway would refuse these access tokens.
func CheckTokens(tokens []GatewayToken) error { return gateway.CheckTokens(tokens) }

// NewCertificate makes a self-signed certificate for a gateway, and its private key, both PEM.
func NewCertificate(hosts ...string) (certificate, key []byte, err error) {
	return gateway.NewCertificate(hosts...)
}

// Errors of connecting to a gateway, for programs that put the parts together through this package.
type (
	ConnectError = client.ConnectError
	PinError     = client.PinError
)

// TooLate reports whether an answer is missing because it did not come before the deadline.
func TooLate(err error) bool {
	return errors.Is(err, draft.ErrDeadline) || errors.Is(err, netproto.TooLate)
}

// Remedy is the kind of change that makes a connection to a gateway possible. Each program words its own advice.
type Remedy int

// The remedies.
const (
	NoRemedy    Remedy = iota // nothing that is known
	NewPin                    // if the gateway has a new certificate: its fingerprint
	GivePin                   // the fingerprint of a certificate that no authority signs for
	RightHost                 // a name that exists
	RightSecret               // the gateway's access token
	SameFamily                // a small model with the vocabulary of the gateway's
	SameVersion               // one version of the program on both sides
	ReadRefusal               // what the gateway says itself
)

// RemedyFor returns the remedy for an error of connecting.
func RemedyFor(err error) Remedy {
	_, wrongPin := errors.AsType[*PinError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	code, _ := errors.AsType[netproto.Code](err)
	switch {
	case wrongPin:
		return NewPin
	case untrusted:
		return GivePin
	case unknown:
		return RightHost
	case code == netproto.WrongSecret:
		return RightSecret
	case code == netproto.WrongTokenizer:
		return SameFamily
	case code == netproto.WrongVersion:
		return SameVersion
	case code != netproto.NoReason:
		return ReadRefusal
	}
	return NoRemedy
}
