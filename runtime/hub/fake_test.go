package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// fakeHub is a hub with one repository, o/n, and configurable faults.
type fakeHub struct {
	files map[string][]byte

	plainGit    bool           // the listing states no SHA-256
	wrongSum    bool           // the stated SHA-256 is that of another file
	ignoreRange bool           // always the whole file
	noLength    bool           // no Content-Length
	cdn         string         // files are served from this address, by a redirect
	status      map[string]int // answers for addresses that contain the key
	header      http.Header    // of those answers
	cuts        []int          // number of bytes of a file in the next answers before the connection breaks
	gate        chan struct{}  // a file's second half waits for it

	mu       sync.Mutex
	requests []string // "GET /path Range Authorization"
	sent     int      // bytes of files
}

func newFakeHub(files ...string) *fakeHub {
	h := &fakeHub{files: map[string][]byte{}}
	for i, name := range files {
		h.files[name] = content(uint64(i), 300_000)
	}
	return h
}

// content returns n bytes that differ for each seed.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// ServeHTTP implements http.Handler.
func (h *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests,
		fmt.Sprintf("%s %s range=%q auth=%q", r.Method, r.URL.EscapedPath(), r.Header.Get("Range"),
			r.Header.Get("Authorization")))
	h.mu.Unlock()
	// ranges and lengths would be of compressed bytes
	if r.Header.Get("Accept-Encoding") != "identity" || r.UserAgent() != "pilotfish" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	for part, code := range h.status {
		if strings.Contains(r.URL.Path, part) {
			for k, v := range h.header {
				w.Header()[k] = v
			}
			w.WriteHeader(code)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/api/models/o/n/tree/") {
		h.list(w)
		return
	}
	for _, prefix := range []string{"/o/n/resolve/main/", "/cdn/"} {
		if name, ok := strings.CutPrefix(r.URL.Path, prefix); ok && h.files[name] != nil {
			h.file(w, r, name)
			return
		}
	}
	http.NotFound(w, r)
}

func (h *fakeHub) list(w http.ResponseWriter) {
	var entries []map[string]any
	for name, b := range h.files {
		e := map[string]any{"type": "file", "path": name, "size": len(b), "oid": "0123"}
		if !h.plainGit {
			e["lfs"] = map[string]any{"oid": h.sum(b), "size": len(b), "pointerSize": 134}
		}
		entries = append(entries, e)
	}
	entries = append(entries, map[string]any{"type": "directory", "path": "folder.gguf"},
		map[string]any{"type": "file", "path": "README.md"})
	json.NewEncoder(w).Encode(entries)
}

func (h *fakeHub) sum(b []byte) string {
	if h.wrongSum {
		return sumOf(append([]byte{1}, b...))
	}
	return sumOf(b)
}

func (h *fakeHub) file(w http.ResponseWriter, r *http.Request, name string) {
	b := h.files[name]
	if h.cdn != "" && !strings.HasPrefix(r.URL.Path, "/cdn/") {
		http.Redirect(w, r, h.cdn+"/cdn/"+name+"?Signature=secret", http.StatusFound)
		return
	}
	if h.ignoreRange || h.noLength {
		r.Header.Del("Range")
	}
	if h.noLength {
		w.(http.Flusher).Flush()
		w.Write(b)
		return
	}
	http.ServeContent(&breaking{ResponseWriter: w, hub: h, left: h.nextCut()}, r, "", time.Time{},
		strings.NewReader(string(b)))
}

func (h *fakeHub) nextCut() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.cuts) == 0 {
		return 1 << 60
	}
	cut := h.cuts[0]
	h.cuts = h.cuts[1:]
	return cut
}

// breaking is a connection that breaks after some bytes, and waits at the hub's gate before the last part of a write.
type breaking struct {
	http.ResponseWriter
	hub  *fakeHub
	left int
}

// Write implements io.Writer.
func (b *breaking) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.hub.mu.Lock()
	b.hub.sent += n
	b.hub.mu.Unlock()
	b.ResponseWriter.Write(p[:n/2])
	if b.hub.gate != nil {
		b.ResponseWriter.(http.Flusher).Flush()
		<-b.hub.gate
	}
	b.ResponseWriter.Write(p[n/2 : n])
	if b.left -= n; b.left == 0 {
		b.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// bytesSent returns the number of sent bytes of files.
func (h *fakeHub) bytesSent() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// count returns the number of requests that contain the text.
func (h *fakeHub) count(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, r := range h.requests {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// serve starts the hub on a local port and returns options that fetch from it without retries.
func (h *fakeHub) serve(t *testing.T) Options {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return Options{Dir: held.TempDir(t), Endpoint: s.URL, Attempts: 1, Transport: returned(t, transport)}
}

// returned forwards requests, and fails the test unless finally each body is closed and the context of each request is
// done: the watch for a silent connection holds it. A context that ends with the test does not count.
func returned(t *testing.T, next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	open := map[*http.Request]string{}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for r, what := range open {
			if what != "" || r.Context().Err() == nil {
				t.Errorf("%s %s: %s, context: %v", r.Method, r.URL, what, r.Context().Err())
			}
		}
	})
	note := func(r *http.Request, what string) {
		mu.Lock()
		defer mu.Unlock()
		open[r] = what
	}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		note(r, "")
		res, err := next.RoundTrip(r)
		if err == nil {
			note(r, "body not closed")
			res.Body = closing{res.Body, func() { note(r, "") }}
		}
		return res, err
	})
}

// closing is a body that signals when it is closed.
type closing struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (c closing) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}

// inProcess forwards requests to a handler without a network, so that they work in virtual time.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (res *http.Response, err error) {
	rec := httptest.NewRecorder()
	func() {
		defer func() {
			if broke := recover(); broke == http.ErrAbortHandler {
				err = io.ErrUnexpectedEOF
			} else if broke != nil {
				panic(broke)
			}
		}()
		p.handler.ServeHTTP(rec, r)
	}()
	res = rec.Result()
	res.Request = r
	if err != nil {
		res.Body, err = io.NopCloser(io.MultiReader(rec.Body, failing{err})), nil
	}
	return res, nil
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// mustRef parses a reference.
func mustRef(t *testing.T, s string) Ref {
	t.Helper()
	r, err := ParseRef(s)
	require.NoError(t, err)
	return r
}

// left returns the names of all files under dir.
func left(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	}))
	return names
}
