package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// LinkOptions configure [Link]. A zero value leaves out the part that it configures, unless the field is required.
type LinkOptions struct {
	RTT    time.Duration // round trip, half of it each way
	Loss   float64       // of packets, each way
	Traces []string      // recorded round trips or capacities: files in the formats of package link
	Seed   uint64        // of all random events
	Model  time.Duration // simulated time of the model for a question

	Tokens   []int         // new tokens of each ask: one measurement for each of these numbers
	Asks     int           // per measurement; at least 1 if there are Tokens
	AskRate  float64       // asks per second, due at times that do not depend on answers; above 0
	Connects int           // connections of each kind
	Outages  int           // number of outages
	Outage   time.Duration // duration of an outage; above 0 if there are Outages

	Progress func(done, of int) // may be nil; counts asks of Tokens, connections and outages
}

// LinkReport is one result of [Link]. Its JSON format is stable. There is no model, and the device, the link and the
// gateway are in one process.
type LinkReport struct {
	Part    string       `json:"part"` // asks, connect or outage
	RTTMS   float64      `json:"rtt_ms"`
	Loss    float64      `json:"loss"`
	ModelMS float64      `json:"model_ms"`
	Asks    *LinkAsks    `json:"asks,omitempty"`
	Connect *LinkConnect `json:"connect,omitempty"`
	Outage  *LinkOutage  `json:"outage,omitempty"`
	Quiet   result.Quiet `json:"machine_quiet"`
}

// LinkAsks is the result for asks of one size. Times are from when an ask was due until its answer arrived.
type LinkAsks struct {
	Tokens    int            `json:"tokens"` // new in each ask
	PerSecond float64        `json:"asks_per_second"`
	Answers   int            `json:"answers"`
	Errors    int            `json:"errors"`
	Latency   result.Latency `json:"latency_ms"`
	Late      result.Latency `json:"late_ms"` // of that, until the ask was made: the delay of this machine
	// calculated: round trip and model; absent with traces
	Expected    *float64 `json:"expected_ms,omitempty"`
	PayloadUp   float64  `json:"payload_bytes_up_per_ask"`
	PayloadDown float64  `json:"payload_bytes_down_per_ask"`
	WireUp      float64  `json:"wire_bytes_up_per_ask"` // with QUIC, UDP and IP, acknowledgements and retransmissions
	WireDown    float64  `json:"wire_bytes_down_per_ask"`
	PacketsUp   float64  `json:"packets_up_per_ask"`
	PacketsDown float64  `json:"packets_down_per_ask"`
	SamplesNS   []int64  `json:"samples_ns"` // in the order in which the asks were due
}

// LinkConnect has the times of connecting, calculated from round trips and measured.
type LinkConnect struct {
	Connections   int            `json:"connections"`           // of each kind
	Early         int            `json:"early"`                 // of the resumed ones, with 0-RTT
	Connected     result.Latency `json:"connected_ms"`          // a new connection: until the gateway's Welcome
	First         result.Latency `json:"first_answer_ms"`       // a new connection: until the first answer
	Resumed       result.Latency `json:"resumed_ms"`            // a resumed one: until the first answer
	ConnectedNS   []int64        `json:"connected_ns"`          // the samples of these
	FirstNS       []int64        `json:"first_answer_ns"`       //
	ResumedNS     []int64        `json:"resumed_ns"`            //
	ExpectedHello float64        `json:"expected_connected_ms"` // two round trips: the handshake and the Hello
	ExpectedFirst float64        `json:"expected_first_ms"`     // three round trips: these and the ask; and the model
	ExpectedEarly float64        `json:"expected_resumed_ms"`   // one round trip, and the model
}

// LinkOutage has the times from the end of an outage until an answer arrives.
type LinkOutage struct {
	Outages   int            `json:"outages"`
	OutageMS  float64        `json:"outage_ms"`
	Recovery  result.Latency `json:"recovery_ms"` // from the end of the outage until the first answer
	SamplesNS []int64        `json:"samples_ns"`
	Lost      int            `json:"asks_lost"`        // without an answer
	Expected  float64        `json:"expected_most_ms"` // until the next ask is due, a round trip, and the model
}

// linkBench is a gateway with an emulated link before it.
type linkBench struct {
	o     LinkOptions
	g     localGateway // its address is that of the link
	l     *link.Link
	relay remote.Spawned
	stop  func()
	done  int
	of    int
}

// headerBytes is the size of the IPv4 and UDP headers of a datagram.
const headerBytes = 28

// Link measures only the path of asks and answers: protocol, QUIC and an emulated link, without models. It reports each
// part when it is finished.
func Link(ctx context.Context, o LinkOptions, report func(LinkReport) error) error {
	b, err := openLinkBench(o)
	if err != nil {
		return err
	}
	parts := []func(context.Context, *LinkReport) error{}
	for _, tokens := range o.Tokens {
		parts = append(parts, func(ctx context.Context, r *LinkReport) error { return b.measureAsks(ctx, r, tokens) })
	}
	if o.Connects > 0 {
		parts = append(parts, b.measureConnections)
	}
	if o.Outages > 0 {
		parts = append(parts, b.measureOutages)
	}
	for _, part := range parts {
		r := LinkReport{
			RTTMS: result.Milliseconds(o.RTT), Loss: o.Loss, ModelMS: result.Milliseconds(o.Model),
		}
		watched := result.WatchMachine()
		if err = part(ctx, &r); err != nil {
			break
		}
		r.Quiet = watched.End()
		if err = report(r); err != nil {
			break
		}
	}
	return errors.Join(err, b.closeBench())
}

func openLinkBench(o LinkOptions) (*linkBench, error) {
	b := &linkBench{o: o, of: len(o.Tokens)*o.Asks + 2*o.Connects + o.Outages}
	patience := 5*time.Second + 4*o.RTT
	g, stop, err := serveFake(nil, gateway.Options{MessageTimeout: patience}, fakeModel{delay: o.Model})
	if err != nil {
		return nil, err
	}
	options, err := remote.StageOptions{RTT: o.RTT, Loss: o.Loss, Traces: o.Traces, Seed: o.Seed}.Link(g.address)
	if err == nil {
		b.l, err = link.New(options)
	}
	if err != nil {
		stop()
		return nil, err
	}
	b.g, b.stop, b.relay = g, stop, remote.Spawn(b.l.Run)
	b.g.address = b.l.Addr().String()
	return b, nil
}

func (b *linkBench) closeBench() error {
	b.stop()
	return b.relay.Stop()
}

func (b *linkBench) reportProgress(n int) {
	if b.done += n; b.o.Progress != nil {
		b.o.Progress(b.done, b.of)
	}
}

func (b *linkBench) dialGateway(
	ctx context.Context, tickets tls.ClientSessionCache, lazy bool,
) (*client.Client, error) {
	o := b.g.clientOptions()
	o.Tickets, o.Lazy, o.ConnectTimeout = tickets, lazy, 5*time.Second+4*b.o.RTT
	return client.Dial(ctx, b.g.address, o)
}

// openSession connects, and asks once about the text that all later asks begin with.
func (b *linkBench) openSession(ctx context.Context) (*client.Client, *client.Session, []int32, error) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := extendText(nil, textBefore, rng)
	c, err := b.dialGateway(ctx, nil, false)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("connect to the gateway over the emulated link: %w", err)
	}
	s, err := c.NewSession(ctx)
	if err == nil {
		_, err = s.Ask(ctx, terms.Question{Context: text})
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, c.Close())
	}
	return c, s, text, nil
}

// timedAsks has the results of asks: each is due at its time, even if earlier ones are not answered.
type timedAsks struct {
	mu         sync.Mutex
	took, late []time.Duration // by the number of the ask; took is negative without an answer
	up, down   int
	failed     int
	answered   chan time.Time // times of answers, if set and not full
}

// runAsks asks n times, about text followed by this number of random tokens each, and waits for the answers.
func (t *timedAsks) runAsks(
	ctx context.Context, s *client.Session, text []int32, tokens, n int, perSecond float64, step func(),
) {
	t.took, t.late = make([]time.Duration, n), make([]time.Duration, n)
	rng := rand.New(rand.NewPCG(uint64(tokens), 5))
	start := time.Now().Add(20 * time.Millisecond)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var all sync.WaitGroup
	defer all.Wait() // after the lock is released, which asks need
	for k := range n {
		path := extendText(text, tokens, rng)
		due := start.Add(time.Duration(float64(k) / perSecond * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.mu.Lock()
			defer t.mu.Unlock()
			t.took, t.late = t.took[:k], t.late[:k]
			return
		}
		all.Go(func() {
			t.sendAsk(ctx, s, path, k, due)
			step()
		})
	}
}

func extendText(text []int32, tokens int, rng *rand.Rand) []int32 {
	path := append(make([]int32, 0, len(text)+tokens), text...)
	for range tokens {
		path = append(path, rng.Int32N(benchVocab))
	}
	return path
}

func (t *timedAsks) sendAsk(ctx context.Context, s *client.Session, path []int32, k int, due time.Time) {
	began := time.Now()
	a, err := s.Ask(ctx, terms.Question{Context: path, K: 1})
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.up += a.BytesUp
	t.down += a.BytesDown
	t.late[k] = began.Sub(due)
	if t.took[k] = now.Sub(due); err != nil {
		t.took[k] = -1
		t.failed++
		return
	}
	select {
	case t.answered <- now:
	default:
	}
}

func (b *linkBench) measureAsks(ctx context.Context, r *LinkReport, tokens int) error {
	c, s, text, err := b.openSession(ctx)
	if err != nil {
		return err
	}
	before := b.l.Stats()
	var t timedAsks
	t.runAsks(ctx, s, text, tokens, b.o.Asks, b.o.AskRate, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		b.reportProgress(1)
	})
	after := b.l.Stats()
	if err := errors.Join(context.Cause(ctx), c.Close()); err != nil {
		return err
	}
	n := float64(b.o.Asks)
	a := &LinkAsks{Tokens: tokens, PerSecond: b.o.AskRate, Answers: b.o.Asks - t.failed, Errors: t.failed,
		PayloadUp: float64(t.up) / n, PayloadDown: float64(t.down) / n, Late: result.Latencies(t.late)}
	for _, d := range t.took {
		if d >= 0 {
			a.SamplesNS = append(a.SamplesNS, int64(d))
		}
	}
	a.Latency = result.Latencies(a.SamplesNS)
	a.WireUp, a.PacketsUp = trafficPerAsk(after.Up, before.Up, b.o.Asks)
	a.WireDown, a.PacketsDown = trafficPerAsk(after.Down, before.Down, b.o.Asks)
	if len(b.o.Traces) == 0 {
		a.Expected = new(b.expectedTime(1))
	}
	r.Part, r.Asks = "asks", a
	return nil
}

// trafficPerAsk returns the traffic per ask in one direction of the link between two readings, including headers of IP
// and UDP.
func trafficPerAsk(after, before link.Counts, asks int) (bytes, packets float64) {
	packets = float64(after.Packets-before.Packets) / float64(asks)
	return float64(after.Bytes-before.Bytes)/float64(asks) + headerBytes*packets, packets
}

// expectedTime calculates the time of some round trips with the model's time, in milliseconds.
func (b *linkBench) expectedTime(trips float64) float64 {
	return trips*result.Milliseconds(b.o.RTT) + result.Milliseconds(b.o.Model)
}
