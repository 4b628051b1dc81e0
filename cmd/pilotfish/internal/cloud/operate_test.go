package cloud

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/client"
	"github.com/pilotfish-ai/pilotfish/netproto/gateway"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestAdminPages: --admin serves the pages of a gateway, with metrics of the actions of devices.
func TestAdminPages(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", ":0", "--slots", "777")
	at := c.Says(t, `msg="pages for operators" address=(127\.0\.0\.1:\d+)`)
	for i, path := range []string{"/healthz", "/readyz", "/debug/pprof/goroutine?debug=1"} {
		for { // it has printed the address of the pages before it is ready
			code, body := clitest.Page(t, at, path)
			if code == http.StatusServiceUnavailable {
				continue
			}
			assert.Equal(t, http.StatusOK, code, path)
			assert.Contains(t, body, []string{"alive", "ready", "goroutine"}[i])
			break
		}
	}
	before := clitest.MetricsOf(t, at)
	for name, want := range map[string]float64{"pilotfish_gateway_sockets": 1, "pilotfish_gateway_ready": 1,
		"pilotfish_gateway_upstream_up": 1, "pilotfish_engine_slots": 777, "pilotfish_build_info": 1,
		"pilotfish_gateway_connections": 0} {
		require.Contains(t, before, name)
		assert.Equal(t, want, clitest.Sum(before[name]), name)
	}
	clitest.RoutedTokens(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--mode", "serial",
		"--tokens", "1,2,3", "-n", "9", "--deadline", "off", "--require-cloud")
	after := clitest.MetricsOf(t, at)
	for name, low := range map[string]float64{"pilotfish_gateway_asks_total": 8, "pilotfish_gateway_ask_seconds": 8,
		"pilotfish_gateway_ask_queue_seconds": 8, "pilotfish_gateway_ask_compute_seconds": 8,
		"pilotfish_gateway_received_bytes_total": 80, "pilotfish_gateway_connections_total": 1,
		"pilotfish_engine_computed_tokens_total": 9, "pilotfish_engine_steps_total": 1,
		"pilotfish_engine_reused_tokens_total": 8, "go_goroutines": 1} {
		require.Contains(t, after, name)
		assert.GreaterOrEqual(t, clitest.Sum(after[name]), low, name)
	}
	c.Stop()
	_, err := net.Dial("tcp", at)
	require.Error(t, err, "the pages end with the gateway")
}

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

func (checkedModel) Metrics() prometheus.Collector {
	return newServiceMetrics(func() engine.ServiceStats { return engine.ServiceStats{} })
}

// TestDeadEngine: an engine that never answers blocks only its questions: devices connect and disconnect, the pages
// work, and the gateway reports at once that it stops, and stops in time.
func TestDeadEngine(t *testing.T) {
	racing.Spare(t)
	c, f := cloudCommand(&cli.App{})
	require.NoError(t, c.ParseFlags([]string{"--admin", ":0"}))
	op, err := f.operate.operate(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	at := op.at.String()
	defer op.close()
	code, body := clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "not ready: the gateway is starting\n", body)
	up := dead{make(chan struct{}, 9)}
	broken := atomic.Bool{}
	g, err := gateway.New(gateway.Options{Events: op.tell(func(gateway.Event) {}), AskTimeout: 12 * time.Second}, up)
	require.NoError(t, err)
	op.follow(g, checkedModel{check: func() error {
		if broken.Load() {
			return errors.New("the engine is away")
		}
		return nil
	}})
	code, _ = clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code, "it does not serve yet")
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, socket) }()

	var asks sync.WaitGroup
	asking, giveUp := context.WithCancel(t.Context())
	for range 3 { // one at the engine, the others wait for it
		d, err := client.Dial(t.Context(), socket.LocalAddr().String(), client.Options{
			Identity: netproto.Identity{Vocab: 100}, Pin: g.Fingerprint()})
		require.NoError(t, err)
		defer d.Close()
		s, err := d.NewSession(t.Context())
		require.NoError(t, err)
		asks.Go(func() { _, _ = s.Ask(asking, terms.Question{Context: []int32{1, 2, 3}}) })
	}
	<-up.asked
	var now map[string]*dto.MetricFamily
	for clitest.Sum(now["pilotfish_gateway_asks_waiting"]) != 2 {
		now = clitest.MetricsOf(t, at)
	}
	assert.Equal(t, 3., clitest.Sum(now["pilotfish_gateway_connections"]))
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_gateway_ready"]))
	code, body = clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "ready\n", body)
	broken.Store(true)
	code, body = clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "not ready: the engine is away\n", body)
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
	giveUp()
	asks.Wait()
	require.NoError(t, socket.Close())
	assert.Equal(t, 3., clitest.Sum(clitest.MetricsOf(t, at)["pilotfish_gateway_drain_forced_closes_total"]))
}

// TestLogText: no log, page or error contains a secret or text of a user, at any level; only --log-level texts shows
// texts.
func TestLogText(t *testing.T) {
	racing.Spare(t)
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	const secret, wrong, prompt = "canary-secret-of-a-token", "canary-secret-of-nobody!", "canary"
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("lab:"+secret), 0o600))
	do := func(args ...string) (said string) {
		c := clitest.StartedCloud(t,
			append([]string{"-m", m, "--listen", "127.0.0.1:0", "--admin", ":0", "--token-file", tokens,
				"--limit", "prompt=40", "--log-level", "debug"}, args...)...)
		at := c.Says(t, `pages for operators".*address"?[=:]"?([\d.:]+)`)
		for _, who := range []string{secret, wrong} {
			t.Setenv("PILOTFISH_TOKEN", who)
			for _, n := range []string{"3", "60"} { // the longer one exceeds the limit
				clitest.Call(t, "run", "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--raw",
					"--ignore-eos", "-n", n, "--deadline", "off", prompt)
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/",
			"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
			_, body := clitest.Page(t, at, path)
			said += body
		}
		c.Stop()
		return said + c.Errs.String()
	}
	said := do()
	assert.Contains(t, said, "msg=answered client=lab")
	assert.Contains(t, said, "refused")
	texts := do("--log-level", "texts")
	assert.Contains(t, texts, prompt, "it was requested")
	assert.Contains(t, texts, " answer=")
	inJSON := do("--log", "json")
	assert.Contains(t, inJSON, `"msg":"answered","client":"lab"`)
	for _, quiet := range []string{said, inJSON} {
		assert.NotContains(t, quiet, prompt)
	}
	for _, all := range []string{said, texts, inJSON} {
		assert.NotContains(t, all, secret)
		assert.NotContains(t, all, wrong)
	}
}
