// Package remote runs the large model of a measurement in this process, at the other end of an emulated link: with our
// protocol as a [Stage], or with HTTP as a [Web].
package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// StageOptions describe the link to the cloud, and the speed of the cloud.
type StageOptions struct {
	RTT        time.Duration    // round trip, half of it each way
	Loss       float64          // of packets, each way
	Traces     []string         // recorded round trips or capacities: files in the formats of package link
	Seed       uint64           // of all random events
	AnswerTime time.Duration    // minimum time of an answer of the large model
	Judge      *router.Judge    // of the large model; nil: none
	Upstream   *engine.Upstream // asked over the link instead of the large model, with its own timing, if set
	// typical texts, to train a dictionary that both sides use; nil means none
	Typical [][]int32
}

// Stage is the cloud in this process: the large model, its gateway on loopback, and an emulated link to it.
type Stage struct {
	edge     *engine.Engine
	rtt      time.Duration
	attempts int // number of attempts to connect
	service  *engine.Service
	upstream *engine.Upstream // nil: the service answers
	link     *link.Link
	relay    Spawned
	pin      [32]byte
	gateway  Spawned

	dictionary netproto.Dictionary
}

// Spawned is a task that runs until it is stopped.
type Spawned struct {
	cancel context.CancelFunc
	done   chan error
}

// Spawn starts run.
func Spawn(run func(context.Context) error) Spawned {
	ctx, cancel := context.WithCancel(context.Background())
	t := Spawned{cancel, make(chan error, 1)}
	go func() { t.done <- run(ctx) }()
	return t
}

// Stop stops the task and waits for its end.
func (t Spawned) Stop() error {
	t.cancel()
	return <-t.done
}

// NewStage starts a stage. Close it before the engines.
func NewStage(edge, large *engine.Engine, o StageOptions) (*Stage, error) {
	service, err := large.Serve(engine.ServeOptions{
		Slots: 32 * large.Context(), AnswerTime: o.AnswerTime, Judge: o.Judge,
		Lookup: -1,   // one pass per question, as in the paper's system
		Apart:  true, // so that no measurement profits from the previous one
	})
	if err != nil {
		return nil, err
	}
	s := &Stage{edge: edge, rtt: o.RTT, attempts: 1, service: service, upstream: o.Upstream}
	if o.Loss > 0 || len(o.Traces) > 0 {
		s.attempts = maxAttempts
	}
	if err := s.startGatewayAndLink(o); err != nil {
		service.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) startGatewayAndLink(o StageOptions) error {
	if err := s.trainDictionary(o.Typical); err != nil {
		return err
	}
	front := s.service.Gateway
	if s.upstream != nil {
		front = s.upstream.Gateway
	}
	g, err := front(engine.GatewayOptions{Dictionary: s.dictionary, MessageTimeout: s.linkTimeout()})
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	options, err := o.Link(socket.LocalAddr().String())
	if err == nil {
		s.link, err = link.New(options)
	}
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	s.pin = g.Fingerprint()
	s.gateway = Spawn(func(ctx context.Context) error { return errors.Join(g.Serve(ctx, socket), socket.Close()) })
	s.relay = Spawn(s.link.Run)
	return nil
}

// Link returns the options of the link to a target.
func (o StageOptions) Link(target string) (link.Options, error) {
	way := link.Direction{Delay: o.RTT / 2, Loss: o.Loss}
	options := link.Options{Target: target, Seed: o.Seed, Up: way, Down: way}
	for _, path := range o.Traces {
		if err := options.AddTrace(path); err != nil {
			return options, err
		}
	}
	return options, nil
}

// linkTimeout returns how long a connection or a message may take over the link.
func (s *Stage) linkTimeout() time.Duration { return 5*time.Second + 4*s.rtt }

func (s *Stage) trainDictionary(typical [][]int32) error {
	if len(typical) == 0 {
		return nil
	}
	id, err := s.edge.Identity()
	if err != nil {
		return err
	}
	s.dictionary, err = netproto.TrainDictionary(1, id.Vocab, typical)
	return err
}

// Close ends gateway, link and service and waits for them.
func (s *Stage) Close() error {
	err := errors.Join(s.gateway.Stop(), s.relay.Stop()) // the link last, since the closing messages use it
	s.service.Close()
	return err
}

// Link returns the link to the gateway, for disturbances.
func (s *Stage) Link() *link.Link { return s.link }

// Direct returns the large model without gateway and link, at the same pace.
func (s *Stage) Direct() draft.Cloud { return s.service.Local(1 << 63) }

// Verifies returns why the large model cannot verify each token of the small one, or not by the judge with a
// fingerprint; nil if it can.
func (s *Stage) Verifies(ctx context.Context, judge string) error {
	r, err := s.connectWithRetries(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verifies(ctx, terms.Sampling{}, judge)
}

// Dial connects a device through the link. It waits for as long as this takes over a long link.
func (s *Stage) Dial(ctx context.Context, _ int) (draft.Cloud, func(), error) {
	r, err := s.connectWithRetries(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, end, err := r.Session(ctx)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return c, func() { end(); r.Close() }, nil
}

// maxAttempts is the maximum number of attempts to connect over a lossy link: after each lost packet of a handshake
// QUIC doubles the time before it sends it again.
const maxAttempts = 5

func (s *Stage) connectWithRetries(ctx context.Context) (*engine.Remote, error) {
	return retryUpTo(ctx, s.attempts, s.dialOnce)
}

// retryUpTo makes up to n attempts, until one succeeds or ctx ends.
func retryUpTo[T any](ctx context.Context, n int, try func(context.Context) (T, error)) (got T, err error) {
	for range n {
		if got, err = try(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return got, err
}

func (s *Stage) dialOnce(ctx context.Context) (*engine.Remote, error) {
	r, err := s.edge.Dial(ctx, s.link.Addr().String(), engine.DialOptions{
		Pin: s.pin, Dictionary: s.dictionary, ConnectTimeout: s.linkTimeout(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the gateway over the emulated link: %w", err)
	}
	return r, nil
}
