package main

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder passes on packets between a device and a gateway, and counts the bytes that the device sends.
type recorder struct {
	address string
	mu      sync.Mutex
	sent    int
	moved   time.Time // when the last packet came, from either side
}

// record is a way to a gateway until the test ends.
func record(t *testing.T, gateway string) *recorder {
	t.Helper()
	near, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	far, err := net.Dial("udp", gateway)
	require.NoError(t, err)
	r := &recorder{address: near.LocalAddr().String(), moved: time.Now()}
	var device net.Addr
	var running sync.WaitGroup
	t.Cleanup(func() {
		near.Close()
		far.Close()
		running.Wait()
	})
	running.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, from, err := near.ReadFrom(b)
			if err != nil {
				return
			}
			r.mu.Lock()
			device, r.sent, r.moved = from, r.sent+n, time.Now()
			r.mu.Unlock()
			_, _ = far.Write(b[:n]) // what gets lost is sent again
		}
	})
	running.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, err := far.Read(b)
			if err != nil {
				return
			}
			r.mu.Lock()
			to := device
			r.moved = time.Now()
			r.mu.Unlock()
			_, _ = near.WriteTo(b[:n], to)
		}
	})
	return r
}

// quiet waits until nothing has moved for a while, and returns how many bytes the device has sent.
func (r *recorder) quiet(t *testing.T) (sent int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		sent = r.sent
		return time.Since(r.moved) > 300*time.Millisecond
	}, 30*time.Second, 20*time.Millisecond)
	return sent
}

// TestServeLocal: of a local request not a byte leaves, of others as many as their receipt says at least.
func TestServeLocal(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address, pin, _ := startCloud(t, "-m", m)
	way := record(t, address)
	s := startServe(t, "-m", m, "--cloud", way.address, "--pin", pin, "--policy", "always", "--deadline", "off")
	before := way.quiet(t)
	assert.Positive(t, before, "the gateway is known")
	const chat = `"max_tokens":5,"temperature":0,"messages":[{"role":"user","content":"hello there"`
	for path, body := range map[string]string{
		askChat:           `{` + chat + `}],"pilotfish":{"local":true,"provenance":true}}`,
		"/v1/completions": `{"prompt":["a","b"],"max_tokens":5,"pilotfish":{"local":true}}`,
	} {
		v := s.answer(t, path, body)
		assert.Equal(t, receipt{}, v.Own.Receipt)
		for _, token := range v.Choices[0].Own.Tokens {
			assert.Equal(t, "edge", token.Origin)
		}
	}
	marked := s.answer(t, askChat, `{`+chat+`,"pilotfish":{"local":true}}]}`)
	assert.Equal(t, receipt{}, marked.Own.Receipt)
	again := s.answer(t, askChat, `{`+chat+`}]}`)
	assert.Equal(t, receipt{}, again.Own.Receipt, "its message is known")
	assert.Equal(t, before, way.quiet(t), "not a byte has left")

	v := s.answer(t, askChat, strings.Replace(`{`+chat+`}],"pilotfish":{"provenance":true}}`, "hello", "hi", 1))
	assert.Equal(t, "cloud", v.Choices[0].Own.Tokens[0].Origin)
	got := v.Own.Receipt
	assert.Equal(t, way.address, got.To)
	assert.GreaterOrEqual(t, got.Tokens, v.Usage.Prompt, "the prompt, and what was asked behind it")
	assert.Greater(t, got.Bytes, got.Tokens)
	assert.Less(t, got.Bytes, way.quiet(t)-before)
}

// receipt is what an answer tells of what has left.
type receipt struct {
	Tokens, Bytes int
	To            string
}

// TestServeLocalFlag: with --local there is no gateway, whatever the environment says; on the command line there cannot
// be one. What only a gateway can do fails.
func TestServeLocalFlag(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address, pin, _ := startCloud(t, "-m", m)
	way := record(t, address)
	for _, command := range []string{"serve", "chat"} {
		code, _, stderr := call(t, command, "-m", m, "--local", "--cloud", way.address)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "--cloud has no effect with --local")
	}
	verified := startServe(t, "-m", m, "--cloud", way.address, "--pin", pin, "--verify", "0")
	const request = `{"prompt":"x","max_tokens":2,"pilotfish":{"local":true}}`
	status, text := verified.ask(t, "/v1/completions", request)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "cannot verify")
	verified.stop()

	t.Setenv("PILOTFISH_CLOUD", way.address)
	t.Setenv("PILOTFISH_PIN", pin)
	before := way.quiet(t)
	s := startServe(t, "-m", m, "--local")
	assert.Zero(t, s.answer(t, "/v1/completions", `{"prompt":"x","max_tokens":2}`).Own.Receipt)
	code, _, stderr := chat(t, "hello\n", "-m", m, "--local", "-n", "3")
	assert.Equal(t, exitDone, code, stderr)
	assert.Equal(t, before, way.quiet(t))
}

// TestChatLocal: a local question stays here, and with it the rest of the conversation, also after it was saved; what
// comes before and after the conversation may be asked about.
func TestChatLocal(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address, pin, _ := startCloud(t, "-m", m)
	way := record(t, address)
	args := []string{"-m", m, "--cloud", way.address, "--pin", pin, "--policy", "always", "--deadline", "off",
		"-n", "3"}
	saved := filepath.Join(t.TempDir(), "talk.json")
	lines := "/local on\nsecret\n/stats\n/local off\nmore\n/stats\n/save " + saved +
		"\n/cloud\n/clear\n/local\nopen\n/stats\n"
	code, _, stderr := chat(t, lines, args...)
	require.Equal(t, exitDone, code, stderr)
	assert.Equal(t, 2, strings.Count(stderr, "left this device for it: 0 tokens in 0 B, for all answers 0 B\n"), stderr)
	assert.Contains(t, stderr, "nothing of it leaves this device: /clear begins")
	assert.Contains(t, stderr, "the cloud may be asked")
	assert.Regexp(t, `left this device for it: [1-9]\d* tokens in [1-9]\d* B to `+way.address, stderr)

	lines = "again\n/stats\n/undo\n/undo\n/undo\nopen\n/stats\n/local x\n"
	code, _, stderr = chat(t, lines, append(args, "--load", saved)...)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "give on or off")
	assert.Equal(t, 1, strings.Count(stderr, "left this device for it: 0 tokens"), stderr)
	assert.Regexp(t, `left this device for it: [1-9]`, stderr, "without its local questions")

	code, _, stderr = chat(t, "/cloud "+way.address+"\n", "-m", m, "--local")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "/local off comes before /cloud")
}
