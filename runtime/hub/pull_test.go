package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pulled checks that the files are exactly the hub's, in their places, with nothing beside them.
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

func TestPull(t *testing.T) {
	h := newFakeHub("m-q8_0.gguf", "m-f16.gguf", "sub/x.gguf")
	opt := h.serve(t)
	var last, total int64
	opt.Progress = func(done, all int64) {
		assert.GreaterOrEqual(t, done, last)
		last, total = done, all
	}
	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m-q8_0.gguf")
	assert.True(t, files[0].Fetched)
	assert.EqualValues(t, 300_000, last)
	assert.EqualValues(t, 300_000, total)

	files, err = Pull(t.Context(), mustRef(t, "o/n:m-q8_0.gguf"), opt)
	require.NoError(t, err)
	assert.False(t, files[0].Fetched)
	assert.Equal(t, 1, h.count("/resolve/"), "what is here and right is not fetched again")

	opt.Progress = nil
	require.NoError(t, os.WriteFile(files[0].Path, content(9, 300_000), 0o644))
	files, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	assert.True(t, files[0].Fetched, "a file that differs is replaced")
	pulled(t, h, opt, files, "m-q8_0.gguf")
}

func TestPullSplit(t *testing.T) {
	h := newFakeHub("d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf")
	for _, asked := range []string{"o/n", "o/n:d/m-00002-of-00003.gguf"} {
		for _, noList := range []bool{false, true} {
			if h.noList, h.linked = noList, true; noList && asked == "o/n" {
				continue
			}
			opt := h.serve(t)
			var last int64
			opt.Progress = func(done, all int64) { last = done; assert.EqualValues(t, 900_000, all) }
			files, err := Pull(t.Context(), mustRef(t, asked), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf")
			assert.EqualValues(t, 900_000, last)
		}
	}
}

// A pull that is cut off at any place and called again until it is through sends no byte twice.
func TestResume(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			h := newFakeHub("m.gguf")
			h.linked, h.noList = r.IntN(2) == 0, r.IntN(2) == 0
			if r.IntN(3) == 0 {
				h.etag = []string{"", `W/"weak"`}[r.IntN(2)]
				h.noList = false // the SHA-256 alone says that it is the same file
			}
			for range 5 {
				h.cuts = append(h.cuts, 1+r.IntN(60_000))
			}
			opt := h.serve(t)
			var files []File
			var err error
			for tries := 0; files == nil; tries++ {
				require.Less(t, tries, 7, "%v", err)
				files, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
			}
			pulled(t, h, opt, files, "m.gguf")
			assert.Equal(t, 300_000, h.bytesSent())
			assert.Equal(t, 5, h.count(`range="bytes=`))
		})
	}
}

// Whatever the server does with Range, the file is right in the end.
func TestRestart(t *testing.T) {
	for name, change := range map[string]func(*fakeHub){
		"server ignores Range":    func(h *fakeHub) { h.ignoreRange = true },
		"changed ETag":            func(h *fakeHub) { h.etag = `"e2"` },
		"changed file":            func(h *fakeHub) { h.files["m.gguf"], h.etag = content(7, 300_000), `"e2"` },
		"changed file, same ETag": func(h *fakeHub) { h.files["m.gguf"] = content(7, 300_000) },
		"shorter file":            func(h *fakeHub) { h.files["m.gguf"], h.etag = content(8, 90_000), `"e2"` },
		"no length":               func(h *fakeHub) { h.noLength = true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.cuts = []int{100_000}
			opt := h.serve(t)
			_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.ErrorContains(t, err, "broke off after 100000 bytes")
			assert.Contains(t, left(t, opt.Dir), "m.gguf.part")
			change(h)
			files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
		})
	}
}

// A part that nothing vouches for, or that is damaged, is not built upon.
func TestDamagedPart(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, part string){
		"no origin":      func(t *testing.T, part string) { require.NoError(t, os.Remove(part+".json")) },
		"broken origin":  func(t *testing.T, part string) { require.NoError(t, os.WriteFile(part+".json", []byte("{"), 0o644)) },
		"longer than it": func(t *testing.T, part string) { require.NoError(t, os.WriteFile(part, content(3, 400_000), 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.cuts = []int{100_000}
			opt := h.serve(t)
			_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.Error(t, err)
			damage(t, filepath.Join(opt.Dir, "o", "n", "m.gguf.part"))
			files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
		})
	}
	t.Run("other bytes", func(t *testing.T) {
		h := newFakeHub("m.gguf")
		h.cuts = []int{100_000}
		opt := h.serve(t)
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.Error(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(opt.Dir, "o", "n", "m.gguf.part"), content(3, 100_000), 0o644))
		_, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
		var sum *ChecksumError
		require.ErrorAs(t, err, &sum, "the sum is over the whole file, also what was here before")
		assert.Empty(t, left(t, opt.Dir))
		files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.NoError(t, err)
		pulled(t, h, opt, files, "m.gguf")
	})
}

func TestWrongSum(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.wrongSum = true
	opt := h.serve(t)
	_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	var sum *ChecksumError
	require.ErrorAs(t, err, &sum)
	assert.Equal(t, sumOf(h.files["m.gguf"]), sum.Got)
	assert.Equal(t, filepath.Join(opt.Dir, "o", "n", "m.gguf"), sum.Path)
	assert.Empty(t, left(t, opt.Dir), "nothing of it stays")
}

// Without a SHA-256 from anywhere the length is what can be checked, and it is said.
func TestNoSum(t *testing.T) {
	for name, set := range map[string]func(*fakeHub){
		"no listing, no headers": func(h *fakeHub) { h.noList = true },
		"plain git file":         func(h *fakeHub) { h.plainGit = true },
		"not even a length":      func(h *fakeHub) { h.noList, h.noLength = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			set(h)
			opt := h.serve(t)
			var notices []string
			opt.Notice = func(s string) { notices = append(notices, s) }
			files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
			assert.Contains(t, strings.Join(notices, "\n"), "no SHA-256")
		})
	}
}

// The token reaches the endpoint and no other host, and no error or notice.
func TestTokenStaysHome(t *testing.T) {
	const token = "hf_verysecret"
	h, cdn := newFakeHub("m.gguf"), newFakeHub("m.gguf")
	elsewhere := httptest.NewServer(cdn)
	defer elsewhere.Close()
	h.cdn, h.linked = elsewhere.URL, true
	opt := h.serve(t)
	opt.Token = token + "\n" // as a file or a shell leaves it
	var said strings.Builder
	opt.Notice = func(s string) { said.WriteString(s) }

	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Equal(t, h.count(""), h.count(`auth="Bearer `+token+`"`), "the endpoint gets it each time")
	assert.Equal(t, 1, cdn.count(`auth=""`))
	assert.Equal(t, 1, cdn.count(""))

	h.noList = true // so that the headers are asked for, which stop before the redirect
	require.NoError(t, os.Remove(files[0].Path))
	cdn.status = map[string]int{"/cdn/": 500}
	opt.Attempts = 1
	_, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.ErrorContains(t, err, elsewhere.URL+"/cdn/m.gguf answers 500")
	elsewhere.Close()
	_, err2 := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.Error(t, err2)
	for _, text := range []string{err.Error(), err2.Error(), said.String()} {
		assert.NotContains(t, text, token)
		assert.NotContains(t, text, "Signature", "a signed address is a key as well")
	}
	assert.Zero(t, cdn.count(token))

	opt.Token = "hf_bad\x01token"
	_, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hf_bad")
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		ref    string
		status map[string]int
		code   string // X-Error-Code
		token  string
		want   string
	}{
		{"private or unknown", "o/n", map[string]int{"/api/": 401}, "", "", "or a private one: check the name, or give a token in HF_TOKEN"},
		{"bad token", "o/n", map[string]int{"/api/": 401}, "", "hf_x", "a token that is not valid for it"},
		{"gated", "o/n:m.gguf", map[string]int{"/resolve/": 403}, "", "hf_x", "accept the conditions"},
		{"gated, anonymous", "o/n:m.gguf", map[string]int{"/resolve/": 401}, "GatedRepo", "", "accept the conditions"},
		{"unknown repository", "o/other", nil, "", "", "no such repository, revision or file"},
		{"unknown revision", "o/n@v9", map[string]int{"/tree/": 404}, "RevisionNotFound", "", "there is no such branch, tag or commit"},
		{"unknown file", "o/n:x.gguf", nil, "", "", "there is no file \"x.gguf\"; there are:\n  o/n:m.gguf  (0.3 MB)"},
		{"unknown file, no listing", "o/n:x.gguf", map[string]int{"/api/": 404, "/resolve/": 404}, "EntryNotFound", "", "there is no such file"},
		{"missing part", "o/n:s-00001-of-00002.gguf", nil, "", "", "there is no file \"s-00001-of-00002.gguf\""},
		{"teapot", "o/n", map[string]int{"/api/": 418}, "", "", "418"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.status, h.header = c.status, http.Header{"X-Error-Code": {c.code}}
			opt := h.serve(t)
			opt.Token, opt.Attempts = c.token, 5 // no retries for these
			_, err := Pull(t.Context(), mustRef(t, c.ref), opt)
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "pull "+c.ref)
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{}, "no folder"},
		{Options{Dir: "d", Endpoint: "huggingface.co"}, "is not like"},
		{Options{Dir: "d", Endpoint: "ftp://huggingface.co"}, "is not like"},
		{Options{Dir: "d", Endpoint: "https://me:secret@huggingface.co"}, "holds a user name"},
		{Options{Dir: "d", Endpoint: "https://me:secret@hugging face.co"}, "is not a URL"},
	} {
		_, err := Pull(t.Context(), mustRef(t, "o/n"), c.opt)
		require.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// A server that lists a name which leads out of the folder gets nothing written.
func TestTraversal(t *testing.T) {
	for _, name := range []string{"../m-q8_0.gguf", "../../../../m-q8_0.gguf", "/m-q8_0.gguf", `..\m-q8_0.gguf`, "a/../../m-q8_0.gguf", "c:m-q8_0.gguf", "x\x00-q8_0.gguf"} {
		h := newFakeHub(name)
		opt := h.serve(t)
		root := opt.Dir
		opt.Dir = filepath.Join(root, "deep", "er")
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, "leads out of the repository", "%q", name)
		assert.Empty(t, left(t, root))
	}
}

// A server that leads from one address to the next without end is asked once, and named.
func TestRedirectLoop(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}))
	defer s.Close()
	opt := Options{Dir: t.TempDir(), Endpoint: s.URL, Attempts: 5}
	_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.ErrorContains(t, err, s.URL+"/api/models/o/n/tree/main: the server redirects again and again: check HF_ENDPOINT")
	assert.Equal(t, 10, requests)
}

// What arrived before the server gave up is kept, and that is said.
func TestCutOff(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.cuts = []int{100_000}
	opt := h.serve(t)
	_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	cut, ok := errors.AsType[*CutOffError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, filepath.Join(opt.Dir, "o", "n", "m.gguf.part"), cut.Part)
	assert.ErrorContains(t, err, "broke off after 100000 bytes")
	assert.ErrorContains(t, err, "; "+cut.Part+" keeps what has arrived: the same command goes on from there")

	require.NoError(t, os.WriteFile(filepath.Join(opt.Dir, "o", "n", "m.gguf.part"), nil, 0o644))
	h.cuts = []int{0}
	_, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "keeps what has arrived", "nothing has")
}

// A cancelled pull says why, leaves what has arrived, and goes on from there.
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
	assert.ElementsMatch(t, []string{"m.gguf.part", "m.gguf.part.json"}, left(t, opt.Dir))

	close(h.gate)
	opt.Progress = nil
	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Equal(t, 1, h.count(`range="bytes=`))
}

// Pulls of one file at the same time: each one succeeds with the right file or says that another is at it.
func TestConcurrentPulls(t *testing.T) {
	h := newFakeHub("m.gguf")
	opt := h.serve(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { _, errs[i] = Pull(t.Context(), mustRef(t, "o/n"), opt) })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
			continue
		}
		require.ErrorIs(t, err, ErrBusy)
	}
	assert.Positive(t, done)
	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Equal(t, 1, h.count("/resolve/"), "whoever came later found it complete")
}

// What the disk refuses names the path and is not tried again.
func TestDiskErrors(t *testing.T) {
	h := newFakeHub("m.gguf")
	opt := h.serve(t)
	opt.Attempts = 5
	opt.Notice = func(s string) { assert.NotContains(t, s, "trying again") }
	folder := filepath.Join(opt.Dir, "o", "n")
	t.Run("in the way", func(t *testing.T) {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "m.gguf"), 0o755))
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, filepath.Join(folder, "m.gguf")+" is in the way")
		require.NoError(t, os.Remove(filepath.Join(folder, "m.gguf")))
	})
	t.Run("folder is a file", func(t *testing.T) {
		at := opt
		at.Dir = filepath.Join(opt.Dir, "plain")
		require.NoError(t, os.WriteFile(at.Dir, nil, 0o644))
		_, err := Pull(t.Context(), mustRef(t, "o/n"), at)
		require.ErrorContains(t, err, at.Dir)
	})
	t.Run("full", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			return // only Linux has a device that is always full
		}
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(folder, "m.gguf.part")))
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, filepath.Join(folder, "m.gguf.part"))
	})
}
