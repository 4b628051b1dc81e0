package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/metrics"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// values returns all samples of a registry by name and labels, except zeros; for histograms the count and sum.
func values(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	put := func(name string, m *dto.Metric, v float64) {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		if v != 0 {
			all[strings.TrimPrefix(name, "pilotfish_gateway_")] = v
		}
	}
	for _, f := range families {
		require.NotEmpty(t, f.GetHelp(), f.GetName())
		for _, m := range f.GetMetric() {
			put(f.GetName(), m, m.GetCounter().GetValue()+m.GetGauge().GetValue())
			put(f.GetName()+"_count", m, float64(m.GetHistogram().GetSampleCount()))
			put(f.GetName()+"_sum", m, m.GetHistogram().GetSampleSum())
		}
	}
	return all
}

// TestStates: the gauges of a gateway's state and of a component's health.
func TestStates(t *testing.T) {
	to := prometheus.NewRegistry()
	var broken error
	state := gateway.Stats{Connections: 12, Sessions: 15, Tokens: 16, Asks: 17, Waiting: 18}
	metrics.State(to, func() gateway.Stats { return state })
	to.MustRegister(metrics.Health("engine", "1 while the engine works.", func() error { return broken }))
	want := map[string]float64{"engine": 1, "connections": 12, "sessions": 15, "session_tokens": 16,
		"asks_open": 17, "asks_waiting": 18}
	assert.Equal(t, want, values(t, to))
	broken = errors.New("it is gone")
	delete(want, "engine")
	assert.Equal(t, want, values(t, to))
}

// countedEvent is an event and the values that it adds to the metrics.
type countedEvent struct {
	name string
	e    gateway.Event
	want map[string]float64
}

func countedEvents() []countedEvent {
	type counts = map[string]float64
	return []countedEvent{
		{"connected",
			gateway.Event{Kind: gateway.Connected, Client: "lab"}, counts{"connections_total{early=false}": 1}},
		{"connected early",
			gateway.Event{Kind: gateway.Connected, Early: true}, counts{"connections_total{early=true}": 1}},
		{"disconnected",
			gateway.Event{Kind: gateway.Disconnected, Lasted: time.Second, Asks: 7, Err: netproto.WrongSecret},
			counts{}},
		{"answered",
			gateway.Event{Kind: gateway.Answered, Message: netproto.KindAsk, Client: "lab", Context: 100, Delta: 5,
				Audited: 2, Looked: 8, Queue: time.Second, Compute: 2 * time.Second, Took: 4 * time.Second}, counts{
				"asks_total{client=lab,outcome=answered}": 1, "context_tokens_total": 100, "delta_tokens_total": 5,
				"audited_positions_total": 8, "audit_findings_total": 2,
				"ask_queue_seconds_count": 1, "ask_queue_seconds_sum": 1, "ask_compute_seconds_count": 1,
				"ask_compute_seconds_sum": 2, "ask_seconds_count": 1, "ask_seconds_sum": 4}},
		{"resent", gateway.Event{Kind: gateway.Resent, Message: netproto.KindAsk, Context: 10, Delta: 3}, counts{
			"asks_total{client=,outcome=resent}": 1, "context_tokens_total": 10, "delta_tokens_total": 3}},
		{"synced", gateway.Event{Kind: gateway.Synced, Message: netproto.KindSync, Context: 10, Delta: 3}, counts{
			"context_tokens_total": 10, "delta_tokens_total": 3}},
		{"dropped",
			gateway.Event{Kind: gateway.Dropped, Message: netproto.KindAsk, Err: netproto.Cancelled,
				Queue: time.Second}, counts{
				"asks_total{client=,outcome=dropped}": 1}},
		{"ask refused",
			gateway.Event{Kind: gateway.Refused, Message: netproto.KindAsk, Client: "lab",
				Err: fmt.Errorf("x: %w", netproto.Refusal{Code: netproto.TooFast})}, counts{
				"asks_total{client=lab,outcome=refused}": 1, "refusals_total{code=too_fast,of=ask}": 1}},
		{"sync refused", gateway.Event{Kind: gateway.Refused, Message: netproto.KindSync, Err: netproto.Busy}, counts{
			"refusals_total{code=busy,of=sync}": 1}},
		{"connection refused", gateway.Event{Kind: gateway.Refused, Err: netproto.Malformed}, counts{
			"refusals_total{code=malformed,of=connection}": 1}},
		{"unknown code", gateway.Event{Kind: gateway.Refused, Err: netproto.Code(99)}, counts{
			"refusals_total{code=other,of=connection}": 1}},
		{"decoded ahead",
			gateway.Event{Kind: gateway.Decoded, Message: netproto.KindAsk, Client: "lab", Context: 9, Decoded: 7,
				Took: time.Second}, counts{"ahead_tokens_total": 7, "answers_continued_total{code=none}": 1}},
		{"not decoded ahead",
			gateway.Event{Kind: gateway.Decoded, Message: netproto.KindAsk,
				Err: netproto.Refusal{Code: netproto.Busy}}, counts{
				"answers_continued_total{code=busy}": 1}},
		{"forgotten", gateway.Event{Kind: gateway.Forgotten}, counts{}},
		{"drained", gateway.Event{Kind: gateway.Drained, Conns: 2, Lasted: time.Second}, counts{}},
	}
}

// TestEvents: every kind of event counts once in each of its families, and in no other.
func TestEvents(t *testing.T) {
	for _, c := range countedEvents() {
		t.Run(c.name, func(t *testing.T) {
			to := prometheus.NewRegistry()
			m := metrics.NewEvents(to)
			m.Event(c.e)
			assert.Equal(t, c.want, values(t, to))
			m.Event(c.e)
			twice := map[string]float64{}
			for name, v := range c.want {
				twice[name] = 2 * v
			}
			assert.Equal(t, twice, values(t, to))
		})
	}
}

// TestCodes: each code has its own name, which dashboards use.
func TestCodes(t *testing.T) {
	for code, name := range []string{"none", "wrong_version", "wrong_tokenizer", "wrong_secret",
		"malformed", "too_large", "too_fast", "busy", "too_late", "draining", "failed", "cancelled", "cannot_verify",
		"other"} {
		to := prometheus.NewRegistry()
		metrics.NewEvents(to).Event(gateway.Event{Kind: gateway.Refused, Err: netproto.Code(code)})
		assert.Equal(t, 1., values(t, to)["refusals_total{code="+name+",of=connection}"], name)
		assert.Equal(t, name == "other", netproto.Code(code) > netproto.CannotVerify)
	}
}

// TestBuckets: histograms cover times from 0.1 ms to a minute.
func TestBuckets(t *testing.T) {
	to := prometheus.NewRegistry()
	metrics.NewEvents(to)
	families, err := to.Gather()
	require.NoError(t, err)
	seen := 0
	for _, f := range families {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		all := f.GetMetric()[0].GetHistogram().GetBucket()
		assert.Equal(t, 0.0001, all[0].GetUpperBound(), f.GetName())
		assert.Equal(t, 60., all[len(all)-1].GetUpperBound(), f.GetName())
		assert.GreaterOrEqual(t, len(all), 7, f.GetName())
		seen++
	}
	assert.Equal(t, 3, seen)
}

// TestLabelsAreBounded: values that a client chooses are not labels: hostile names do not grow the page.
func TestLabelsAreBounded(t *testing.T) {
	racing.Spare(t)
	to := prometheus.NewRegistry()
	m := metrics.NewEvents(to)
	size := func() int {
		n, err := testutil.GatherAndCount(to)
		require.NoError(t, err)
		return n
	}
	tell := func(i int) {
		for kind := gateway.Connected; kind <= gateway.Drained; kind++ {
			for _, message := range []netproto.Kind{netproto.KindAsk, netproto.KindSync, 0} {
				m.Event(gateway.Event{Kind: kind, Message: message, Device: fmt.Sprint(i), Session: uint64(i),
					Err: netproto.Refusal{Code: netproto.Code(i), Detail: fmt.Sprint(i)}})
			}
		}
	}
	for i := range 256 {
		tell(i)
	}
	before := size()
	for i := range 5000 {
		tell(i)
	}
	assert.Equal(t, before, size())
	assert.Less(t, before, 150)
}

// model answers every question after a delay.
type model struct{ delay time.Duration }

func (m model) Info() gateway.Info {
	return gateway.Info{Identity: netproto.Identity{Vocab: 100}, MaxContext: 1000, Parallel: 4}
}
func (m model) Ask(ctx context.Context, q terms.Job) (terms.Reply, error) {
	if q.Context[0] == 66 {
		return terms.Reply{}, errors.New("broken")
	}
	select {
	case <-time.After(m.delay):
	case <-ctx.Done():
	}
	if q.AuditFrom == 0 {
		return terms.Reply{Token: 1}, nil
	}
	last := []terms.Finding{{Pos: len(q.Context) - 1, Token: 2}}
	return terms.Reply{Token: 1, Audited: len(q.Context) - q.AuditFrom, Audit: last}, nil
}
func (m model) Forget(uint64) {}

// countedGateway is a gateway over a real socket with metrics, which counts its events by kind.
type countedGateway struct {
	*gateway.Gateway
	socket net.PacketConn
	stop   func() error

	mu    sync.Mutex
	kinds map[gateway.EventKind]int
}

// newCountedGateway starts a gateway with the access token "sixteen bytes of".
func newCountedGateway(t *testing.T, to *prometheus.Registry) *countedGateway {
	t.Helper()
	m := metrics.NewEvents(to)
	g := &countedGateway{kinds: map[gateway.EventKind]int{}}
	var err error
	g.Gateway, err = gateway.New(gateway.Options{Tokens: []gateway.Token{{Name: "lab", Secret: "sixteen bytes of"}},
		Events: func(e gateway.Event) {
			m.Event(e)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.kinds[e.Kind]++
		}}, model{time.Millisecond})
	require.NoError(t, err)
	metrics.State(to, g.Stats)
	g.socket, err = net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, g.socket) }()
	g.stop = func() error {
		cancel()
		return errors.Join(<-done, g.socket.Close())
	}
	return g
}

// dial connects a client with an access token.
func (g *countedGateway) dial(t *testing.T, secret netproto.Secret) (*client.Client, error) {
	t.Helper()
	return client.Dial(t.Context(), g.socket.LocalAddr().String(), client.Options{
		Identity: netproto.Identity{Vocab: 100}, Pin: g.Fingerprint(), Secret: secret})
}

// await waits for a number of events of some kinds: an event follows its answer.
func (g *countedGateway) await(events int, kinds ...gateway.EventKind) {
	for seen := 0; seen < events; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		seen = 0
		for _, kind := range kinds {
			seen += g.kinds[kind]
		}
		g.mu.Unlock()
	}
}

// TestGateway: the metrics equal the actions of a gateway over real sockets, and pass Prometheus' own checks.
func TestGateway(t *testing.T) {
	to := prometheus.NewRegistry()
	g := newCountedGateway(t, to)
	_, err := g.dial(t, "another of sixteen")
	require.ErrorIs(t, err, netproto.WrongSecret)
	c, err := g.dial(t, "sixteen bytes of")
	require.NoError(t, err)
	s, err := c.NewSession(t.Context())
	require.NoError(t, err)
	path := []int32{1, 2, 3, 4, 5}
	_, _, err = s.Sync(t.Context(), path[:2])
	require.NoError(t, err)
	for range 3 {
		path = append(path, 7)
		_, err = s.Ask(t.Context(), terms.Question{Context: path, AuditFrom: 3})
		require.NoError(t, err)
	}
	_, err = s.Ask(t.Context(), terms.Question{Context: []int32{66}})
	require.ErrorIs(t, err, netproto.Failed)
	g.await(7, gateway.Connected, gateway.Answered, gateway.Synced, gateway.Refused)
	now := values(t, to)
	for name, want := range map[string]float64{
		"asks_total{client=lab,outcome=answered}": 3, "asks_total{client=lab,outcome=refused}": 1,
		"refusals_total{code=failed,of=ask}":              1,
		"refusals_total{code=wrong_secret,of=connection}": 1, "connections_total{early=false}": 1,
		"audited_positions_total": 3 + 4 + 5, "audit_findings_total": 3, "context_tokens_total": 2 + 6 + 7 + 8 + 1,
		"delta_tokens_total": 2 + 4 + 1 + 1 + 1, "ask_seconds_count": 3, "connections": 1, "sessions": 1,
		"session_tokens": 9,
	} {
		assert.Equal(t, want, now[name], name)
	}
	assert.Greater(t, now["ask_seconds_sum"], 0.003)
	s.Close()
	require.NoError(t, c.Close())
	require.NoError(t, g.stop())
	assert.Equal(t, map[gateway.EventKind]int{gateway.Connected: 1, gateway.Disconnected: 1, gateway.Refused: 2,
		gateway.Answered: 3, gateway.Synced: 1, gateway.Forgotten: 1, gateway.Draining: 1, gateway.Drained: 1}, g.kinds)
	problems, err := testutil.GatherAndLint(to)
	require.NoError(t, err)
	assert.Empty(t, problems)
}
