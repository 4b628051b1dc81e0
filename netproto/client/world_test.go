package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// A simulation is devices, their links, two replicas of a gateway and their engines in one process and in virtual time:
// real clients and real gateways over simulated datagrams. What happens in it follows from a seed: a script of faults,
// and who asks what, and with "make worlds" everything, to the order of goroutines. Whatever the faults, each answered
// token is the one that follows its context, every question ends in time, and nothing is left in the end.

// fault is something that goes wrong in a world, for a while.
type fault struct {
	Kind   string        `json:"kind"`
	At     time.Duration `json:"at"` // from the beginning
	Lasts  time.Duration `json:"lasts"`
	Device int           `json:"device"` // of a link's fault
}

// faults are the kinds, by what begins and what ends them.
var faults = map[string]struct{ begin, end func(w *simulation, f fault) }{
	"loss": {
		func(w *simulation, f fault) { w.links[f.Device].loss = 0.3 },
		func(w *simulation, f fault) { w.links[f.Device].loss = 0 }},
	"blackhole": {
		func(w *simulation, f fault) { w.links[f.Device].loss = 1 },
		func(w *simulation, f fault) { w.links[f.Device].loss = 0 }},
	"copies and disorder": {
		func(w *simulation, f fault) {
			w.links[f.Device].copies, w.links[f.Device].jitter = 0.3, 60*time.Millisecond
		},
		func(w *simulation, f fault) { w.links[f.Device].copies, w.links[f.Device].jitter = 0, 0 }},
	"another address": {
		func(w *simulation, f fault) { w.links[f.Device].home = w.links[f.Device].home.Next() },
		func(w *simulation, f fault) { w.links[f.Device].home = w.links[f.Device].home.Next() }},
	"a gateway crashes": {
		func(w *simulation, f fault) { w.replica(f).kill() }, func(w *simulation, f fault) { w.replica(f).open() }},
	"all gateways crash, and have other ticket keys": {
		func(w *simulation, _ fault) { w.killAll() },
		func(w *simulation, _ fault) { w.changeTicketKeys(); w.openAll() }},
	"a gateway is drained": {
		func(w *simulation, f fault) { w.replica(f).drain() }, func(w *simulation, f fault) { w.replica(f).open() }},
	"the access tokens are read again": {
		func(w *simulation, f fault) { w.replica(f).reload() }, func(w *simulation, f fault) { w.replica(f).reload() }},
	"an engine hangs": {
		func(w *simulation, f fault) { w.replica(f).engine.hangs(true) },
		func(w *simulation, f fault) { w.replica(f).engine.hangs(false) }},
	"an engine fails": {
		func(w *simulation, f fault) { w.replica(f).engine.fails(errors.New("out of memory")) },
		func(w *simulation, f fault) { w.replica(f).engine.fails(nil) }},
	"an engine is full": {
		func(w *simulation, f fault) {
			w.replica(f).engine.fails(netproto.Refusal{Code: netproto.Busy, RetryAfter: time.Second})
		},
		func(w *simulation, f fault) { w.replica(f).engine.fails(nil) }},
	"one engine over HTTP dies": {
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "dead") },
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "") }},
	"one engine over HTTP hangs": {
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "hung") },
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "") }},
	"one engine over HTTP answers garbage": {
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "garbage") },
		func(w *simulation, f fault) { w.replica(f).http.becomeKind(f.Device, "") }},
	"one engine over HTTP is another model": {
		func(w *simulation, f fault) { w.replica(f).http.becomeModel(f.Device, 1) },
		func(w *simulation, f fault) { w.replica(f).http.becomeModel(f.Device, 0) }},
	"a rolling update to another model": { // of the same tokens
		func(w *simulation, _ fault) { w.update(1) }, func(w *simulation, _ fault) { w.update(0) }},
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
	worldDevices  = 3
	worldReplicas = 2
	worldVocab    = 50
	worldKinds    = 3 // of engines: a function, the built-in service, two engines over HTTP
)

// simulation is a world.
type simulation struct {
	seed     uint64
	replicas []*worldReplica
	links    []*skyLink
	sky      *sky
	pair     tls.Certificate
	tokens   []gateway.Token

	mu                sync.Mutex
	keys              []gateway.TicketKey
	wrong             []string
	begin             time.Time
	answered, refused int // questions
	ahead             int // tokens after answers
}

// worldReplica is one of the gateways, with an engine of its own.
type worldReplica struct {
	w      *simulation
	number int
	engine *truth
	http   *upstreamEngines // nil in worlds without engines over HTTP

	turn    chan struct{}    // a lock: in virtual time nobody may wait for a mutex while time passes
	gateway *gateway.Gateway // nil while it is down
	down    func()           // kills it
	stop    func()           // drains it
}

// replica returns the replica of a fault.
func (w *simulation) replica(f fault) *worldReplica { return w.replicas[f.Device%len(w.replicas)] }

func (w *simulation) killAll() {
	for _, r := range w.replicas {
		r.kill()
	}
}

func (w *simulation) openAll() {
	for _, r := range w.replicas {
		r.open()
	}
}

func (w *simulation) changeTicketKeys() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = []gateway.TicketKey{{w.keys[0][0] + 1}}
}

// update restarts one replica after the other with a model.
func (w *simulation) update(model int) {
	for _, r := range w.replicas {
		r.kill()
		r.engine.becomes(model)
		r.open()
	}
}

func newReplica(w *simulation, number int) *worldReplica {
	random := rand.New(rand.NewPCG(w.seed, uint64(20+number)))
	r := &worldReplica{w: w, number: number, engine: &truth{r: random}, turn: make(chan struct{}, 1)}
	switch w.seed % worldKinds {
	case 0:
		r.engine.parallel = int(w.seed / worldKinds % 5)
	case 2:
		r.http = newUpstreamEngines(w.seed, r.engine, random)
	}
	return r
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
	parallel int // questions at a time; 0: any number
	mu       sync.Mutex
	model    int
	since    []time.Time   // when it became the model that it is, or was: 0, 1, 0, …
	hung     chan struct{} // nil: it does not hang
	err      error
	r        *rand.Rand
}

// after returns the token after a context.
func after(model int, context []int32) int32 {
	sum := sha256.Sum256(fmt.Append(nil, model, context))
	return int32(sum[0]) % worldVocab
}

func (e *truth) Info() gateway.Info {
	return gateway.Info{Model: "truth", Identity: netproto.Identity{Vocab: worldVocab}, MaxContext: 1000,
		Parallel: e.parallel, Audit: netproto.ExactAudit}
}

func (e *truth) Forget(uint64) {}

func (e *truth) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	e.mu.Lock()
	took := time.Duration(1+e.r.IntN(60)) * time.Millisecond
	e.mu.Unlock()
	model, err := e.pass(ctx, took)
	return replyOf(model, q.Question), err
}

// replyOf returns a model's answer to a question.
func replyOf(model int, q terms.Question) terms.Reply {
	r := terms.Reply{Token: after(model, q.Context)}
	for pos := q.AuditFrom; pos > 0 && pos < len(q.Context); pos++ {
		r.Audited++
		if token := after(model, q.Context[:pos]); token != q.Context[pos] {
			r.Audit = append(r.Audit, terms.Finding{Pos: pos, Token: token})
		}
	}
	return r
}

// Next implements [gateway.Decoder].
func (e *truth) Next(ctx context.Context, q terms.Job) (int32, error) {
	r, err := e.Ask(ctx, q)
	return r.Token, err
}

// Warm implements [gateway.Warmer].
func (e *truth) Warm(ctx context.Context, _ terms.Job) error {
	_, err := e.pass(ctx, 5*time.Millisecond)
	return err
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

// may reports whether the reply can be the engine's to a question that was asked at a time.
func (e *truth) may(r terms.Reply, q terms.Question, asked time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := func(model int) bool {
		expected := replyOf(model, q)
		return r.Token == expected.Token && r.Audited == expected.Audited && slices.Equal(r.Audit, expected.Audit)
	}
	changed := len(e.since) > 0 && !e.since[len(e.since)-1].Before(asked)
	return is(e.model) || changed && is(1-e.model)
}

// sky carries the datagrams of a world. Each device has a link of its own, with an address that may change, and with it
// the replica that its datagrams reach, as behind a load balancer. If that is down they reach another one.
type sky struct {
	mu       sync.Mutex
	r        *rand.Rand
	gateways [worldReplicas]simnet.PacketReceiver // nil while it is down
	port     uint16
	open     int // sockets of devices
	links    []*skyLink
	sent     hash.Hash64 // of all datagrams, and when they were sent
}

// reachedFrom returns the gateway that datagrams from an address reach.
func (s *sky) reachedFrom(at netip.Addr) simnet.PacketReceiver {
	last := at.As4()[3]
	for i := range worldReplicas {
		if g := s.gateways[(int(last)+i)%worldReplicas]; g != nil {
			return g
		}
	}
	return nil
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
	_ = binary.Write(l.sky.sent, binary.LittleEndian, time.Now().UnixNano()) // never fails
	l.sky.sent.Write(p.Data)
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

// gatewaySide is the network of a gateway's socket.
type gatewaySide struct {
	*sky
	number int
}

func (s gatewaySide) AddNode(_ net.Addr, r simnet.PacketReceiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateways[s.number] = r
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
	l.send(p, func() simnet.PacketReceiver { return l.sky.reachedFrom(from.Addr()) })
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

// start returns the engine of a new gateway, of the kind of the world, and what ends it.
func (r *worldReplica) start() (e engine, end func() error) {
	switch r.w.seed % worldKinds {
	case 0:
		return r.engine, func() error { return nil }
	case 1:
		own, err := newBuiltIn(r.engine)
		if err != nil {
			r.w.sayf("%v", err)
		}
		return own, own.end
	}
	up, err := r.http.open()
	if err != nil {
		r.w.sayf("%v", err)
		return r.engine, func() error { return nil }
	}
	return up, func() error { up.Close(); return nil }
}

// watched is an engine at which no question may stay when nobody waits for its answer any more, and no session when its
// gateway has ended.
type watched struct {
	engine
	w        *simulation
	mu       sync.Mutex
	sessions map[uint64]bool
}

// engine is all that a gateway uses of an engine.
type engine interface {
	gateway.Upstream
	gateway.Decoder
	gateway.Warmer
}

func newWatched(e engine, w *simulation) *watched {
	return &watched{engine: e, w: w, sessions: map[uint64]bool{}}
}

func (e *watched) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	e.mu.Lock()
	e.sessions[q.Session] = true
	e.mu.Unlock()
	begin := time.Now()
	a, err := e.engine.Ask(ctx, q)
	if took := time.Since(begin); took > q.Within+time.Millisecond {
		e.w.sayf("a question stayed at the engine for %v from %v, but was of use for %v", took, begin.Sub(e.w.begin),
			q.Within)
	}
	return a, err
}

func (e *watched) Forget(session uint64) {
	e.mu.Lock()
	delete(e.sessions, session)
	e.mu.Unlock()
	e.engine.Forget(session)
}

// open starts the gateway, unless it is up, with empty memory and the certificate of all.
func (r *worldReplica) open() {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.gateway != nil {
		return
	}
	w := r.w
	started, stopped := r.start()
	engine := newWatched(started, w)
	w.mu.Lock()
	keys := w.keys
	w.mu.Unlock()
	g, err := gateway.New(gateway.Options{Certificate: w.pair, TicketKeys: keys, Tokens: w.tokens}, engine)
	if err != nil {
		w.sayf("%v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	socket := simnet.NewBlockingSimConn(net.UDPAddrFromAddrPort(gatewayAt), gatewaySide{w.sky, r.number})
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()
	unreachable := func() {
		w.sky.mu.Lock()
		w.sky.gateways[r.number] = nil
		w.sky.mu.Unlock()
	}
	end := func() {
		<-done
		cancel()
		socket.Close()
		unreachable()
		if s := g.Stats(); s.Connections+s.Asks > 0 {
			w.sayf("a gateway ended with %+v", s)
		}
		if len(engine.sessions) > 0 {
			w.sayf("a gateway ended, and its engine still had %d sessions", len(engine.sessions))
		}
		if err := stopped(); err != nil {
			w.sayf("%v", err)
		}
	}
	r.gateway = g
	r.down = func() { unreachable(); socket.Close(); end() }
	r.stop = func() { cancel(); end() }
}

// kill ends the gateway without a word to the devices.
func (r *worldReplica) kill() { r.end(func() { r.down() }) }

// drain ends the gateway in order.
func (r *worldReplica) drain() { r.end(func() { r.stop() }) }

func (r *worldReplica) end(by func()) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.gateway != nil {
		by()
		r.gateway = nil
	}
}

func (r *worldReplica) reload() {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.gateway != nil {
		if err := r.gateway.SetTokens(r.w.tokens); err != nil {
			r.w.sayf("%v", err)
		}
	}
}

// device writes texts with the help of the gateway until a time: each next token is asked for, by a deadline or without
// one, alone or beside questions about other continuations, with tokens ahead or an audit, and is the device's own if
// there is no answer. Some texts are sent before the first question.
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
		if r.IntN(4) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, _, _ = s.Sync(ctx, slices.Clone(text)) // may fail as a question may
			cancel()
		}
		for range 1 + r.IntN(30) {
			var asked sync.WaitGroup
			tokens := make([]int32, 1+r.IntN(3)) // of the text, and of other continuations
			for i := range tokens {
				q := w.question(r, slices.Clone(text), i > 0)
				asked.Go(func() { tokens[i] = w.ask(number, s, q) })
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

// question returns one about a text, or about another continuation of it. HTTP engines do not all audit.
func (w *simulation) question(r *rand.Rand, text []int32, other bool) terms.Question {
	q := terms.Question{Context: text}
	if other {
		q.Context = append(q.Context, r.Int32N(worldVocab))
	}
	if r.IntN(3) > 0 {
		q.Within = time.Duration(50+r.IntN(1500)) * time.Millisecond
	}
	if r.IntN(3) == 0 {
		q.Ahead = 1 + r.IntN(6)
	}
	if n := len(q.Context); r.IntN(3) == 0 && n > 1 && w.seed%worldKinds != 2 {
		q.AuditFrom, q.Verify = 1+r.IntN(n-1), terms.EachChoice
	}
	return q
}

// ask returns the token after a context, -1 if there is no answer.
func (w *simulation) ask(number int, s *Session, q terms.Question) int32 {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(q.Within, time.Hour))
	defer cancel()
	if q.Within == 0 {
		ctx = context.Background()
	}
	a, err := s.Ask(ctx, q)
	took := time.Since(begin)
	switch most := cmp.Or(q.Within, 2*patience+5*time.Second); {
	case took > most:
		w.sayf("device %d waited %v from %v for %v: %v", number, took, begin.Sub(w.begin), most, err)
	case err == nil && !w.may(a.Reply, q, begin):
		w.sayf("device %d got %+v for %+v, asked at %v", number, a.Reply, q, begin)
	case errors.Is(err, netproto.Malformed) || errors.Is(err, ErrProtocol),
		// an engine that fails does not say for how long
		err != nil && q.Within == 0 && !errors.Is(err, netproto.Failed):
		w.sayf("device %d, without a deadline, after %v: %v", number, took, err)
	}
	if err == nil {
		w.readAhead(number, a, q, begin)
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

// may reports whether the reply can be that of any replica to a question that was asked at a time.
func (w *simulation) may(a terms.Reply, q terms.Question, asked time.Time) bool {
	return slices.ContainsFunc(w.replicas, func(r *worldReplica) bool {
		return r.engine.may(a, q, asked) || r.http.mayBeOther(a.Token, q.Context)
	})
}

// readAhead reads some of the tokens after an answer: each follows the text and all before it.
func (w *simulation) readAhead(number int, a terms.Answer, q terms.Question, asked time.Time) {
	before, token := terms.Behind(q.Context, a.Token, q.Verify, a.Audit)
	text := append(slices.Clone(before), token)
	enough := time.After(300 * time.Millisecond)
	for a.Ahead != nil {
		select {
		case token, ok := <-a.Ahead:
			if !ok {
				return
			}
			if !w.may(terms.Reply{Token: token}, terms.Question{Context: text}, asked) {
				w.sayf("device %d got %d ahead after %v, asked at %v", number, token, text, asked)
			}
			w.mu.Lock()
			w.ahead++
			w.mu.Unlock()
			text = append(text, token)
		case <-enough:
			return
		}
	}
}

// change begins or ends a fault.
func (w *simulation) change(by func(*simulation, fault), f fault) {
	switch f.Kind {
	case "loss", "blackhole", "copies and disorder", "another address":
		w.sky.mu.Lock()
		defer w.sky.mu.Unlock()
	}
	by(w, f)
}
