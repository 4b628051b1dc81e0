// Package remote runs the large model of a measurement in this process, behind a link: over our protocol as a [Stage],
// or over HTTP as a [Web].
package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/qlog"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// StageOptions describe the way to the cloud, and how fast the cloud is.
type StageOptions struct {
	RTT        time.Duration    // round trip, half of it each way
	Loss       float64          // of packets, each way
	Traces     []string         // recorded round trips or capacities: files in the formats of package link
	Seed       uint64           // of what chance decides
	AnswerTime time.Duration    // least time of an answer of the large model
	Upstream   *engine.Upstream // asked over the link in place of the large model, by its own clock, if given
	QLog       *qlog.Folder     // takes files about the connections, of both sides; nil: there are none
	// texts like those that will travel, to train a dictionary on that both sides have; nil means none
	Typical [][]int32
}

// Stage is the cloud in this process: the large model, its gateway on loopback, and an emulated link to it.
type Stage struct {
	edge     *engine.Engine
	rtt      time.Duration
	attempts int // to connect
	service  *engine.Service
	upstream *engine.Upstream // nil: the service is asked
	qlog     *qlog.Folder
	link     *link.Link
	relay    Spawned
	pin      [32]byte
	gateway  Spawned

	dictionaries []netproto.Dictionary
}

// Spawned is something that runs until it is stopped.
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

// Stop waits for the end.
func (t Spawned) Stop() error {
	t.cancel()
	return <-t.done
}

// NewStage starts it. Close it before the engines.
func NewStage(edge, large *engine.Engine, o StageOptions) (*Stage, error) {
	service, err := large.Serve(engine.ServeOptions{
		Slots: 32 * large.Context(), AnswerTime: o.AnswerTime,
		Lookup: -1,   // a call for each question, as in the paper's system
		Apart:  true, // no measurement profits from the one before
	})
	if err != nil {
		return nil, err
	}
	s := &Stage{edge: edge, rtt: o.RTT, attempts: 1, service: service, upstream: o.Upstream, qlog: o.QLog}
	if o.Loss > 0 || len(o.Traces) > 0 {
		s.attempts = maxAttempts
	}
	if err := s.start(o); err != nil {
		service.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) start(o StageOptions) error {
	if err := s.train(o.Typical); err != nil {
		return err
	}
	front := s.service.Gateway
	if s.upstream != nil {
		front = s.upstream.Gateway
	}
	g, err := front(engine.GatewayOptions{Dictionaries: s.dictionaries, MessageTimeout: s.patience(), QLog: s.qlog})
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

// patience is how long a connection or a message may take over the link.
func (s *Stage) patience() time.Duration { return 5*time.Second + 4*s.rtt }

// train makes a dictionary.
func (s *Stage) train(typical [][]int32) error {
	if len(typical) == 0 {
		return nil
	}
	id, err := s.edge.Identity()
	if err != nil {
		return err
	}
	d, err := netproto.TrainDictionary(1, id.Vocab, typical)
	s.dictionaries = []netproto.Dictionary{d}
	return err
}

// Close ends gateway, link and service and waits for them.
func (s *Stage) Close() error {
	err := errors.Join(s.gateway.Stop(), s.relay.Stop()) // the link last: it carries the goodbyes
	s.service.Close()
	return err
}

// Link is the way to the gateway, to be disturbed.
func (s *Stage) Link() *link.Link { return s.link }

// Direct is the large model without gateway and link, at the same pace.
func (s *Stage) Direct() draft.Cloud { return s.service.Local(1 << 63) }

// Verifies returns why the large model cannot say of each token of the small one whether it is its choice; nil where it
// can.
func (s *Stage) Verifies(ctx context.Context) error {
	r, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verifies(ctx, true, terms.Sampling{})
}

// Dial connects a device through the link. It waits for as long as that takes over a long link.
func (s *Stage) Dial(ctx context.Context, _ int) (draft.Cloud, func(), error) {
	r, err := s.connect(ctx)
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

// maxAttempts is how often a device tries to connect over a link that loses packets: with each packet of a handshake
// that is lost, QUIC waits twice as long before it sends it again.
const maxAttempts = 5

// connect connects a device.
func (s *Stage) connect(ctx context.Context) (r *engine.Remote, err error) {
	for range s.attempts {
		if r, err = s.try(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

// try is one attempt.
func (s *Stage) try(ctx context.Context) (*engine.Remote, error) {
	r, err := s.edge.Dial(ctx, s.link.Addr().String(), engine.DialOptions{
		Pin: s.pin, Dictionaries: s.dictionaries, ConnectTimeout: s.patience(), QLog: s.qlog,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the gateway over the emulated link: %w", err)
	}
	return r, nil
}
