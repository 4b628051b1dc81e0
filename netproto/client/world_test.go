package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// A world is devices, their links, a gateway and its engine in one process and in virtual time: real clients and a real
// gateway over simulated datagrams. All that happens in it follows from a seed: a script of faults, and who asks what.
// Whatever the faults, each answered token is the one that follows its context, every question ends in time, and
// nothing is left in the end.

// fault is something that goes wrong in a world, for a while.
type fault struct {
	kind   string
	at     time.Duration // from the beginning
	lasts  time.Duration
	device int // of a link's fault
}

func (f fault) String() string {
	return fmt.Sprintf("%v: %s for %v (device %d)", f.at, f.kind, f.lasts, f.device)
}

// faults are the kinds, by what begins and what ends them.
var faults = map[string]struct{ begin, end func(w *simulation, f fault) }{
	"loss": {
		func(w *simulation, f fault) { w.links[f.device].loss = 0.3 },
		func(w *simulation, f fault) { w.links[f.device].loss = 0 }},
	"blackhole": {
		func(w *simulation, f fault) { w.links[f.device].loss = 1 },
		func(w *simulation, f fault) { w.links[f.device].loss = 0 }},
	"copies and disorder": {
		func(w *simulation, f fault) {
			w.links[f.device].copies, w.links[f.device].jitter = 0.3, 60*time.Millisecond
		},
		func(w *simulation, f fault) { w.links[f.device].copies, w.links[f.device].jitter = 0, 0 }},
	"another address": {
		func(w *simulation, f fault) { w.links[f.device].home = w.links[f.device].home.Next() },
		func(w *simulation, f fault) { w.links[f.device].home = w.links[f.device].home.Next() }},
	"the gateway crashes": {
		func(w *simulation, _ fault) { w.kill() }, func(w *simulation, _ fault) { w.open(false) }},
	"the gateway crashes, and has other ticket keys": {
		func(w *simulation, _ fault) { w.kill() }, func(w *simulation, _ fault) { w.open(true) }},
	"the gateway is drained": {
		func(w *simulation, _ fault) { w.drain() }, func(w *simulation, _ fault) { w.open(false) }},
	"the access tokens are read again": {
		func(w *simulation, _ fault) { w.reload() }, func(w *simulation, _ fault) { w.reload() }},
	"the engine hangs": {
		func(w *simulation, _ fault) { w.engine.hangs(true) }, func(w *simulation, _ fault) { w.engine.hangs(false) }},
	"the engine fails": {
		func(w *simulation, _ fault) { w.engine.fails(errors.New("out of memory")) },
		func(w *simulation, _ fault) { w.engine.fails(nil) }},
	"the engine is full": {
		func(w *simulation, _ fault) {
			w.engine.fails(netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second})
		},
		func(w *simulation, _ fault) { w.engine.fails(nil) }},
	"another model": { // of the same tokens
		func(w *simulation, _ fault) { w.kill(); w.engine.becomes(1); w.open(false) },
		func(w *simulation, _ fault) { w.kill(); w.engine.becomes(0); w.open(false) }},
}

// script returns the faults of a seed.
func scriptOf(seed uint64) (all []fault) {
	r := rand.New(rand.NewPCG(seed, 1))
	var kinds []string
	for kind := range faults {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for at := time.Duration(0); at < 15*time.Second; {
		at += time.Duration(r.IntN(4000)) * time.Millisecond
		all = append(all, fault{kinds[r.IntN(len(kinds))], at, time.Duration(1+r.IntN(5000)) * time.Millisecond,
			r.IntN(worldDevices)})
	}
	return all
}

const (
	worldDevices = 3
	worldVocab   = 50
)

// simulation is a world.
type simulation struct {
	seed   uint64
	engine *truth
	links  []*skyLink
	sky    *sky
	pair   tls.Certificate
	keys   []gateway.TicketKey
	tokens []gateway.Token

	turn    chan struct{}    // a lock of the gateway: in virtual time nobody may wait for a mutex while time passes
	gateway *gateway.Gateway // nil while it is down
	down    func()           // kills it
	stop    func()           // drains it

	mu                sync.Mutex
	wrong             []string
	begin             time.Time
	answered, refused int // questions
}

// sayf records what must not happen.
func (w *simulation) sayf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 3 { // one thing that goes wrong leads to many
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// truth is an engine behind the gateway, whose tokens follow from its model and the context.
type truth struct {
	mu    sync.Mutex
	model int
	since []time.Time   // when it became the model that it is, or was: 0, 1, 0, …
	hung  chan struct{} // nil: it does not hang
	err   error
	r     *rand.Rand
}

// after returns the token after a context.
func after(model int, context []int32) int32 {
	sum := sha256.Sum256(fmt.Append(nil, model, context))
	return int32(sum[0]) % worldVocab
}

func (e *truth) Info() gateway.Info {
	return gateway.Info{Model: "truth", Identity: netproto.Identity{Vocab: worldVocab}, MaxContext: 1000}
}

func (e *truth) Forget(uint64) {}

func (e *truth) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	e.mu.Lock()
	took := time.Duration(1+e.r.IntN(60)) * time.Millisecond
	e.mu.Unlock()
	model, err := e.pass(ctx, took)
	return terms.Reply{Token: after(model, q.Context)}, err
}

// pass lets a call of the model take its time, and returns what model it was.
func (e *truth) pass(ctx context.Context, took time.Duration) (model int, err error) {
	e.mu.Lock()
	model, hung, err := e.model, e.hung, e.err
	e.mu.Unlock()
	if err != nil {
		return model, err
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return model, context.Cause(ctx)
	}
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return model, context.Cause(ctx)
		}
	}
	return model, nil
}

// set changes the engine.
func (e *truth) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

func (e *truth) hangs(on bool) {
	e.set(func() {
		if e.hung != nil {
			close(e.hung)
			e.hung = nil
		}
		if on {
			e.hung = make(chan struct{})
		}
	})
}

func (e *truth) fails(err error) { e.set(func() { e.err = err }) }

func (e *truth) becomes(model int) {
	e.set(func() {
		if e.model != model {
			e.model, e.since = model, append(e.since, time.Now())
		}
	})
}

// may reports whether the token can be the answer to a question that was asked at a time.
func (e *truth) may(token int32, context []int32, asked time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := len(e.since) > 0 && !e.since[len(e.since)-1].Before(asked)
	return token == after(e.model, context) || changed && token == after(1-e.model, context)
}

// sky carries the datagrams of a world. Each device has a link of its own, with an address that may change.
type sky struct {
	mu      sync.Mutex
	r       *rand.Rand
	gateway simnet.PacketReceiver // nil while there is none
	port    uint16
	open    int // sockets of devices
	links   []*skyLink
}

type skyLink struct {
	sky          *sky
	home         netip.Addr
	loss, copies float64
	jitter       time.Duration
	nodes        map[uint16]simnet.PacketReceiver // by port
}

// send carries a datagram, as often as it arrives. The lock is held.
func (l *skyLink) send(p simnet.Packet, to func() simnet.PacketReceiver) {
	p.Data = slices.Clone(p.Data)
	for copies := 1; copies > 0; copies-- {
		if l.sky.r.Float64() < l.loss {
			continue
		}
		if l.sky.r.Float64() < l.copies {
			copies++
		}
		delay := 15*time.Millisecond + time.Duration(l.sky.r.Float64()*float64(l.jitter))
		time.AfterFunc(delay, func() {
			l.sky.mu.Lock()
			node := to()
			l.sky.mu.Unlock()
			if node != nil {
				node.RecvPacket(p)
			}
		})
	}
}

// gatewaySide is the network of the gateway's socket.
type gatewaySide struct{ *sky }

func (s gatewaySide) AddNode(_ net.Addr, r simnet.PacketReceiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway = r
}

func (s gatewaySide) SendPacket(p simnet.Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := p.To.(*net.UDPAddr).AddrPort()
	for _, l := range s.links {
		if l.home == to.Addr() {
			l.send(p, func() simnet.PacketReceiver {
				if l.home != to.Addr() {
					return nil // it has moved meanwhile
				}
				return l.nodes[to.Port()]
			})
		}
	}
	return nil
}

// AddNode registers a socket of the device.
func (l *skyLink) AddNode(at net.Addr, r simnet.PacketReceiver) {
	l.sky.mu.Lock()
	defer l.sky.mu.Unlock()
	l.nodes[at.(*net.UDPAddr).AddrPort().Port()] = r
}

func (l *skyLink) SendPacket(p simnet.Packet) error {
	l.sky.mu.Lock()
	defer l.sky.mu.Unlock()
	from := netip.AddrPortFrom(l.home, p.From.(*net.UDPAddr).AddrPort().Port())
	p.From = net.UDPAddrFromAddrPort(from)
	l.send(p, func() simnet.PacketReceiver { return l.sky.gateway })
	return nil
}

func (l *skyLink) lookupHost(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{gatewayAt.Addr()}, nil
}

func (l *skyLink) probeAddress(context.Context, netip.AddrPort, time.Duration) error { return nil }

func (l *skyLink) listenUDP(netip.AddrPort) (packetConn, error) {
	l.sky.mu.Lock()
	l.sky.port++
	l.sky.open++
	at := netip.AddrPortFrom(l.home, l.sky.port)
	l.sky.mu.Unlock()
	return countedConn{simnet.NewBlockingSimConn(net.UDPAddrFromAddrPort(at), l), sync.OnceFunc(func() {
		l.sky.mu.Lock()
		defer l.sky.mu.Unlock()
		l.sky.open--
		delete(l.nodes, at.Port())
	})}, nil
}

// start returns the engine of a new gateway, in every second world a built-in one, and what ends it.
func (w *simulation) start() (e gateway.Upstream, end func() error) {
	if w.seed%2 == 0 {
		return watched{w.engine, w}, func() error { return nil }
	}
	own, err := newBuiltIn(w.engine)
	if err != nil {
		w.sayf("%v", err)
	}
	return watched{own, w}, own.end
}

// watched is an engine at which no question may stay when nobody waits for its answer any more.
type watched struct {
	gateway.Upstream
	w *simulation
}

func (e watched) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	begin := time.Now()
	a, err := e.Upstream.Ask(ctx, q)
	if took := time.Since(begin); took > q.Within+time.Millisecond {
		e.w.sayf("a question stayed at the engine for %v from %v, but was of use for %v", took, begin.Sub(e.w.begin),
			q.Within)
	}
	return a, err
}

// open starts the gateway, unless it is up: with empty memory, the same certificate, and perhaps other ticket keys.
func (w *simulation) open(others bool) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.gateway != nil {
		return
	}
	if others {
		w.keys = []gateway.TicketKey{{w.keys[0][0] + 1}}
	}
	engine, stopped := w.start()
	g, err := gateway.New(gateway.Options{Certificate: w.pair, TicketKeys: w.keys, Tokens: w.tokens}, engine)
	if err != nil {
		w.sayf("%v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	socket := simnet.NewBlockingSimConn(net.UDPAddrFromAddrPort(gatewayAt), gatewaySide{w.sky})
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	end := func() {
		<-done
		cancel()
		socket.Close()
		if s := g.Stats(); s.Connections+s.Asks > 0 {
			w.sayf("a gateway ended with %+v", s)
		}
		if err := stopped(); err != nil {
			w.sayf("%v", err)
		}
	}
	w.gateway = g
	w.down = func() {
		w.sky.mu.Lock()
		w.sky.gateway = nil
		w.sky.mu.Unlock()
		socket.Close()
		end()
	}
	w.stop = func() { cancel(); end() }
}

// kill ends the gateway without a word to the devices.
func (w *simulation) kill() { w.end(func() { w.down() }) }

// drain ends the gateway in order.
func (w *simulation) drain() { w.end(func() { w.stop() }) }

func (w *simulation) end(by func()) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.gateway != nil {
		by()
		w.gateway = nil
	}
}

func (w *simulation) reload() {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.gateway != nil {
		if err := w.gateway.SetTokens(w.tokens); err != nil {
			w.sayf("%v", err)
		}
	}
}

// device writes texts with the help of the gateway until a time: each next token is asked for, by a deadline or without
// one, alone or beside questions about other continuations, and is the device's own if there is no answer.
func (w *simulation) device(number int, until time.Time) {
	r := rand.New(rand.NewPCG(w.seed, uint64(100+number)))
	o := Options{Identity: netproto.Identity{Vocab: worldVocab}, Pin: sha256.Sum256(w.pair.Certificate[0]), Lazy: true,
		Secret: w.tokens[number%len(w.tokens)].Secret, Device: netproto.Device{byte(1 + number)},
		network: w.links[number]}
	c, err := Dial(context.Background(), "gateway:4433", o)
	if err != nil {
		w.sayf("device %d: %v", number, err)
		return
	}
	for time.Now().Before(until) {
		s, err := c.NewSession(context.Background())
		if err != nil {
			w.sayf("device %d: %v", number, err)
			break
		}
		text := make([]int32, 1+r.IntN(40))
		for i := range text {
			text[i] = r.Int32N(worldVocab)
		}
		for range 1 + r.IntN(30) {
			var asked sync.WaitGroup
			tokens := make([]int32, 1+r.IntN(3)) // of the text, and of other continuations
			for i := range tokens {
				context, within := slices.Clone(text), time.Duration(0)
				if i > 0 {
					context = append(context, r.Int32N(worldVocab))
				}
				if r.IntN(3) > 0 {
					within = time.Duration(50+r.IntN(1500)) * time.Millisecond
				}
				asked.Go(func() { tokens[i] = w.ask(number, s, context, within) })
			}
			asked.Wait()
			if tokens[0] < 0 {
				tokens[0] = r.Int32N(worldVocab)
			}
			text = append(text, tokens[0])
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		s.Close()
	}
	if err := c.Close(); err != nil {
		w.sayf("device %d: %v", number, err)
	}
}

// ask returns the token after a context, -1 if there is no answer.
func (w *simulation) ask(number int, s *Session, path []int32, within time.Duration) int32 {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(within, time.Hour))
	defer cancel()
	if within == 0 {
		ctx = context.Background()
	}
	a, err := s.Ask(ctx, terms.Question{Context: path})
	took := time.Since(begin)
	switch most := cmp.Or(within, 2*patience+5*time.Second); {
	case took > most:
		w.sayf("device %d waited %v from %v for %v: %v", number, took, begin.Sub(w.begin), most, err)
	case err == nil && !w.engine.may(a.Token, path, begin):
		w.sayf("device %d got %d after %v, asked at %v", number, a.Token, path, begin)
	case errors.Is(err, netproto.Malformed) || errors.Is(err, ErrProtocol),
		err != nil && within == 0 && !errors.Is(err, netproto.Failed): // an engine that fails does not say for how long
		w.sayf("device %d, without a deadline, after %v: %v", number, took, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.refused++
		return -1
	}
	w.answered++
	return a.Token
}

// play plays a script in a world, and returns what must not happen.
func play(t *testing.T, seed uint64, pair tls.Certificate, script []fault) (wrong []string) {
	bubble.Test(t, func(t *testing.T) {
		r := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
		w := &simulation{seed: seed, engine: &truth{r: r(2)}, sky: &sky{r: r(3), port: 50000}, pair: pair,
			keys: []gateway.TicketKey{{1}}, turn: make(chan struct{}, 1)}
		for _, name := range []string{"a", "b"} {
			secret := netproto.Secret("sixteen bytes of " + name)
			w.tokens = append(w.tokens, gateway.Token{Name: name, Secret: secret})
		}
		for i := range worldDevices {
			w.links = append(w.links, &skyLink{sky: w.sky, home: netip.AddrFrom4([4]byte{10, 1, byte(i), 1}),
				nodes: map[uint16]simnet.PacketReceiver{}})
		}
		w.sky.links = w.links
		w.open(false)
		w.begin = time.Now()
		var all sync.WaitGroup
		for i := range worldDevices {
			all.Go(func() { w.device(i, w.begin.Add(20*time.Second)) })
		}
		for _, f := range script {
			all.Go(func() {
				time.Sleep(f.at)
				w.change(faults[f.kind].begin, f)
				time.Sleep(f.lasts)
				w.change(faults[f.kind].end, f)
			})
		}
		all.Wait()
		w.drain()
		if w.sky.open > 0 {
			w.sayf("%d sockets are left", w.sky.open)
		}
		if w.answered < 20 { // usually some hundreds: a world without answers proves nothing
			w.sayf("only %d questions were answered, %d were not", w.answered, w.refused)
		}
		wrong = w.wrong
	})
	return wrong
}

// change begins or ends a fault.
func (w *simulation) change(by func(*simulation, fault), f fault) {
	switch f.kind {
	case "loss", "blackhole", "copies and disorder", "another address":
		w.sky.mu.Lock()
		defer w.sky.mu.Unlock()
	}
	by(w, f)
}

// lessons are scripts in which something went wrong once.
var lessons = [][]fault{
	{ // the address changes while answers are lost: they were only sent again after three minutes
		{"loss", ms(1975), ms(227), 1}, {"the engine hangs", ms(4106), ms(1045), 2},
		{"the access tokens are read again", ms(7968), ms(1876), 0}, {"blackhole", ms(9322), ms(2361), 2},
		{"copies and disorder", ms(13313), ms(3166), 0}, {"another address", ms(13955), ms(3387), 2},
		{"another address", ms(14002), ms(2195), 2}, {"loss", ms(14308), ms(3444), 2},
		{"the engine is full", ms(15622), ms(2705), 1},
	},
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// shrunk returns the faults without which all is well, and what is wrong with them.
func shrunk(t *testing.T, seed uint64, pair tls.Certificate, script []fault) ([]fault, []string) {
	wrong := play(t, seed, pair, script)
	for i := 0; i < len(script); {
		fewer := slices.Delete(slices.Clone(script), i, i+1)
		if still := play(t, seed, pair, fewer); len(still) > 0 {
			script, wrong = fewer, still
		} else {
			i++
		}
	}
	return script, wrong
}

// TestWorlds plays some worlds, and for as many seconds as PILOTFISH_WORLDS says others, with seeds from the second
// number there on, or random ones. Of a world in which something goes wrong it prints the seed, and the shortest
// script.
func TestWorlds(t *testing.T) {
	certificate, key, err := gateway.NewCertificate("gateway")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	seconds, first := 0.0, rand.Uint64()
	_, _ = fmt.Sscan(os.Getenv("PILOTFISH_WORLDS"), &seconds, &first) // what is not there stays
	for seed := range uint64(16) {
		for _, script := range lessons {
			assert.Empty(t, play(t, seed, pair, script), "%v", script)
		}
	}
	begin := time.Now()
	for n := range uint64(1 << 40) {
		seed := n
		if n >= 20 {
			if time.Since(begin).Seconds() > seconds {
				t.Logf("%d worlds", n)
				break
			}
			seed = first + n
		}
		if wrong := play(t, seed, pair, scriptOf(seed)); len(wrong) > 0 {
			script, wrong := shrunk(t, seed, pair, scriptOf(seed))
			assert.Fail(t, "a world went wrong", "seed %d: %v\nwith %v", seed, wrong, script)
			break
		}
	}
}
