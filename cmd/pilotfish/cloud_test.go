package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runningCloud is `pilotfish cloud` in this process.
type runningCloud struct {
	address, pin string
	said         string        // to stderr before the pin came
	errs         *lockedBuffer // all of stderr
	code         int           // once it has stopped
	stop         func()
}

// startedCloud starts one, which runs until the test ends or stop is called.
func startedCloud(t *testing.T, args ...string) *runningCloud {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	outRead, outWrite := io.Pipe()
	c := &runningCloud{errs: new(lockedBuffer)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.code = run(ctx, append([]string{"cloud"}, args...), strings.NewReader(""), outWrite, c.errs)
		outWrite.Close()
	}()
	c.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(c.stop)
	pin, err := bufio.NewReader(outRead).ReadString('\n')
	c.said = c.errs.String()
	require.NoError(t, err, c.said)
	_, listening, _ := strings.Cut(c.said, "listening on ") // lines of the log may come before it
	c.address, _, _ = strings.Cut(listening, ",")
	c.pin = strings.TrimSpace(pin)
	return c
}

// startCloud is startedCloud on loopback.
func startCloud(t *testing.T, args ...string) (address, pin string, stop func()) {
	t.Helper()
	c := startedCloud(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	return c.address, c.pin, c.stop
}

// startCloudSaying is startedCloud with what was said to stderr before the pin came.
func startCloudSaying(t *testing.T, args ...string) (address, pin, said string, stop func()) {
	t.Helper()
	c := startedCloud(t, args...)
	return c.address, c.pin, c.said, c.stop
}

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed at the next write; nil: nobody waits for it
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.b.Write(p)
}

// read returns what was written, and what ends when there is more.
func (b *lockedBuffer) read() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.b.String(), b.more
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// ownFolders gives a test folders of its own for configuration and cache.
func ownFolders(t *testing.T) {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME", "AppData",
		"LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
}

// routedTokens are the ids and origins of `run --json`, and its summary.
func routedTokens(t *testing.T, args ...string) (ids []int32, origins []string, s *summaryEvent, stderr string) {
	t.Helper()
	code, stdout, stderr := call(t, append([]string{"run", "--json", "--ignore-eos"}, args...)...)
	require.Equal(t, exitDone, code, stderr)
	for _, e := range lines[runEvent](t, stdout) {
		if e.Summary != nil {
			return ids, origins, e.Summary, stderr
		}
		ids, origins = append(ids, e.ID), append(origins, e.Origin)
	}
	require.Fail(t, "no summary")
	return
}

// TestCloud: two models of one vocabulary over a real connection, serial and pipelined alike; then the cloud goes away.
func TestCloud(t *testing.T) {
	ownFolders(t)
	t.Setenv("PILOTFISH_TOKEN", "a secret of sixteen bytes")
	edge, large := tinyModel(t, "q4_0"), tinyModel(t, "f32")
	address, pin, stop := startCloud(t, "-m", large)
	args := []string{"-m", edge, "--cloud", address, "--pin", pin, "--policy", "random", "--threshold", "0.3",
		"--tokens", "5,6,7", "-n", "40"}

	ids, origins, s, _ := routedTokens(t, append(args, "--mode", "serial", "--deadline", "off")...)
	require.Len(t, ids, 40)
	assert.Contains(t, origins, "cloud")
	assert.Contains(t, origins, "edge")
	assert.Positive(t, s.CloudTokens)
	assert.Positive(t, s.BytesUp)
	ids2, origins2, s2, _ := routedTokens(t, append(args, "--branches", "3", "--deadline", "off")...)
	assert.Equal(t, ids, ids2)
	assert.Equal(t, origins, origins2)
	assert.Equal(t, s.CloudTokens, s2.CloudTokens)

	_, pin2, stop2 := startCloud(t, "-m", large)
	assert.Equal(t, pin, pin2, "the certificate is kept")
	stop2()

	alone, _, _, _ := routedTokens(t, "-m", edge, "--tokens", "5,6,7", "-n", "40")
	stop()
	ids3, origins3, s3, stderr := routedTokens(t, append(args, "--deadline", "300ms", "--require-cloud=false")...)
	assert.Equal(t, alone, ids3, "complete without the cloud")
	assert.NotContains(t, origins3, "cloud")
	assert.Contains(t, origins3, "edge-timeout")
	assert.Positive(t, s3.Timeouts)
	assert.Contains(t, stderr, "no answer from the cloud")
}

// TestCloudResumes: a run leaves a ticket for the next one, which uses it up and leaves another; --no-resume touches
// none.
func TestCloudResumes(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address, pin, _ := startCloud(t, "-m", m)
	args := []string{"-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--tokens", "1", "-n", "40",
		"--mode", "serial", "--deadline", "off"}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	ticket := func() string {
		names, err := filepath.Glob(filepath.Join(cache, "pilotfish", "tickets", "*"))
		require.NoError(t, err)
		if len(names) == 0 {
			return ""
		}
		require.Len(t, names, 1)
		b, err := os.ReadFile(names[0])
		require.NoError(t, err)
		return string(b)
	}
	routedTokens(t, append(args, "--no-resume")...)
	assert.Empty(t, ticket())
	routedTokens(t, args...)
	first := ticket()
	assert.NotEmpty(t, first)
	routedTokens(t, append(args, "--no-resume")...)
	assert.Equal(t, first, ticket())
	routedTokens(t, args...)
	assert.NotEmpty(t, ticket())
	assert.NotEqual(t, first, ticket())
}
