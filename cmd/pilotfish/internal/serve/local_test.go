package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sentTo returns what a gateway counts: the tokens of texts that it received, and connections.
func sentTo(t *testing.T, c *clitest.RunningCloud) (tokens, connections float64) {
	t.Helper()
	at := c.Says(t, `msg="pages for operators" address=(\S+)`)
	all := clitest.MetricsOf(t, at)
	return clitest.Sum(all["pilotfish_gateway_delta_tokens_total"]),
		clitest.Sum(all["pilotfish_gateway_connections_total"])
}

// TestServeLocal: nothing of local requests is sent to the gateway; the receipts of other requests account for
// everything that is.
func TestServeLocal(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", ":0")
	s := clitest.StartServe(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--policy", "always", "--deadline", "off")
	const chat = `"max_tokens":5,"temperature":0,"messages":[{"role":"user","content":"hello there"`
	for path, body := range map[string]string{
		askChat:           `{` + chat + `}],"pilotfish":{"local":true,"provenance":true}}`,
		"/v1/completions": `{"prompt":["a","b"],"max_tokens":5,"pilotfish":{"local":true}}`,
	} {
		v := s.Answer(t, path, body)
		assert.Equal(t, clitest.Receipt{}, v.Own.Receipt)
		for _, token := range v.Choices[0].Own.Tokens {
			assert.Equal(t, "edge", token.Origin)
		}
	}
	marked := s.Answer(t, askChat, `{`+chat+`,"pilotfish":{"local":true}}]}`)
	assert.Equal(t, clitest.Receipt{}, marked.Own.Receipt)
	again := s.Answer(t, askChat, `{`+chat+`}]}`)
	assert.Equal(t, clitest.Receipt{}, again.Own.Receipt, "its message is marked as local")
	require.Eventually(t, func() bool {
		_, connections := sentTo(t, c)
		return connections == 1
	}, time.Minute, time.Millisecond, "the device connects before the first question")
	tokens, _ := sentTo(t, c)
	assert.Zero(t, tokens)

	v := s.Answer(t, askChat, strings.Replace(`{`+chat+`}],"pilotfish":{"provenance":true}}`, "hello", "hi", 1))
	assert.Equal(t, "cloud", v.Choices[0].Own.Tokens[0].Origin)
	got := v.Own.Receipt
	assert.Equal(t, c.Address, got.To)
	assert.GreaterOrEqual(t, got.Tokens, v.Usage.Prompt, "the prompt, and the questions after it")
	assert.Greater(t, got.Bytes, got.Tokens)
	tokens, _ = sentTo(t, c)
	assert.LessOrEqual(t, tokens, float64(got.Tokens), "a question that was cancelled in flight is not counted")
	assert.GreaterOrEqual(t, tokens, float64(v.Usage.Prompt))
}
