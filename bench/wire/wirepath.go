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

// LinkReport is what [Link] timed: asks of one size, connections of one kind, or answers after outages. Its JSON format
// is stable; fields that do not apply are absent. There is no model, and the device, the link and the gateway are in
// one process.
type LinkReport struct {
	Timed    string       `json:"timed"` // in words: ask with 8 new tokens, until its answer
	RTTMS    float64      `json:"rtt_ms"`
	Loss     float64      `json:"loss"`
	ModelMS  float64      `json:"model_ms"`
	Rate     float64      `json:"rate,omitempty"`      // asks per second
	OutageMS float64      `json:"outage_ms,omitempty"` // duration of each outage
	Answers  int          `json:"answers"`             // or outages; or connections, resumed ones with 0-RTT
	Errors   int          `json:"errors"`              // asks without an answer
	Time     result.Times `json:"ms"`                  // of an ask: from when it was due
	// of that, until the ask was made: the delay of this machine
	Late *result.Times `json:"late_ms,omitempty"`
	// calculated: round trips and model, and nothing is faster; after an outage the longest time. Absent with traces
	Bound     *float64     `json:"bound_ms,omitempty"`
	BytesUp   int          `json:"bytes_up,omitempty"`   // payload of all asks
	BytesDown int          `json:"bytes_down,omitempty"` // and of their answers
	Wire      *Traffic     `json:"wire,omitempty"`       // of all asks
	SamplesNS []int64      `json:"samples_ns"`           // in the order in which the asks were due
	Quiet     result.Quiet `json:"machine_quiet"`
}

// Traffic is what a link carried, with QUIC, UDP and IP, acknowledgements and retransmissions.
type Traffic struct {
	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`
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
	parts := []func(context.Context) ([]LinkReport, error){}
	for _, tokens := range o.Tokens {
		parts = append(parts, func(ctx context.Context) ([]LinkReport, error) { return b.measureAsks(ctx, tokens) })
	}
	if o.Connects > 0 {
		parts = append(parts, b.measureConnections)
	}
	if o.Outages > 0 {
		parts = append(parts, b.measureOutages)
	}
	for _, part := range parts {
		if err = b.reportPart(ctx, part, report); err != nil {
			break
		}
	}
	return errors.Join(err, b.closeBench())
}

// reportPart measures a part, and reports what it timed.
func (b *linkBench) reportPart(ctx context.Context, part func(context.Context) ([]LinkReport, error),
	report func(LinkReport) error) error {
	watched := result.WatchMachine()
	all, err := part(ctx)
	if err != nil {
		return err
	}
	quiet := watched.End()
	for _, r := range all {
		r.RTTMS, r.Loss, r.ModelMS = result.Milliseconds(b.o.RTT), b.o.Loss, result.Milliseconds(b.o.Model)
		r.Time, r.Quiet = result.Summarise(r.SamplesNS), quiet
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
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

func (b *linkBench) measureAsks(ctx context.Context, tokens int) ([]LinkReport, error) {
	c, s, text, err := b.openSession(ctx)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	r := LinkReport{Timed: fmt.Sprintf("ask with %d new tokens, until its answer", tokens), Rate: b.o.AskRate,
		Answers: b.o.Asks - t.failed, Errors: t.failed, BytesUp: t.up, BytesDown: t.down,
		Late: new(result.Summarise(t.late)), Wire: new(Traffic)}
	for _, d := range t.took {
		if d >= 0 {
			r.SamplesNS = append(r.SamplesNS, int64(d))
		}
	}
	r.Wire.BytesUp, r.Wire.BytesDown = bytesBetween(before.Up, after.Up), bytesBetween(before.Down, after.Down)
	if len(b.o.Traces) == 0 {
		r.Bound = new(b.expectedTime(1))
	}
	return []LinkReport{r}, nil
}

// bytesBetween returns the bytes in one direction of the link between two readings, including headers of IP and UDP.
func bytesBetween(before, after link.Counts) int64 {
	return after.Bytes - before.Bytes + headerBytes*(after.Packets-before.Packets)
}

// expectedTime calculates the time of some round trips with the model's time, in milliseconds.
func (b *linkBench) expectedTime(trips float64) float64 {
	return trips*result.Milliseconds(b.o.RTT) + result.Milliseconds(b.o.Model)
}
