package serve

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

const askChat = "/v1/chat/completions"

// TestServeCalls: a chat with tools is formatted by the template. The context of these models is too short for
// definitions, so only the conversation is sent.
func TestServeCalls(t *testing.T) {
	m, err := pilotfish.Open(clitest.TinyModel(t, "q8_0"), pilotfish.Options{})
	require.NoError(t, err)
	defer m.Close()
	ids, err := m.ChatTokens([]pilotfish.Message{{Role: "user", Content: "x"},
		{Role: "assistant", Calls: []pilotfish.ToolCall{{ID: "c", Name: "f", Arguments: []byte(`{"a":1}`)}}},
		{Role: "tool", Content: "y"}}, [][]byte{[]byte(`{"type":"function"}`)})
	require.NoError(t, err)
	text, err := m.Detokenize(ids)
	require.NoError(t, err)
	assert.Contains(t, text, "<tools>\n{\"type\": \"function\"}\n</tools>")
	assert.Contains(t, text, "assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>")
	assert.Contains(t, text, "user\n<tool_response>\ny\n</tool_response>")
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

// TestServeOtherTemplate: a gateway with a model that writes chats in another way is named in the log, and used.
func TestServeOtherTemplate(t *testing.T) {
	clitest.OwnFolders(t)
	m := clitest.TinyModel(t, "q8_0")
	other := otherModel(t, func(w *gguf.Writer) { gguf.Put(w, "tokenizer.chat_template", "{{ messages[0].content }}") })
	for model, warned := range map[string]bool{m: false, other: true} {
		address, pin, stop := clitest.StartCloud(t, "-m", model)
		s := clitest.StartServe(t, "-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--deadline", "off")
		v := s.Answer(t, askChat, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,`+
			`"pilotfish":{"provenance":true}}`)
		assert.Equal(t, "cloud", v.Choices[0].Own.Tokens[0].Origin)
		s.Stop()
		assert.Equal(t, warned, strings.Contains(s.Errs.String(), group.OtherTemplateText))
		stop()
	}
}

// TestServeUnverified: with the policy judge, a gateway that lacks the judge is named, and what it is asked instead.
func TestServeUnverified(t *testing.T) {
	small, at := clitest.StartPair(t)
	s := clitest.StartServe(t, append([]string{"-m", small, "--router", clitest.JudgeFile(t), "--policy", "judge",
		"--threshold", "0.5"}, at...)...)
	s.Stop()
	assert.Contains(t, s.Errs.String(), "the gateway has no judge")
	assert.Contains(t, s.Errs.String(), "it is asked for tokens of which the small model is unsure")
	assert.Contains(t, s.Errs.String(), "asked by the policy judge")
}

// TestServeDrain: a running answer finishes.
func TestServeDrain(t *testing.T) {
	s := clitest.StartServe(t, "-m", clitest.TinyModel(t, "q8_0"))
	answer, err := http.Post(s.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"x","stream":true,"max_tokens":450,"logit_bias":{"65":100}}`))
	require.NoError(t, err)
	defer answer.Body.Close()
	_, err = io.ReadFull(answer.Body, make([]byte, 10))
	require.NoError(t, err)
	go s.Stop()
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "[DONE]")
	s.Stop()
	assert.Equal(t, cli.ExitDone, s.Code)
}
