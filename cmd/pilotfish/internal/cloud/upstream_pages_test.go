package cloud

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

// TestUpstreamPages: the pages of a gateway for an engine show the engine's counts, and that it is not ready without an
// engine; no page waits for a hanging engine. The engine's key is in no page or log, and texts are logged only with
// --log-level texts.
func TestUpstreamPages(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	clitest.OwnFolders(t)
	const canary = "a canary that is a key"
	edge, away := clitest.TinyModel(t, "q8_0"), atomic.Bool{}
	dead := make(chan struct{})
	e := &fakeengine.Engine{Dialect: "llama", Key: canary,
		Fault: func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			if away.Load() {
				select { // it accepts the question and does not answer
				case <-r.Context().Done():
				case <-dead:
				}
			}
			return away.Load()
		}}
	address := clitest.EngineOf(t, edge, e)
	defer close(dead)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(canary), 0o600))
	start := func(args ...string) *clitest.RunningCloud {
		return clitest.StartedCloud(t, append([]string{"--listen", "127.0.0.1:0", "--admin", ":0", "--log-level",
			"debug",
			"--upstream", address, "--tokenizer", edge, "--engine", "key-file=" + key}, args...)...)
	}
	run := func(c *clitest.RunningCloud, deadline, tokens string) {
		clitest.RoutedTokens(t, "-m", edge, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--mode",
			"serial",
			"--deadline", deadline, "--tokens", tokens, "-n", "6")
	}
	c := start()
	at := c.Says(t, `msg="pages for operators" address=(\S+)`)
	run(c, "off", "5,6,7")
	now := clitest.MetricsOf(t, at)
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_upstream_up"]))
	assert.GreaterOrEqual(t, clitest.Sum(now["pilotfish_upstream_answers_total"]), 6.)
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_gateway_upstream_up"]))
	away.Store(true)
	run(c, "100ms", "8,9") // the answers to the earlier questions are in memory
	c.Says(t, `msg="an engine is out of service"`)
	assert.Zero(t, clitest.Sum(clitest.MetricsOf(t, at)["pilotfish_gateway_upstream_up"]))
	code, body := clitest.Page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.NotContains(t, body, canary)
	now = clitest.MetricsOf(t, at)
	assert.Zero(t, clitest.Sum(now["pilotfish_upstream_up"])+clitest.Sum(now["pilotfish_gateway_ready"]))
	assert.Equal(t, 1., clitest.Sum(now["pilotfish_gateway_sockets"]), "devices can still connect")
	c.Stop()
	assert.NotContains(t, c.Errs.String(), canary)
	assert.NotContains(t, c.Errs.String(), " text=")
	away.Store(false)
	c = start("--log-level", "texts")
	run(c, "off", "5,6,7")
	c.Stop()
	assert.Contains(t, c.Errs.String(), " text=")
	assert.NotContains(t, c.Errs.String(), canary)
}
