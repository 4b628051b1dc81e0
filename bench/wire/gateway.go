// Package wire measures protocol, gateway and link, without models: how many devices a gateway can serve, and how long
// a question takes over a link.
package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/cputime"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// GatewayOptions configure [Gateway].
type GatewayOptions struct {
	Devices  int           // at least 1, each with a connection of its own
	Rate     float64       // questions per second of each device, above 0
	Model    time.Duration // simulated time of the model for a question
	Duration time.Duration // of the measurement, above 0
	Abreast  int           // concurrent questions in the model; 0 means 4096
	Progress func(done, of int)
}

// GatewayReport is the result of [Gateway]. Its JSON format is stable. The devices run in the process of the gateway,
// and packets use UDP on loopback: times and CPU are those of both sides.
type GatewayReport struct {
	Devices int     `json:"devices"`
	Rate    float64 `json:"rate"` // questions per second of one device
	ModelMS float64 `json:"model_ms"`
	Seconds float64 `json:"seconds"`
	Cores   int     `json:"cores"`   // available to the process
	Asks    int     `json:"asks"`    // due
	Answers int     `json:"answers"` // received
	// over the time until the last answer, and over seconds at least: an overloaded gateway answers after that time
	PerSecond float64        `json:"answers_per_second"`
	Refusals  map[string]int `json:"refusals"`
	Errors    int            `json:"errors"` // asks with neither
	// from when a question was due until its answer arrived
	Time result.Times `json:"ms"`
	// of that, in the gateway: until the answer was written
	InGateway result.Times  `json:"in_gateway_ms,omitzero"`
	ConnectMS float64       `json:"connect_ms"`       // until all devices had connected and asked once
	CPU       time.Duration `json:"cpu_ms,omitempty"` // of the whole process; absent if the system does not report it
	BytesUp   int           `json:"bytes_up"`         // payload of all asks
	BytesDown int           `json:"bytes_down"`
	Memory    int64         `json:"memory_bytes"` // of all connections, both sides, heap and stacks
	// Jain's index of the shares of its questions that each device got answered: 1 if all are equal, 1/devices if one
	// got all. For two devices or more
	AnswersJain *float64 `json:"answers_jain,omitempty"`
	P99Jain     *float64 `json:"p99_jain,omitempty"` // Jain's index of the 99th percentiles of the devices' times
	// histogram of ms, in nanoseconds: HdrHistogram V2, compressed, in base64
	Histogram string       `json:"latency_histogram_ns,omitempty"`
	Quiet     result.Quiet `json:"machine_quiet"`
}

const (
	benchVocab = 151936 // ids of the questions; that of Qwen2.5
	textBefore = 128    // tokens of a device's text before its first question
	textGrowth = 8      // tokens that each question adds
	textLimit  = 2048   // at which the text starts anew
)

// Gateway measures a gateway with many devices that ask at a steady rate. The time when a question is due does not
// depend on earlier ones, and its latency is measured from then, so that the figures show a gateway that stalls.
func Gateway(ctx context.Context, o GatewayOptions) (*GatewayReport, error) {
	r := &GatewayReport{Devices: o.Devices, Rate: o.Rate, ModelMS: result.Milliseconds(o.Model),
		Seconds: o.Duration.Seconds(), Cores: runtime.GOMAXPROCS(0)}
	l := newLoad(o)
	conns := 4 * o.Devices // one address may have half of them
	g, stop, err := serveFake(l.recordEvent, gateway.Options{MaxConns: conns},
		fakeModel{delay: o.Model, abreast: o.Abreast})
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := l.connectDevices(ctx, g, r); err != nil {
		return nil, errors.Join(err, l.closeClients())
	}
	used, watched := cputime.Used(), result.WatchMachine()
	err = l.runDevices(ctx)
	used = cputime.Used() - used
	l.fillReport(r)
	r.Quiet = watched.End()
	if r.Asks > 0 {
		r.CPU = used
	}
	return r, errors.Join(err, l.closeClients())
}

// fakeModel answers after a delay.
type fakeModel struct {
	delay   time.Duration
	abreast int // concurrent questions; 0 means 4096
}

func (f fakeModel) Info() gateway.Info {
	const most = 4096
	return gateway.Info{Identity: benchIdentity(), MaxContext: 8192, Parallel: cmp.Or(f.abreast, most)}
}

func (f fakeModel) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	if f.delay > 0 {
		if err := retry.Wait(ctx, f.delay); err != nil {
			return terms.Reply{}, err
		}
	}
	return terms.Reply{Token: q.Context[len(q.Context)-1], Compute: f.delay}, nil
}

func (fakeModel) Forget(uint64) {}

func benchIdentity() netproto.Identity { return netproto.Identity{Vocab: benchVocab} }

// localGateway is a gateway in this process.
type localGateway struct {
	address string
	pin     netproto.Digest // fingerprint of its certificate
}

func (s localGateway) clientOptions() client.Options {
	return client.Options{Identity: benchIdentity(), Pin: s.pin}
}

func serveFake(
	events func(gateway.Event), o gateway.Options, m gateway.Upstream,
) (s localGateway, stop func(), err error) {
	o.Events = events
	g, err := gateway.New(o, m)
	if err != nil {
		return s, nil, err
	}
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return s, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(ctx, socket) // devices without answers report the failure
	}()
	return localGateway{socket.LocalAddr().String(), g.Fingerprint()}, func() {
		cancel()
		<-done
		socket.Close()
	}, nil
}

// gatewayLoad is the devices and the results of their questions.
type gatewayLoad struct {
	o       GatewayOptions
	devices []*loadDevice

	mu             sync.Mutex
	measuring      bool
	start          time.Time               // of the measurement
	last           time.Duration           // from then until the last answer
	whole, inside  *hdrhistogram.Histogram // nanoseconds
	asks, answers  int
	refusals       map[string]int
	errors         int
	up, down       int
	asking         sync.WaitGroup
	done, expected int
}

type loadDevice struct {
	c     *client.Client
	s     *client.Session
	path  []int32 // its text
	phase float64 // of its first question, as a part of the interval
	rate  float64 // of its questions, per second

	asks int             // due; guarded by gatewayLoad.mu, as is took
	took []time.Duration // of its answers
}

func newLoad(o GatewayOptions) *gatewayLoad {
	return &gatewayLoad{o: o, refusals: map[string]int{}, whole: result.NewHistogram(), inside: result.NewHistogram(),
		expected: int(float64(o.Devices) * o.Rate * o.Duration.Seconds())}
}

func (l *gatewayLoad) recordEvent(e gateway.Event) {
	if e.Kind != gateway.Answered {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.measuring {
		result.Add(l.inside, e.Took)
	}
}

// connectDevices connects all devices and lets each ask once.
func (l *gatewayLoad) connectDevices(ctx context.Context, g localGateway, r *GatewayReport) error {
	const abreast = 16
	rng := rand.New(rand.NewPCG(1, 2))
	before, began := memoryInUse(), time.Now()
	places, failed := make(chan struct{}, abreast), make(chan error, l.o.Devices)
	var all sync.WaitGroup
	for range l.o.Devices {
		d := &loadDevice{phase: rng.Float64(), path: make([]int32, textBefore), rate: l.o.Rate}
		for i := range d.path {
			d.path[i] = rng.Int32N(benchVocab)
		}
		l.devices = append(l.devices, d)
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			failed <- d.dialGateway(ctx, g)
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return fmt.Errorf("connect %d devices: %w", l.o.Devices, err)
		}
	}
	r.ConnectMS = result.Milliseconds(time.Since(began))
	r.Memory = memoryInUse() - before
	return nil
}

func (d *loadDevice) dialGateway(ctx context.Context, g localGateway) (err error) {
	if d.c, err = client.Dial(ctx, g.address, g.clientOptions()); err != nil {
		return err
	}
	if d.s, err = d.c.NewSession(ctx); err != nil {
		return err
	}
	_, err = d.s.Ask(ctx, terms.Question{Context: d.path})
	return err
}

func (l *gatewayLoad) runDevices(ctx context.Context) error {
	start := time.Now().Add(100 * time.Millisecond)
	l.mu.Lock()
	l.measuring, l.start = true, start
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, d := range l.devices {
		all.Go(func() { l.driveDevice(ctx, d, start) })
	}
	all.Wait()
	l.asking.Wait()
	return ctx.Err()
}

// driveDevice asks for one device, whenever a question is due, even if earlier questions are not answered.
func (l *gatewayLoad) driveDevice(ctx context.Context, d *loadDevice, start time.Time) {
	pause := float64(time.Second) / d.rate
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for k := 0; ; k++ {
		due := start.Add(time.Duration((d.phase + float64(k)) * pause))
		if due.Sub(start) >= l.o.Duration {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		path := d.nextContext(k)
		l.asking.Go(func() { l.sendAsk(ctx, d, path, due) })
	}
}

func (d *loadDevice) nextContext(k int) []int32 {
	more := textGrowth * (1 + k%((textLimit-textBefore)/textGrowth))
	path := make([]int32, len(d.path), len(d.path)+more)
	copy(path, d.path)
	for i := range more {
		path = append(path, d.path[i*7919%len(d.path)])
	}
	return path
}

func (l *gatewayLoad) sendAsk(ctx context.Context, d *loadDevice, path []int32, due time.Time) {
	a, err := d.s.Ask(ctx, terms.Question{Context: path, K: 1})
	took := time.Since(due)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks++
	d.asks++
	l.up += a.BytesUp
	l.down += a.BytesDown
	refusal, refused := errors.AsType[netproto.Code](err)
	switch {
	case err == nil:
		l.answers++
		l.last = time.Since(l.start)
		result.Add(l.whole, took)
		d.took = append(d.took, took)
	case refused:
		l.refusals[refusal.Error()]++
	default:
		l.errors++
	}
	if l.done++; l.o.Progress != nil && l.done%100 == 0 {
		l.o.Progress(l.done, l.expected)
	}
}

func (l *gatewayLoad) fillReport(r *GatewayReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Asks, r.Answers, r.Refusals, r.Errors = l.asks, l.answers, l.refusals, l.errors
	r.Time, r.InGateway = result.TimesOf(l.whole), result.TimesOf(l.inside)
	r.PerSecond = float64(r.Answers) / max(r.Seconds, l.last.Seconds())
	if text, err := l.whole.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		r.Histogram = string(text)
	}
	r.BytesUp, r.BytesDown = l.up, l.down
	l.reportFairness(r)
}

func (l *gatewayLoad) closeClients() error {
	var errs []error
	for _, d := range l.devices {
		if d.c != nil {
			errs = append(errs, d.c.Close())
		}
	}
	return errors.Join(errs...)
}

// memoryInUse returns the bytes of the process's heap and stacks, without garbage.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // frees what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
