package models

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPullCommand(t *testing.T) {
	content := bytes.Repeat([]byte("pilot"), 500_000)
	clitest.HubOf(t, map[string][]byte{"m.gguf": content})
	dir := t.TempDir()
	t.Setenv("PILOTFISH_MODELS", dir)

	code, stdout, stderr := clitest.Call(t, "pull", "o/n")
	require.Equal(t, cli.ExitDone, code, stderr)
	path := filepath.Join(dir, "o", "n", "m.gguf")
	assert.Equal(t, path+"\n", stdout)
	assert.Contains(t, stderr, "o/n: 100% of 2.5 MB\n")
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got)

	code, stdout, stderr = clitest.Call(t, "pull", "o/n:m.gguf")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, path+"\n", stdout)
}

func TestPullDefaultFolder(t *testing.T) {
	clitest.HubOf(t, map[string][]byte{"m.gguf": []byte("pilot")})
	clitest.OwnFolders(t)
	t.Setenv("PILOTFISH_MODELS", "")
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	code, stdout, stderr := clitest.Call(t, "pull", "o/n")
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Equal(t, filepath.Join(cache, "pilotfish", "models", "o", "n", "m.gguf")+"\n", stdout)
}

// TestPullToken: the token in the environment is sent to the hub, so that a gated model can be fetched.
func TestPullToken(t *testing.T) {
	clitest.HubOf(t, map[string][]byte{"m.gguf": []byte("pilot")})
	gated, err := url.Parse(os.Getenv("HF_ENDPOINT"))
	require.NoError(t, err)
	hub := httputil.NewSingleHostReverseProxy(gated)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hf_secret" {
			http.Error(w, "gated", http.StatusUnauthorized)
			return
		}
		hub.ServeHTTP(w, r)
	}))
	defer s.Close()
	t.Setenv("HF_ENDPOINT", s.URL)
	for token, code := range map[string]int{"": cli.ExitFailed, "hf_other": cli.ExitFailed, "hf_secret": cli.ExitDone} {
		t.Setenv("HF_TOKEN", token)
		t.Setenv("PILOTFISH_MODELS", t.TempDir())
		got, _, stderr := clitest.Call(t, "pull", "o/n")
		assert.Equal(t, code, got, stderr)
		assert.NotContains(t, stderr, "hf_other")
	}
}

// TestPullInterrupted: Ctrl-C ends a pull with the place of the received bytes and what to do; the same command then
// continues.
func TestPullInterrupted(t *testing.T) {
	b := bytes.Repeat([]byte("pilotfish"), 100_000)
	sum := sha256.Sum256(b)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var ranges []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			fmt.Fprintf(w, `[{"type":"file","path":"m.gguf","size":%d,"lfs":{"oid":"%x","size":%d}}]`, len(b), sum,
				len(b))
			return
		}
		ranges = append(ranges, r.Header.Get("Range"))
		if len(ranges) > 1 {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Write(b[:600_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	t.Setenv("HF_ENDPOINT", s.URL)
	dir := t.TempDir()
	t.Setenv("PILOTFISH_MODELS", dir)
	part := filepath.Join(dir, "o", "n", "m.gguf.part")
	stderr := clitest.WriterFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "60%") { // as far as the server sends
			stop(&cli.Interruption{Signal: os.Interrupt})
		}
		return len(p), nil
	})
	var said bytes.Buffer
	code := clitest.Run(ctx, []string{"pull", "o/n"}, strings.NewReader(""), io.Discard,
		io.MultiWriter(&said, stderr))
	assert.Equal(t, 130, code)
	assert.True(t, strings.HasSuffix(said.String(),
		"pilotfish: interrupted: "+part+" keeps what has arrived: the same command goes on from there\n"),
		said.String())
	assert.FileExists(t, part)
	code, stdout, errs := clitest.Call(t, "pull", "o/n")
	require.Equal(t, cli.ExitDone, code, errs)
	assert.Equal(t, strings.TrimSuffix(part, ".part")+"\n", stdout)
	require.Len(t, ranges, 2)
	assert.Regexp(t, `^bytes=[1-9]\d*-$`, ranges[1])
}
