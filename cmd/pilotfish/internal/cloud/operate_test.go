package cloud

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// dead is a large model that does not answer until the context ends.
type dead struct{ asked chan struct{} }

func (dead) Info() gateway.Info {
	return gateway.Info{Identity: netproto.Identity{Vocab: 100}, MaxContext: 100, Parallel: 1}
}

func (d dead) Ask(ctx context.Context, _ terms.Job) (terms.Reply, error) {
	d.asked <- struct{}{}
	<-ctx.Done()
	return terms.Reply{}, ctx.Err()
}

func (dead) Forget(uint64) {}

// checkedModel is a model for tests of the pages.
type checkedModel struct {
	group.CloudModel
	check func() error
}

func (m checkedModel) Ready() error { return m.check() }

func (checkedModel) Metrics() []prometheus.Collector { return nil }

// askThrice lets three devices ask a gateway, and waits until one question is at its dead engine. end ends them all.
func askThrice(t *testing.T, g *gateway.Gateway, address string, up dead) (end func()) {
	t.Helper()
	var asks sync.WaitGroup
	asking, giveUp := context.WithCancel(t.Context())
	for range 3 {
		d, err := client.Dial(t.Context(), address, client.Options{
			Identity: netproto.Identity{Vocab: 100}, Pin: g.Fingerprint()})
		require.NoError(t, err)
		t.Cleanup(func() { d.Close() })
		s, err := d.NewSession(t.Context())
		require.NoError(t, err)
		asks.Go(func() { _, _ = s.Ask(asking, terms.Question{Context: []int32{1, 2, 3}}) })
	}
	<-up.asked
	return func() {
		giveUp()
		asks.Wait()
	}
}

// assertReadyPage checks the page that says whether a gateway is ready.
func assertReadyPage(t *testing.T, at string, code int, body string) {
	t.Helper()
	gotCode, got := clitest.Page(t, at, "/readyz")
	assert.Equal(t, code, gotCode)
	assert.Equal(t, body, got)
}

// TestDeadEngine: an engine that never answers blocks only its questions: devices connect and disconnect, the pages
// work, and the gateway reports at once that it stops, and stops in time.
func TestDeadEngine(t *testing.T) {
	racing.Spare(t)
	c, f := newCloudCommand(&cli.App{})
	require.NoError(t, c.ParseFlags([]string{"--admin", ":0"}))
	op, err := f.operate.startAdmin(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	at := op.at.String()
	defer op.closePages()
	assertReadyPage(t, at, http.StatusServiceUnavailable, "not ready: the gateway is starting\n")
	up := dead{make(chan struct{}, 9)}
	broken := atomic.Bool{}
	g, err := gateway.New(
		gateway.Options{Events: op.teeEvents(func(gateway.Event) {}), AskTimeout: 12 * time.Second}, up)
	require.NoError(t, err)
	op.addGateway(g, checkedModel{check: func() error {
		if broken.Load() {
			return errors.New("the engine is away")
		}
		return nil
	}})
	code, body := clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code, "it does not serve yet")
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()

	end := askThrice(t, g, socket.LocalAddr().String(), up)
	var now map[string]*dto.MetricFamily
	for clitest.Sum(now["pilotfish_gateway_asks_waiting"]) != 2 { // for the one at the engine
		now = clitest.MetricsOf(t, at)
	}
	assert.Equal(t, 3., clitest.Sum(now["pilotfish_gateway_connections"]))
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_gateway_ready"]))
	assertReadyPage(t, at, http.StatusOK, "ready\n")
	broken.Store(true)
	assertReadyPage(t, at, http.StatusServiceUnavailable, "not ready: the engine is away\n")
	now = clitest.MetricsOf(t, at)
	assert.Zero(t, clitest.Sum(now["pilotfish_gateway_ready"])+clitest.Sum(now["pilotfish_gateway_upstream_up"]))
	broken.Store(false)

	cancel()
	for body != "not ready: the gateway accepts no clients: it is starting or stopping\n" {
		code, body = clitest.Page(t, at, "/readyz")
	}
	assert.Equal(t, http.StatusServiceUnavailable, code)
	now = clitest.MetricsOf(t, at)
	assert.Equal(t, 3., clitest.Sum(now["pilotfish_gateway_asks_open"]), "while they are open")
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_gateway_upstream_up"]))
	code, _ = clitest.Page(t, at, "/healthz")
	assert.Equal(t, http.StatusOK, code, "it lives")
	require.NoError(t, <-done)
	end()
	require.NoError(t, socket.Close())
}
