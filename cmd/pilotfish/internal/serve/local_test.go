package serve

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
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

// TestServeLocalFlag: with --local there is no gateway, whatever the environment says, and requests that need one
// fail.
func TestServeLocalFlag(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	c := clitest.StartedCloud(t, "-m", m, "--listen", "127.0.0.1:0", "--admin", ":0")
	verified := clitest.StartServe(t, "-m", m, "--cloud", c.Address, "--pin", c.Pin, "--verify", "0")
	const request = `{"prompt":"x","max_tokens":2,"pilotfish":{"local":true}}`
	status, text := verified.Ask(t, "/v1/completions", request)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "cannot verify")
	verified.Stop()

	t.Setenv("PILOTFISH_CLOUD", c.Address)
	t.Setenv("PILOTFISH_PIN", c.Pin)
	s := clitest.StartServe(t, "-m", m, "--local")
	assert.Zero(t, s.Answer(t, "/v1/completions", `{"prompt":"x","max_tokens":2}`).Own.Receipt)
	code, _, stderr := clitest.Chat(t, "hello\n", "-m", m, "--local", "-n", "3")
	assert.Equal(t, cli.ExitDone, code, stderr)
	tokens, connections := sentTo(t, c)
	assert.Zero(t, tokens)
	assert.Equal(t, 1., connections, "the connection of the server with verification")
}

// TestChatLocal: a local question is not sent, and neither is the rest of the conversation, also after it was saved;
// other conversations may be.
func TestChatLocal(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	address, pin, _ := clitest.StartCloud(t, "-m", m)
	args := []string{"-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off",
		"-n", "3"}
	saved := filepath.Join(t.TempDir(), "talk.json")
	lines := "/local on\nsecret\n/stats\n/local off\nmore\n/stats\n/save " + saved +
		"\n/cloud\n/clear\n/local\nopen\n/stats\n"
	code, _, stderr := clitest.Chat(t, lines, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, 2, strings.Count(stderr, "left this device for it: 0 tokens in 0 B, for all answers 0 B\n"), stderr)
	assert.Contains(t, stderr, "nothing of it leaves this device: /clear begins")
	assert.Contains(t, stderr, "the cloud may be asked")
	assert.Regexp(t, `left this device for it: [1-9]\d* tokens in [1-9]\d* B to `+address, stderr)

	lines = "again\n/stats\n/undo\n/undo\n/undo\nopen\n/stats\n/local x\n"
	code, _, stderr = clitest.Chat(t, lines, append(args, "--load", saved)...)
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "give on or off")
	assert.Equal(t, 1, strings.Count(stderr, "left this device for it: 0 tokens"), stderr)
	assert.Regexp(t, `left this device for it: [1-9]`, stderr, "without its local questions")

	code, _, stderr = clitest.Chat(t, "/cloud "+address+"\n", "-m", m, "--local")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "/local off comes before /cloud")
}
