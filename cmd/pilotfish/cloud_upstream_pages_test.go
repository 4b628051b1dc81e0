package main

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/fakeengine"
)

// TestUpstreamPages: a gateway in front of an engine says on its pages what the engine did, and that it is not ready
// while no engine is there; no page waits for one that does not answer. Its key is nowhere, and texts are in the log
// only where --log-text is given.
func TestUpstreamPages(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	ownFolders(t)
	const canary = "a canary that is a key"
	edge, away := tinyModel(t, "q8_0"), atomic.Bool{}
	dead := make(chan struct{})
	e := &fakeengine.Engine{Dialect: "llama", Key: canary,
		Fault: func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			if away.Load() {
				select { // it takes the question, and that is all
				case <-r.Context().Done():
				case <-dead:
				}
			}
			return away.Load()
		}}
	address := engineOf(t, edge, e)
	defer close(dead)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(canary), 0o600))
	start := func(args ...string) *runningCloud {
		return startedCloud(t, append([]string{"--listen", "127.0.0.1:0", "--admin", ":0", "--log-level", "debug",
			"--upstream", address, "--tokenizer", edge, "--engine", "key-file=" + key}, args...)...)
	}
	run := func(c *runningCloud, deadline, tokens string) {
		routedTokens(t, "-m", edge, "--cloud", c.address, "--pin", c.pin, "--policy", "always", "--mode", "serial",
			"--deadline", deadline, "--tokens", tokens, "-n", "6")
	}
	c := start()
	at := c.says(t, `msg="pages for operators" address=(\S+)`)
	run(c, "off", "5,6,7")
	now := metricsOf(t, at)
	assert.Equal(t, 1., sum(now["pilotfish_upstream_up"]))
	assert.GreaterOrEqual(t, sum(now["pilotfish_upstream_answers_total"]), 6.)
	assert.Equal(t, 1., sum(now["pilotfish_gateway_upstream_up"]))
	away.Store(true)
	run(c, "100ms", "8,9") // the answers to the questions before are known
	c.says(t, `msg="an engine is out of service"`)
	assert.Zero(t, sum(metricsOf(t, at)["pilotfish_gateway_upstream_up"]))
	code, body := page(t, at, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.NotContains(t, body, canary)
	now = metricsOf(t, at)
	assert.Zero(t, sum(now["pilotfish_upstream_up"])+sum(now["pilotfish_gateway_ready"]))
	assert.Equal(t, 1., sum(now["pilotfish_gateway_sockets"]), "devices are let in all the same")
	c.stop()
	assert.NotContains(t, c.errs.String(), canary)
	assert.NotContains(t, c.errs.String(), " text=")
	away.Store(false)
	c = start("--log-text")
	run(c, "off", "5,6,7")
	c.stop()
	assert.Contains(t, c.errs.String(), " text=")
	assert.NotContains(t, c.errs.String(), canary)
}
