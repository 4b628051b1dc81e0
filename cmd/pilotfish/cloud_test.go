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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startCloud runs `pilotfish cloud` in this process until the test ends or stop is called, and returns its address and pin.
func startCloud(t *testing.T, args ...string) (address, pin string, stop func()) {
	t.Helper()
	address, pin, _, stop = startCloudSaying(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	return address, pin, stop
}

// startCloudSaying is startCloud with what was said to stderr before the pin came.
func startCloudSaying(t *testing.T, args ...string) (address, pin, said string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	outRead, outWrite := io.Pipe()
	var errs lockedBuffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, append([]string{"cloud"}, args...), strings.NewReader(""), outWrite, &errs)
		outWrite.Close()
		ended <- code
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("the cloud does not stop")
		}
	})
	t.Cleanup(stop)
	pin, err := bufio.NewReader(outRead).ReadString('\n')
	said = errs.String()
	require.NoError(t, err, said)
	address, _, _ = strings.Cut(strings.TrimPrefix(said, "listening on "), ",")
	return address, strings.TrimSpace(pin), said, stop
}

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// ownFolders gives a test folders of its own for configuration and cache.
func ownFolders(t *testing.T) {
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME", "AppData", "LocalAppData"} {
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
	args := []string{"-m", edge, "--cloud", address, "--pin", pin, "--policy", "random", "--threshold", "0.3", "--tokens", "5,6,7", "-n", "40"}

	ids, origins, s, _ := routedTokens(t, append(args, "--mode", "serial", "--deadline", "20s")...)
	require.Len(t, ids, 40)
	assert.Contains(t, origins, "cloud")
	assert.Contains(t, origins, "edge")
	assert.Positive(t, s.CloudTokens)
	assert.Positive(t, s.BytesUp)
	ids2, origins2, s2, _ := routedTokens(t, append(args, "--branches", "3", "--deadline", "20s")...)
	assert.Equal(t, ids, ids2)
	assert.Equal(t, origins, origins2)
	assert.Equal(t, s.CloudTokens, s2.CloudTokens)

	_, pin2, stop2 := startCloud(t, "-m", large)
	assert.Equal(t, pin, pin2, "the certificate is kept")
	stop2()

	alone, _, _, _ := routedTokens(t, "-m", edge, "--tokens", "5,6,7", "-n", "40")
	stop()
	ids3, origins3, s3, stderr := routedTokens(t, append(args, "--deadline", "300ms")...)
	assert.Equal(t, alone, ids3, "complete without the cloud")
	assert.NotContains(t, origins3, "cloud")
	assert.Contains(t, origins3, "edge-timeout")
	assert.Positive(t, s3.Timeouts)
	assert.Contains(t, stderr, "no answer from the cloud")
}

// TestCloudResumes: a run leaves a ticket for the next one, which uses it up and leaves another; --no-resume touches none.
func TestCloudResumes(t *testing.T) {
	ownFolders(t)
	m := tinyModel(t, "q8_0")
	address, pin, _ := startCloud(t, "-m", m)
	args := []string{"-m", m, "--cloud", address, "--pin", pin, "--policy", "always", "--tokens", "1", "-n", "40", "--mode", "serial", "--deadline", "10s"}
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
