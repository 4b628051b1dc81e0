package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addressOf is that of content at a server which answers with serve.
func addressOf(t *testing.T, content []byte, serve http.HandlerFunc) Address {
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	sum := sha256.Sum256(content)
	return Address{
		URL: s.URL + "/q.jsonl?a=b", Name: "q.jsonl", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]),
	}
}

// empty reports that nothing is left in a folder.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("question\n"), 1000)
	var asked atomic.Int32
	a := addressOf(t, content, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		assert.Empty(t, r.Header.Get("Authorization"), "the token is for the hub alone")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	dir := filepath.Join(t.TempDir(), "new")
	f, err := Fetch(t.Context(), a, Options{Dir: dir, Token: "secret"})
	require.NoError(t, err)
	assert.Equal(t, File{Path: filepath.Join(dir, "q.jsonl"), Size: a.Size, SHA256: a.SHA256, Fetched: true}, f)
	got, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	assert.Equal(t, content, got)
	f, err = Fetch(t.Context(), a, Options{Dir: dir})
	require.NoError(t, err)
	assert.False(t, f.Fetched)
	assert.EqualValues(t, 1, asked.Load())

	require.NoError(t, os.WriteFile(f.Path, []byte("changed"), 0o600))
	f, err = Fetch(t.Context(), a, Options{Dir: dir})
	require.NoError(t, err)
	assert.True(t, f.Fetched, "one that differs is replaced")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no part and no lock")
}

// text answers with such bytes.
func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

// TestFetchRefuses: another file is refused, whatever of it is other, and nothing of it stays.
func TestFetchRefuses(t *testing.T) {
	content := []byte("the file that is wanted")
	arrived := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"bytes":  {text("the file that is warped"), "what arrived has SHA-256"},
		"length": {text("short"), "the server has 5 bytes of q.jsonl, it should have 23"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "the file")
			w.(http.Flusher).Flush()
			<-arrived
			for range 100 {
				fmt.Fprint(w, "the file that is wanted")
				w.(http.Flusher).Flush()
			}
		}, "sends more than the 23 bytes"},
		"none": {http.NotFound, "404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Fetch(t.Context(), addressOf(t, content, c.serve), Options{Dir: dir, Progress: func(done, _ int64) {
				if done == int64(len("the file")) {
					arrived <- struct{}{}
				}
			}})
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "fetch q.jsonl: ")
			empty(t, dir)
		})
	}
}

// TestFetchGoesOn: what was cut off goes on where it stopped.
func TestFetchGoesOn(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	ctx, cancel := context.WithCancel(t.Context())
	var ranges []string
	a := addressOf(t, content, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"1"`)
		if len(ranges) > 1 {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content[:100_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	_, err := Fetch(ctx, a, Options{Dir: dir, Progress: func(done, _ int64) {
		if done >= 100_000 {
			cancel()
		}
	}})
	require.ErrorContains(t, err, "keeps what has arrived")
	f, err := Fetch(t.Context(), a, Options{Dir: dir})
	require.NoError(t, err)
	assert.Equal(t, a.SHA256, f.SHA256)
	assert.Equal(t, []string{"", "bytes=100000-"}, ranges)
}

func TestFetchAddress(t *testing.T) {
	good := Address{URL: "http://127.0.0.1:1/x", Name: "x", Size: 1, SHA256: fmt.Sprintf("%064x", 1)}
	_, err := good.check()
	require.NoError(t, err)
	for _, change := range []func(*Address){
		func(a *Address) { a.URL = "ftp://h/x" }, func(a *Address) { a.URL = "x" },
		func(a *Address) { a.URL = "http://u:p@h/" }, func(a *Address) { a.URL = "http://h/\x7f" },
		func(a *Address) { a.Name = "../x" }, func(a *Address) { a.Name = "a/b" }, func(a *Address) { a.Name = "" },
		func(a *Address) { a.Size = -1 }, func(a *Address) { a.SHA256 = "00" },
		func(a *Address) { a.SHA256 = fmt.Sprintf("%064s", "x") },
	} {
		bad := good
		change(&bad)
		_, err := Fetch(t.Context(), bad, Options{Dir: t.TempDir()})
		require.Error(t, err)
		assert.Regexp(t, "it must have a plain name|its address is not like", err.Error())
		assert.NotContains(t, err.Error(), "u:p")
	}
}
