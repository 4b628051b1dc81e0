package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// pulled checks that the files equal those of the hub, in their places, without other files.
func pulled(t *testing.T, h *fakeHub, opt Options, files []File, names ...string) {
	t.Helper()
	require.Len(t, files, len(names))
	for i, name := range names {
		assert.Equal(t, filepath.Join(opt.Dir, "o", "n", filepath.FromSlash(name)), files[i].Path)
		got, err := os.ReadFile(files[i].Path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(h.files[name], got), "the bytes of %s", name)
		assert.Equal(t, sumOf(got), files[i].SHA256)
		assert.EqualValues(t, len(got), files[i].Size)
	}
	assert.Len(t, left(t, opt.Dir), len(names), "no .part, no lock")
}

// pulls pulls, and checks that the files equal those of the hub.
func pulls(t *testing.T, h *fakeHub, opt Options, ref string, names ...string) []File {
	t.Helper()
	files, err := Pull(t.Context(), mustRef(t, ref), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, names...)
	return files
}

func TestPull(t *testing.T) {
	h := newFakeHub("m-q8_0.gguf", "m-f16.gguf", "sub/x.gguf")
	opt := h.serve(t)
	var last, total int64
	opt.Progress = func(done, all int64) {
		assert.GreaterOrEqual(t, done, last)
		last, total = done, all
	}
	files := pulls(t, h, opt, "o/n", "m-q8_0.gguf")
	assert.True(t, files[0].Fetched)
	assert.EqualValues(t, 300_000, last)
	assert.EqualValues(t, 300_000, total)

	last, total = 0, 0
	files, err := Pull(t.Context(), mustRef(t, "o/n:m-q8_0.gguf"), opt)
	require.NoError(t, err)
	assert.False(t, files[0].Fetched)
	assert.EqualValues(t, 300_000, last, "what is here counts as done")
	assert.EqualValues(t, 300_000, total)
	assert.Equal(t, 1, h.count("/resolve/"), "existing files are not fetched again")

	opt.Progress = nil
	var notices []string
	opt.Notice = func(s string) { notices = append(notices, s) }
	require.NoError(t, os.WriteFile(files[0].Path, content(9, 300_000), 0o644))
	files, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	assert.True(t, files[0].Fetched, "a file that differs is replaced")
	pulled(t, h, opt, files, "m-q8_0.gguf")
	assert.Equal(t, []string{files[0].Path + " differs from the hub's file and will be replaced"}, notices)
}

func TestPullSplit(t *testing.T) {
	h := newFakeHub("d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf")
	for _, asked := range []string{"o/n", "o/n:d/m-00002-of-00003.gguf"} {
		opt := h.serve(t)
		var last int64
		opt.Progress = func(done, all int64) {
			assert.GreaterOrEqual(t, done, last, "earlier parts count")
			last = done
			assert.EqualValues(t, 900_000, all)
		}
		pulls(t, h, opt, asked, "d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf")
		assert.EqualValues(t, 900_000, last)
	}
}

// TestDefaultDir: the folder that the environment names, or else one in the user's cache folder.
func TestDefaultDir(t *testing.T) {
	got, err := DefaultDir(func(key string) string { return map[string]string{"PILOTFISH_MODELS": "/own"}[key] })
	require.NoError(t, err)
	assert.Equal(t, "/own", got)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	got, err = DefaultDir(func(string) string { return "" })
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(cache, "pilotfish", "models"), got)
}

// TestRefusals: the hub's status and words are reported as they are, with advice, and are not tried again.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		ref    string
		status map[string]int
		want   string
	}{
		"private":      {"o/n", map[string]int{"/api/": 401}, "401 Unauthorized: said so: check the name, accept"},
		"gated":        {"o/n:m.gguf", map[string]int{"/resolve/": 403}, "403 Forbidden: said so: check the name, acc"},
		"unknown":      {"o/other", nil, "404 Not Found: no such repository, revision or file: check the name"},
		"unknown file": {"o/n:x.gguf", nil, "there is no file \"x.gguf\"; there are:\n  o/n:m.gguf  (0.3 MB)"},
		"missing part": {"o/n:s-00001-of-00002.gguf", nil, "there is no file \"s-00001-of-00002.gguf\""},
		"teapot":       {"o/n", map[string]int{"/api/": 418}, "418 I'm a teapot: said so"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.status, h.header = c.status, http.Header{"X-Error-Message": {"said \u009bso"}}
			opt := h.serve(t)
			opt.Attempts = 5
			opt.Notice = func(s string) { t.Error(s) }
			_, err := Pull(t.Context(), mustRef(t, c.ref), opt)
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "pull "+c.ref)
		})
	}
}

func TestBadOptions(t *testing.T) {
	const badToken = "the token holds characters that no token has"
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"no folder":           {Options{}, "no folder"},
		"no scheme":           {Options{Dir: "d", Endpoint: "huggingface.co"}, "is not like"},
		"another scheme":      {Options{Dir: "d", Endpoint: "ftp://huggingface.co"}, "is not like"},
		"no host":             {Options{Dir: "d", Endpoint: "https:///x"}, "is not like"},
		"a query":             {Options{Dir: "d", Endpoint: "https://huggingface.co?x"}, "is not like"},
		"a fragment":          {Options{Dir: "d", Endpoint: "https://huggingface.co#x"}, "is not like"},
		"a blank in a token":  {Options{Dir: "d", Token: "hf secret"}, badToken},
		"a control character": {Options{Dir: "d", Token: "hf_secret\x7f"}, badToken},
		"an accent":           {Options{Dir: "d", Token: "hf_secreté"}, badToken},
		"a user":              {Options{Dir: "d", Endpoint: "https://me:secret@huggingface.co"}, "holds a user name"},
		"a blank in a host":   {Options{Dir: "d", Endpoint: "https://me:secret@hugging face.co"}, "is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Pull(t.Context(), mustRef(t, "o/n"), c.opt)
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestTraversal: a listed name outside the folder is refused.
func TestTraversal(t *testing.T) {
	for _, name := range []string{"../m-q8_0.gguf", "../../../../m-q8_0.gguf", "/m-q8_0.gguf", `..\m-q8_0.gguf`,
		"a/../../m-q8_0.gguf", "c:m-q8_0.gguf", "x\x00-q8_0.gguf"} {
		h := newFakeHub(name)
		opt := h.serve(t)
		root := opt.Dir
		opt.Dir = filepath.Join(root, "deep", "er")
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, "leads out of the repository", "%q", name)
		assert.Empty(t, left(t, root))
	}
}

// TestCancel: a cancelled pull returns the cause, keeps the received bytes, and continues from there.
func TestCancel(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.gate = make(chan struct{})
	opt := h.serve(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	opt.Progress = func(done, _ int64) {
		if done > 1000 {
			cancel(why)
		}
	}
	_, err := Pull(ctx, mustRef(t, "o/n"), opt)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, "m.gguf.part keeps what has arrived")
	assert.Equal(t, []string{"m.gguf.part"}, left(t, opt.Dir))

	close(h.gate)
	opt.Progress = nil
	pulls(t, h, opt, "o/n", "m.gguf")
	assert.Equal(t, 1, h.count(`range="bytes=`))
}

// TestCancelWhileReading: reading what is there already, which may be many gigabytes, ends with the context.
func TestCancelWhileReading(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	have := content(1, 100_000)
	for _, name := range []string{"m.gguf", "m.gguf.part"} {
		dir := held.TempDir(t)
		p, err := newPuller(Options{Dir: dir, Transport: roundTrip(answer(http.StatusTeapot))})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), have, 0o644))
		w := remoteFile{name: "m.gguf", size: int64(len(have)), sha256: sumOf(have)}
		_, err = p.fetchFile(ctx, filepath.Join(dir, "m.gguf"), p.endpoint, w, func(int64) {})
		require.ErrorIs(t, err, why, name)
		kept, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, have, kept, name)
	}
}

// addressOf returns the address of content at a server with serve as its handler.
func addressOf(t *testing.T, content []byte, serve http.HandlerFunc) Address {
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	sum := sha256.Sum256(content)
	return Address{
		URL: s.URL + "/q.jsonl?a=b", Name: "q.jsonl", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]),
	}
}

// empty checks that a folder is empty.
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
		assert.Empty(t, r.Header.Get("Authorization"), "the token is only for the hub")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	dir := filepath.Join(held.TempDir(t), "new")
	large := a
	large.SHA256 = strings.ToUpper(a.SHA256)
	f, err := Fetch(t.Context(), large, Options{Dir: dir, Token: "secret"})
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
	assert.True(t, f.Fetched, "a file that differs is replaced")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no part and no lock")
}

// text returns a handler that answers with these bytes.
func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

// TestFetchRefuses: a file that differs in any way is refused, and nothing of it is kept.
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
			dir := held.TempDir(t)
			_, err := Fetch(t.Context(), addressOf(t, content, c.serve),
				Options{Dir: dir, Progress: func(done, _ int64) {
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
