package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/netproto/openai/answer"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

const askChat = "/v1/chat/completions"

// TestServe: a complete server with a model: its name, a chat and a text like those of run, a second turn with reuse,
// health, metrics, and a regular end.
func TestServe(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	s := clitest.StartServe(t, "-m", m, "--alias", "gpt-fish")
	_, text := s.Ask(t, "/v1/models", "")
	assert.Contains(t, text, `"id":"q8_0"`)
	assert.Contains(t, text, `"id":"gpt-fish"`)
	first := s.Answer(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"temperature":0,"max_tokens":9}`)
	assert.Equal(t, "gpt-fish", first.Model)
	assert.Regexp(t, `^fp_[0-9a-f]{12}_cpu_`, first.Fingerprint)
	code, stdout, stderr := clitest.Call(t, "run", "-m", m, "-n", "9", "hi")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, strings.TrimSuffix(stdout, "\n"), first.Choices[0].Message.Content)
	said, err := json.Marshal(first.Choices[0].Message.Content)
	require.NoError(t, err)
	next := s.Answer(t, askChat,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":`+string(said)+
			`},{"role":"user","content":"more"}],"temperature":0,"max_tokens":3}`)
	assert.GreaterOrEqual(t, next.Usage.Details.Cached, first.Usage.Prompt)
	assert.Less(t, next.Usage.Details.Cached, next.Usage.Prompt)
	raw := s.Answer(t, "/v1/completions", `{"prompt":"hi","temperature":0,"max_tokens":9,"model":"q8_0"}`)
	code, stdout, stderr = clitest.Call(t, "run", "-m", m, "-n", "9", "--raw", "hi")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, strings.TrimSuffix(stdout, "\n"), raw.Choices[0].Text)
	_, text = s.Ask(t, "/health", "")
	assert.Contains(t, text, `"ok"`)
	for range 1000 { // a request is counted after its answer is sent
		if _, text = s.Ask(t, "/metrics", ""); strings.Contains(text, "generated_tokens_total 21\n") {
			break
		}
	}
	assert.Contains(t, text, "pilotfish_serve_generated_tokens_total 21\n")
	assert.Contains(t, text, "pilotfish_serve_sessions 2\n")
	assert.Contains(t, text, `pilotfish_serve_requests_total{code="none",endpoint="chat",status="200"} 2`)
	s.Stop()
	assert.Equal(t, cli.ExitDone, s.Code)
	assert.Contains(t, s.Errs.String(), "draining")
	assert.NotContains(t, s.Errs.String(), "GOROUTINE")
}

// TestServeSettings: each setting has its effect on a real model, and the reported seed gives the same answer again.
func TestServeSettings(t *testing.T) {
	s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"))
	ask := func(more string) clitest.Served {
		return s.Answer(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":12`+more+`}`)
	}
	text := func(more string) string { return ask(more).Choices[0].Message.Content }
	greedy := text(`,"temperature":0`)
	assert.Equal(t, greedy, text(`,"top_p":0`))
	drawn := ask("")
	assert.NotEqual(t, greedy, drawn.Choices[0].Message.Content)
	assert.Equal(t, drawn.Choices[0].Message.Content, text(fmt.Sprintf(`,"seed":%d`, drawn.Own.Seed)))
	assert.NotEqual(t, text(`,"seed":1`), text(`,"seed":2`))
	for _, more := range []string{`,"top_p":0.01`, `,"min_p":0.99`, `,"top_k":1`} {
		assert.Equal(t, greedy, text(`,"seed":1`+more), more)
	}
	for _, more := range []string{`,"presence_penalty":2`, `,"frequency_penalty":2`, `,"repeat_penalty":9`} {
		assert.NotEqual(t, text(`,"seed":1,"temperature":0.1`), text(`,"seed":1,"temperature":0.1`+more), more)
	}
	assert.Equal(t, strings.Repeat("A", 12), text(`,"temperature":0,"logit_bias":{"65":100}`))
	stopped := ask(`,"temperature":0,"logit_bias":{"65":100},"stop":["x","AAA"]`)
	assert.Empty(t, stopped.Choices[0].Message.Content)
	assert.Equal(t, "stop", stopped.Choices[0].Finish)
	probs := ask(`,"temperature":0,"logprobs":true,"top_logprobs":3`).Choices[0].LogProbs.Content
	require.Len(t, probs, 12)
	for _, p := range probs {
		require.Len(t, p.Top, 3)
		assert.Equal(t, p.Top[0].LogProb, p.LogProb, "greedy takes the best")
		assert.Less(t, p.Top[1].LogProb, p.LogProb)
		assert.Negative(t, p.LogProb)
	}
	alone := ask(`,"logprobs":true,"seed":1`).Choices[0].LogProbs.Content
	require.Len(t, alone, 12)
	assert.Negative(t, alone[0].LogProb)
	assert.Empty(t, alone[0].Top)
	_, echo := s.Ask(t, "/v1/completions", `{"prompt":[1,2,3],"echo":true,"logprobs":0,"max_tokens":0}`)
	assert.Regexp(t, `"token_logprobs":\[null,-\d[^,]*,-\d[^,]*\]`, echo, "the first token of a text has none")
	assert.Contains(t, echo, `"top_logprobs":[null,{},{}]`)
	_, echo = s.Ask(t, "/v1/completions", `{"prompt":[1,2,3],"echo":true,"logprobs":2,"max_tokens":0}`)
	assert.Regexp(t, `"top_logprobs":\[null,\{"[^:]*":-[^,]*,"[^:]*":-[^,]*\},\{`, echo)
	two := ask(`,"n":2,"seed":3`)
	require.Len(t, two.Choices, 2)
	assert.NotEqual(t, two.Choices[0].Message.Content, two.Choices[1].Message.Content)
	assert.Equal(t, text(`,"seed":4`), two.Choices[1].Message.Content, "the next choice has the next seed")
}

// TestServeFormats: answers and calls of a model with random weights follow their schemas.
func TestServeFormats(t *testing.T) {
	s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"))
	for i, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":99},"b":{"enum":["x",null,7]}},
			"required":["a","b"],"additionalProperties":false}`,
		`{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":4}`,
		`{"$defs":{"t":{"type":"object","properties":{"v":{"type":"string","maxLength":3},
			"n":{"anyOf":[{"type":"null"},{"const":1}]}},"required":["v","n"],
			"additionalProperties":false}},"$ref":"#/$defs/t"}`,
	} {
		v := s.Answer(t, askChat,
			fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}],"max_tokens":200,"seed":%d,`+
				`"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":%s}}}`, i, i,
				schema))
		require.Equal(t, "stop", v.Choices[0].Finish, v.Choices[0].Message.Content)
		validates(t, schema, v.Choices[0].Message.Content)
	}
	const parameters = `{"type":"object","properties":{"n":{"$ref":"#/$defs/d"}},"required":["n"],
		"additionalProperties":false,"$defs":{"d":{"type":"integer","minimum":1,"maximum":9}}}`
	const tools = `"tools":[{"type":"function","function":{"name":"f",
		"parameters":` + parameters + `}},{"type":"function","function":{"name":"g","parameters":` + parameters + `}}]`
	for i, choice := range []string{`"required"`, `{"type":"function","function":{"name":"g"}}`} {
		status, text := s.Ask(t, askChat,
			`{"messages":[{"role":"user","content":"x"}],"max_tokens":100,"tool_choice":`+choice+`,`+tools+`}`)
		if status == http.StatusBadRequest { // the context of this model is short
			assert.Contains(t, text, "context_length_exceeded")
			continue
		}
		var v clitest.Served
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		require.Len(t, v.Choices[0].Message.Calls, 1, text)
		call := v.Choices[0].Message.Calls[0].Function
		validates(t, parameters, call.Arguments)
		assert.Contains(t, []string{"fg", "g"}[i], call.Name)
		assert.Equal(t, "tool_calls", v.Choices[0].Finish)
	}
	object := s.Answer(t, askChat,
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":40,"response_format":{"type":"json_object"}}`)
	assert.True(t, strings.HasPrefix(object.Choices[0].Message.Content, "{"))
	status, text := s.Ask(t, askChat,
		`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",`+
			`"json_schema":{"name":"x","schema":{"type":"object","contains":{}}}}}`)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, text, "#/contains")
	status, text = s.Ask(t, askChat,
		`{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",`+
			`"json_schema":{"name":"x","schema":{"const":1,"odd":2}}}}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"ignored":["response_format.json_schema.schema#/odd"]`)
}

// validates checks JSON text against a schema.
func validates(t *testing.T, schema, text string) {
	t.Helper()
	var s, v any
	require.NoError(t, json.Unmarshal([]byte(schema), &s))
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("s.json", s))
	compiled, err := c.Compile("s.json")
	require.NoError(t, err)
	assert.NoError(t, compiled.Validate(v), text)
}

// TestServeCalls: a chat with tools is formatted by the template. The context of these models is too short for
// definitions, so only the conversation is sent.
func TestServeCalls(t *testing.T) {
	m, err := pilotfish.Open(clitest.TinyModel(t, "q8_0"), pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	model, err := newServedModel(m)
	require.NoError(t, err)
	ids, err := model.Chat(answer.Conversation{
		Messages: []answer.Message{{Role: "user", Content: "x"},
			{Role: "assistant", Calls: []answer.Call{{ID: "c", Name: "f", Arguments: json.RawMessage(`{"a":1}`)}}},
			{Role: "tool", Content: "y"}},
		Tools: []json.RawMessage{json.RawMessage(`{"type":"function"}`)},
	})
	require.NoError(t, err)
	text, err := m.Detokenize(ids)
	require.NoError(t, err)
	assert.Contains(t, text, "<tools>\n{\"type\": \"function\"}\n</tools>")
	assert.Contains(t, text, "assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>")
	assert.Contains(t, text, "user\n<tool_response>\ny\n</tool_response>")
	assert.Equal(t, 512, model.Vocabulary())
	assert.Equal(t, []byte("A"), model.Bytes(65))
}

// TestServeAccess: keys from a file and from the environment, origins, and paths that need no key.
func TestServeAccess(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t,
		os.WriteFile(keys, []byte("# of the lab\n\nfirst-key-0123456789\nsecond-key-0123456789\n"), 0o600))
	s := clitest.StartServe(t, "-m", m, "--api-key-file", keys, "--cors-origin", "https://example.org")
	for key, want := range map[string]int{"": 401, "first-key-0123456789": 200, "second-key-0123456789": 200,
		"# of the lab": 401} {
		s.Key = key
		status, _ := s.Ask(t, "/v1/models", "")
		assert.Equal(t, want, status, key)
	}
	for origin, want := range map[string]int{"https://example.org": 200, "https://example.com": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/health", nil)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, want, answer.StatusCode, origin)
	}
	assert.NotContains(t, s.Errs.String(), "0123456789")
	t.Setenv(cli.ApiKeyVariable, "key-of-the-environment")
	s = clitest.StartServe(t, "-m", m)
	status, _ := s.Ask(t, "/v1/models", "")
	assert.Equal(t, 401, status)
	s.Key = "key-of-the-environment"
	status, _ = s.Ask(t, "/v1/models", "")
	assert.Equal(t, 200, status)
}

// TestServePage: the chat page is served unless --no-page is given. On loopback the host is checked: allowed are names
// of this machine and of allowed origins. Refused requests are counted and logged.
func TestServePage(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	s := clitest.StartServe(t, "-m", m, "--cors-origin", "https://chat.example")
	status, text := s.Ask(t, "/", "")
	assert.Equal(t, 200, status)
	assert.Contains(t, text, "<title>Pilotfish</title>")
	assert.Contains(t, s.Errs.String(), "chat page: "+s.URL+"/\n")
	for host, want := range map[string]int{"localhost": 200, "chat.example": 200, "evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/models", nil)
		require.NoError(t, err)
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, want, answer.StatusCode, host)
	}
	_, text = s.Ask(t, "/metrics", "")
	assert.Contains(t, text, `pilotfish_serve_refused_total{code="host_not_allowed",status="403"} 1`)
	assert.Regexp(t, `msg=refused status=403 code=host_not_allowed method=GET path=/v1/models from=127.0.0.1 `+
		`host=evil.example`, s.Errs.String())

	s = clitest.StartServe(t, "-m", m, "--no-page")
	status, _ = s.Ask(t, "/", "")
	assert.Equal(t, 404, status)
	assert.NotContains(t, s.Errs.String(), "chat page")

	for listen, want := range map[string][]string{
		"127.0.0.2:80": {"localhost", "127.0.0.1", "::1", "127.0.0.2", "chat.example"}, "0.0.0.0:80": nil, ":80": nil,
	} {
		assert.Equal(t, want, (&serveAccess{origins: []string{"https://chat.example:8443"}}).hosts(listen))
		assert.Nil(t, (&serveAccess{origins: []string{"*"}}).hosts(listen), "any origin is allowed: so is any host")
	}
}

// TestServeKVFolder: after a restart only the last token of a prompt is computed, and the answer has the same bits; the
// files are limited, and another model ignores them.
func TestServeKVFolder(t *testing.T) {
	folder, m := filepath.Join(t.TempDir(), "kv"), clitest.TinyModel(t, "q8_0")
	const body = `{"messages":[{"role":"system","content":"You are a fish, who eats, sleeps and swims."},` +
		`{"role":"user","content":"%s"}],"temperature":0,"max_tokens":5,"logprobs":true,"top_logprobs":3}`
	first, second := fmt.Sprintf(body, "hi"), fmt.Sprintf(body, "and who are you?")
	s := clitest.StartServe(t, "-m", m, "--kv-folder", folder)
	want := s.Answer(t, askChat, first)
	assert.Zero(t, want.Usage.Details.Cached)
	other := s.Answer(t, askChat, second)
	assert.Greater(t, other.Usage.Details.Cached, 20, "the system message is copied")
	for range 2 {
		assert.Equal(t, want.Usage.Prompt-1, s.Answer(t, askChat, first).Usage.Details.Cached)
		assert.Equal(t, other.Usage.Prompt-1, s.Answer(t, askChat, second).Usage.Details.Cached)
	}
	code, _, stderr := clitest.Call(t, "serve", "-m", m, "--kv-folder", folder, "--listen", "127.0.0.1:0")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "give each server a folder of its own")
	s.Stop()
	require.Zero(t, s.Code, s.Errs.String())

	stored := func() (all []os.FileInfo) {
		names, err := filepath.Glob(filepath.Join(folder, "*.kv"))
		require.NoError(t, err)
		require.Len(t, names, 2)
		for _, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			all = append(all, info)
		}
		return all
	}
	before := stored()
	s = clitest.StartServe(t, "-m", m, "--kv-folder", folder, "--threads", "1")
	got := s.Answer(t, askChat, first)
	assert.Equal(t, want.Usage.Prompt-1, got.Usage.Details.Cached)
	assert.Equal(t, want.Choices, got.Choices, "including all log-probabilities")
	assert.Equal(t, other.Usage.Prompt-1, s.Answer(t, askChat, second).Usage.Details.Cached)
	s.Stop()
	assert.Contains(t, s.Errs.String(), "texts=2 of_no_use=0")
	for i, now := range stored() {
		assert.True(t, os.SameFile(before[i], now), "a stored text is not written again")
	}

	s = clitest.StartServe(t, "-m", clitest.TinyModel(t, "f16"), "--kv-folder", folder, "--limit",
		"kv-folder-bytes=150000")
	assert.Zero(t, s.Answer(t, askChat, first).Usage.Details.Cached)
	s.Stop()
	assert.Contains(t, s.Errs.String(), "are of another model")
	assert.NotContains(t, s.Errs.String(), "swims")
	var bytes int64
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		bytes += info.Size()
	}
	assert.LessOrEqual(t, bytes, int64(150000))
	assert.Positive(t, bytes)
}

// TestServeRefuses: invalid calls are refused before the model is opened.
func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	empty, short, odd := write("empty", "\n# none\n"), write("short", "secret"),
		write("odd", "secret with a blank in it")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--kv-folder " + short, cli.ExitFailed, "--kv-folder: "},
		{"--listen :0", cli.ExitUsage, "can be reached by others"},
		{"--listen nonsense", cli.ExitUsage, `--listen "nonsense" is not an address`},
		{"--listen 8080", cli.ExitUsage, `--listen "8080" is not an address: give host:port`},
		{"--api-key-file " + empty, cli.ExitFailed, "it has no API key"},
		{"--api-key-file " + short, cli.ExitFailed, "line 1: the API key has 6 bytes"},
		{"--api-key-file " + odd, cli.ExitFailed, "characters that a header cannot carry"},
		{"--api-key-file " + dir + "/none", cli.ExitFailed, "--api-key-file"},
		{"--cors-origin example.org", cli.ExitUsage, "is not an origin"},
		{"--cors-origin https://example.org/", cli.ExitUsage, "is not an origin"},
		{"--cors-origin file://", cli.ExitUsage, "is not an origin"},
		{"--cors-origin //example.org", cli.ExitUsage, "is not an origin"},
		{"--cert " + short + " --key " + short, cli.ExitFailed, "--cert " + short},
		{"--cloud x", cli.ExitUsage, `--cloud "x"`}, {"--cloud x:1 --pin 00", cli.ExitUsage, "--pin"},
	} {
		args := append([]string{"serve", "-m", dir + "/no-such.gguf"}, strings.Fields(c.args)...)
		code, stdout, stderr := clitest.Call(t, args...)
		assert.Equal(t, c.code, code, "%s: %s", c.args, stderr)
		assert.Contains(t, stderr, c.want, c.args)
		assert.NotContains(t, stderr, "secret")
		assert.Empty(t, stdout)
	}
	served := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"), "-c", "100", "--limit", "max-prompt=100")
	assert.Contains(t, served.Errs.String(), "--limit max-prompt=100: no effect: the context has room for prompts of 99")
	served.Stop()
	clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"), "-c", "100", "--limit", "max-prompt=99").Stop()
	code, _, stderr := clitest.Call(t, "serve", "-m", dir+"/no-such.gguf", "--listen", "127.0.0.1:0")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "no-such.gguf")
	t.Setenv(cli.ApiKeyVariable, " ")
	code, _, stderr = clitest.Call(t, "serve", "-m", dir+"/no-such.gguf")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, cli.ApiKeyVariable+": the API key has 0 bytes")
}

// TestServeLimits: the flags set the limits of the server.
func TestServeLimits(t *testing.T) {
	m := clitest.TinyModel(t, "q8_0")
	s := clitest.StartServe(t, "-m", m, "--limit", "max-prompt=5", "--provenance", "--temp", "0", "--log", "json",
		"-c", "100",
		"--threads", "1", "--kv", "f32",
		"--huge-pages", "off", "--backend", "cpu")
	status, text := s.Ask(t, "/v1/completions", `{"prompt":[1,2,3,4,5,6]}`)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "the prompt has 6 tokens, and this server takes at most 5 of a context of 100")
	v := s.Answer(t, "/v1/completions", `{"prompt":[1,2,3],"max_tokens":4}`)
	require.Len(t, v.Choices[0].Own.Tokens, 4)
	assert.Equal(t, "edge", v.Choices[0].Own.Tokens[0].Origin)
	assert.Equal(t, v.Choices[0].Text,
		s.Answer(t, "/v1/completions", `{"prompt":[1,2,3],"max_tokens":4}`).Choices[0].Text)
	s.Stop()
	assert.Contains(t, s.Errs.String(), `"msg":"request"`)
}

// TestServeTLS: with a certificate the server uses HTTPS.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	certPEM, keyPEM, err := engine.NewCertificate()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"), "--cert", cert, "--key", key)
	assert.True(t, strings.HasPrefix(s.URL, "https://"))
	status, _ := s.Ask(t, "/health", "")
	assert.Equal(t, 200, status)
}

// TestServeOpen: an address that others can reach needs --open.
func TestServeOpen(t *testing.T) {
	s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"), "--open", "--listen", "0.0.0.0:0")
	assert.Contains(t, s.Errs.String(), "open to every program")
}

// TestServeCloud: tokens come from the large model at a gateway, each setting of routing has its effect, and if the
// gateway is down the answers are complete without its tokens.
func TestServeCloud(t *testing.T) {
	clitest.OwnFolders(t)
	small, large := clitest.TinyModel(t, "q8_0"), clitest.TinyModel(t, "f16")
	address, pin, stop := clitest.StartCloud(t, "-m", large)
	origins := func(s *clitest.RunningServe, more string) map[string]int {
		v := s.Answer(t, askChat,
			`{"messages":[{"role":"user","content":"hi"}],"temperature":0,"max_tokens":20`+more+`}`)
		count := map[string]int{}
		for _, o := range v.Choices[0].Own.Tokens {
			count[o.Origin]++
		}
		return count
	}
	for args, want := range map[string]map[string]int{
		"--policy always --deadline off":                            {"cloud": 20},
		"--policy always --deadline off --mode serial":              {"cloud": 20},
		"--policy never":                                            {"edge": 20},
		"--budget 1 --deadline off":                                 {"cloud": 20},
		"--threshold 0 --deadline off":                              {"edge": 20},
		"--threshold 1 --deadline off --ahead 2 --window 8":         {"cloud": 20},
		"--threshold 1 --deadline off --inflight 2 --branches 2":    {"cloud": 20},
		"--policy entropy --threshold 1 --deadline off --no-resume": {"cloud": 20},
	} {
		s := clitest.StartServe(t, append([]string{"-m", small, "--provenance", "--cloud", address, "--pin", pin},
			strings.Fields(args)...)...)
		assert.Equal(t, want, origins(s, ""), args)
		s.Stop()
		assert.Equal(t, cli.ExitDone, s.Code)
	}
	s := clitest.StartServe(t, "-m", small, "--cloud", address, "--pin", pin, "--verify", "0", "--deadline", "off")
	v := s.Answer(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"temperature":0,"max_tokens":12}`)
	code, stdout, stderr := clitest.Call(t, "run", "-m", large, "-n", "12", "hi")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, strings.TrimSuffix(stdout, "\n"), v.Choices[0].Message.Content, "the large model's own text")
	status, text := s.Ask(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"presence_penalty":1}`)
	assert.Equal(t, http.StatusBadRequest, status, text)
	assert.Contains(t, text, "verification")
	s.Stop()
	s = clitest.StartServe(t, "-m", small, "--cloud", address, "--pin", pin, "--policy", "always", "--provenance",
		"--deadline",
		"20ms")
	stop()
	assert.Equal(t, 20, origins(s, "")["edge-timeout"])
	s.Stop()
	code, _, stderr = clitest.Call(t, "serve", "-m", small, "--listen", "127.0.0.1:0", "--cloud",
		"no-such-host.invalid:1")
	assert.Equal(t, cli.ExitFailed, code)
	assert.Contains(t, stderr, "no-such-host.invalid")
}

// TestServeCloudRefuses: a configuration error of the gateway ends the server at once; a gateway that is down does not.
func TestServeCloudRefuses(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("right-0123456789abcdef\n"), 0o600))
	address, pin, _ := clitest.StartCloud(t, "-m", m, "--token-file", token)
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte("wrong-0123456789abcdef\n"), 0o600))
	for args, want := range map[string]string{
		"--pin " + strings.Repeat("ab", 32) + " --token-file " + token: "fingerprint",
		"--pin " + pin + " --token-file " + wrong:                      "--token-file",
		"--pin " + pin: "PILOTFISH_TOKEN",
	} {
		code, stdout, stderr := clitest.Call(t,
			append([]string{"serve", "-m", m, "--listen", "127.0.0.1:0", "--cloud", address},
				strings.Fields(args)...)...)
		assert.Equal(t, cli.ExitFailed, code, args)
		assert.Contains(t, stderr, want, args)
		assert.NotContains(t, stderr, "0123456789")
		assert.Empty(t, stdout)
	}
	s := clitest.StartServe(t, "-m", m, "--cloud", clitest.ClosedPort, "--pin", pin, "--deadline", "10ms", "--policy",
		"always")
	assert.Contains(t, s.Errs.String(), "the gateway cannot be reached")
	s.Answer(t, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
}

// TestServeOtherTemplate: a gateway with a model that writes chats in another way is named in the log, and used.
func TestServeOtherTemplate(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	other := otherModel(t, func(w *gguf.Writer) { gguf.Put(w, "tokenizer.chat_template", "{{ messages[0].content }}") })
	for model, warned := range map[string]bool{m: false, other: true} {
		address, pin, stop := clitest.StartCloud(t, "-m", model)
		s := clitest.StartServe(t, "-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off",
			"--provenance")
		v := s.Answer(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2}`)
		assert.Equal(t, "cloud", v.Choices[0].Own.Tokens[0].Origin)
		s.Stop()
		assert.Equal(t, warned, strings.Contains(s.Errs.String(), group.OtherTemplateText))
		stop()
	}
}

// TestServeRouterWidth: a router that was trained for another model is an error at once, not a gateway without answers.
func TestServeRouterWidth(t *testing.T) {
	clitest.OwnFolders(t)
	net := clitest.DemoFile("router.gguf")
	var f viaFlags
	var p pflag.FlagSet
	f.register(&p)
	require.NoError(t, p.Parse([]string{"--cloud", clitest.ClosedPort, "--router", net}))
	dial, err := f.check(&cli.App{Env: os.Getenv})
	require.NoError(t, err)
	m := served(t, clitest.TinyModel(t, "q8_0")).m
	_, hangUp, err := f.open(t.Context(), m, dial, slog.New(slog.DiscardHandler))
	if err == nil {
		hangUp()
	}
	assert.ErrorContains(t, err, "--router "+net+": ")
}

// TestServeRouter: the router in a file decides, and a missing file is named.
func TestServeRouter(t *testing.T) {
	_, _, net := clitest.DemoPairFiles(t)
	for file, want := range map[string]string{net: "", "no-such-router.gguf": "no-such-router.gguf"} {
		var f viaFlags
		var p pflag.FlagSet
		f.register(&p)
		require.NoError(t, p.Parse([]string{"--cloud", "x:1", "--router", file}))
		_, err := f.check(&cli.App{Env: os.Getenv})
		if want != "" {
			assert.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		chosen, err := f.route.NewRouter()
		require.NoError(t, err)
		width := f.route.File.Net.Dim()
		assert.Positive(t, width)
		sure := chosen.Decide(pilotfish.Head{Hidden: make([]float32, width), Best: make([]pilotfish.Candidate, 2)})
		assert.GreaterOrEqual(t, sure.Confidence, float32(0))
	}
}

// TestServeDrain: a running answer finishes, new ones are refused; after --limit drain= it is cut off.
func TestServeDrain(t *testing.T) {
	for drain, whole := range map[string]bool{"1m": true, "0s": false} {
		s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"), "--limit", "drain="+drain)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions",
			strings.NewReader(`{"prompt":"x","stream":true,"max_tokens":450,"logit_bias":{"65":100}}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		first := make([]byte, 10)
		_, err = io.ReadFull(answer.Body, first)
		require.NoError(t, err)
		go s.Stop()
		rest, err := io.ReadAll(answer.Body)
		require.NoError(t, answer.Body.Close())
		if whole {
			require.NoError(t, err)
			assert.Contains(t, string(rest), "[DONE]")
		}
		s.Stop()
		assert.Equal(t, cli.ExitDone, s.Code)
	}
}

// TestServeWithoutChat: a model without a chat template refuses chats, and continues texts.
func TestServeWithoutChat(t *testing.T) {
	s := clitest.StartServe(t, "-m", sharedtest.Shared(t, "data", "models", "stories260k-qwen2-f32.gguf"), "--log",
		"off")
	status, answer := s.Ask(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, answer, "send a text to /v1/completions")
	status, answer = s.Ask(t, "/v1/completions", `{"prompt":"Once upon a time","max_tokens":5}`)
	assert.Equal(t, http.StatusOK, status, answer)
}
