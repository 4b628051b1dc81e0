package hub

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestResume: a pull that is interrupted at any place and repeated until it succeeds transfers no byte twice.
func TestResume(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			h := newFakeHub("m.gguf")
			h.linked, h.noList = r.IntN(2) == 0, r.IntN(2) == 0
			if r.IntN(3) == 0 {
				h.etag = []string{"", `W/"weak"`}[r.IntN(2)]
				h.noList = false // only the SHA-256 identifies the file
			}
			for range 5 {
				h.cuts = append(h.cuts, 1+r.IntN(60_000))
			}
			opt := h.serve(t)
			var files []File
			var err error
			var done []int64
			opt.Progress = func(now, _ int64) { done = append(done, now) }
			for tries := 0; files == nil; tries++ {
				require.Less(t, tries, 7, "%v", err)
				begun := len(done)
				files, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
				if begun > 0 {
					assert.Equal(t, done[begun-1], done[begun], "the next pull begins with what is here")
				}
			}
			pulled(t, h, opt, files, "m.gguf")
			assert.Equal(t, 300_000, h.bytesSent())
			assert.Equal(t, 5, h.count(`range="bytes=`))
		})
	}
}

// TestRestart: for any handling of Range by the server, the final file is right.
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
			var notices []string
			opt.Notice = func(s string) { notices = append(notices, s) }
			files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
			again := slices.Contains(notices, "the server does not go on where the last pull stopped: starting again")
			assert.Equal(t, h.ignoreRange || name == "changed ETag" || h.noLength, again, "%v", notices)
		})
	}
}

// TestChangedFile: without a SHA-256, bytes of a changed file are never appended to those of the old one, neither by
// the next attempt nor by the next pull, whatever headers the server sends.
func TestChangedFile(t *testing.T) {
	for _, etags := range [][2]string{{"", ""}, {`W/"1"`, `W/"1"`}, {`"1"`, ""}, {`"1"`, `"2"`}} {
		for _, again := range []bool{false, true} { // whether there is a second pull
			bubble.Test(t, func(t *testing.T) {
				h := newFakeHub("m.gguf")
				h.plainGit, h.etag, h.cuts = true, etags[0], []int{100_000}
				opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Attempts: 3}
				opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if len(h.cuts) == 0 && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/resolve/") {
						h.files["m.gguf"], h.etag = content(7, 300_000), etags[1]
						r.Header.Del("If-Range") // like a server that does not support it
					}
					return inProcess{h}.RoundTrip(r)
				})
				if again {
					opt.Attempts = 1
					_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
					require.ErrorContains(t, err, "broke off after 100000 bytes")
					opt.Attempts = 3
				}
				files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
				require.NoError(t, err)
				pulled(t, h, opt, files, "m.gguf")
			})
		}
	}
}

// TestShorter: without a SHA-256, a file that has become shorter than the part that is here is fetched anew.
func TestShorter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		h.noList, h.cuts = true, []int{100_000}
		h.status = map[string]int{}
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Attempts: 1}
		opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodHead { // no length either
				return answer(http.StatusNotImplemented)(r)
			}
			r.Header.Del("If-Range") // like a server that does not support it
			return inProcess{h}.RoundTrip(r)
		})
		_, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
		require.ErrorContains(t, err, "broke off after 100000 bytes")
		h.files["m.gguf"] = content(7, 50_000)
		var notices []string
		opt.Attempts, opt.Notice = 2, func(s string) { notices = append(notices, s) }
		var last []int64
		opt.Progress = func(done, total int64) { last = []int64{done, total} }
		files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
		require.NoError(t, err)
		pulled(t, h, opt, files, "m.gguf")
		assert.Contains(t, strings.Join(notices, "\n"), "the file on the server is shorter than what is here")
		assert.Equal(t, []int64{50_000, 50_000}, last, "the total is that of the answer with the file")
	})
}

// TestOtherRange: if the server answers a request for the rest with another part of the file, the file is fetched anew;
// if it reports another length, it is refused.
func TestOtherRange(t *testing.T) {
	for span, want := range map[string]string{
		"bytes 0-199999/300000": "the server sent another range than was asked for", "bytes": "another range",
		"bytes 100001-299999/300000": "another range",
		"bytes 100000-299999/300001": "the server has 300001 bytes of m.gguf",
	} {
		bubble.Test(t, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.cuts = []int{100_000}
			var said []string
			opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Attempts: 3}
			opt.Notice = func(s string) { said = append(said, s) }
			opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				res, err := inProcess{h}.RoundTrip(r)
				if res.StatusCode == http.StatusPartialContent {
					res.Header.Set("Content-Range", span)
				}
				return res, err
			})
			files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			if strings.Contains(want, "300001") {
				require.ErrorContains(t, err, want)
				assert.Empty(t, left(t, opt.Dir))
				return
			}
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
			assert.Contains(t, strings.Join(said, "\n"), want)
		})
	}
}

// TestLengthOfRest: if the hub states no length, that of an answer with the rest counts.
func TestLengthOfRest(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.noList, h.cuts = true, []int{100_000}
	opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Attempts: 1}
	opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			return answer(http.StatusNotImplemented)(r)
		}
		return inProcess{h}.RoundTrip(r)
	})
	_, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.ErrorContains(t, err, "broke off after 100000 bytes")
	var last []int64
	opt.Progress = func(done, total int64) { last = []int64{done, total} }
	files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Equal(t, []int64{300_000, 300_000}, last)
	assert.Equal(t, 1, h.count(`range="bytes=100000-"`))
}

// TestWholePart: of a part with all bytes nothing is fetched again.
func TestWholePart(t *testing.T) {
	h := newFakeHub("m.gguf")
	opt := h.serve(t)
	part := filepath.Join(folder(t, "o/n/m.gguf.part", "o/n/m.gguf.part.json"), "o", "n", "m.gguf.part")
	opt.Dir = filepath.Join(part, "..", "..", "..")
	require.NoError(t, os.WriteFile(part, h.files["m.gguf"], 0o644))
	origin := `{"sha256":"` + sumOf(h.files["m.gguf"]) + `"}`
	require.NoError(t, os.WriteFile(part+".json", []byte(origin), 0o644))
	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Zero(t, h.count("/resolve/"))
}

// TestDamagedPart: a partial file without a matching identity, or with damage, is not continued.
func TestDamagedPart(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, part string){
		"no origin": func(t *testing.T, part string) { require.NoError(t, os.Remove(part+".json")) },
		"broken origin": func(t *testing.T, part string) {
			require.NoError(t, os.WriteFile(part+".json", []byte("{"), 0o644))
		},
		"longer than it": func(t *testing.T, part string) {
			require.NoError(t, os.WriteFile(part, content(3, 400_000), 0o644))
		},
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
		require.ErrorAs(t, err, &sum, "the checksum covers the whole file, also the earlier part")
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
	assert.Empty(t, left(t, opt.Dir), "no file is left")
}

// TestNoSum: without any SHA-256 only the length is checked, and a notice says so.
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
			var last []int64
			opt.Notice = func(s string) { notices = append(notices, s) }
			opt.Progress = func(done, total int64) { last = []int64{done, total} }
			files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
			require.NoError(t, err)
			pulled(t, h, opt, files, "m.gguf")
			want := []int64{300_000, 300_000}
			if h.noLength {
				want[1] = -1
			}
			assert.Equal(t, want, last)
			assert.Contains(t, strings.Join(notices, "\n"), "no SHA-256")
			h.files["m.gguf"] = content(5, 300_000)
			files, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
			require.NoError(t, err)
			assert.True(t, files[0].Fetched, "a file that cannot be checked is fetched again")
			pulled(t, h, opt, files, "m.gguf")
		})
	}
}

// TestLengthOfRedirect: the length of an answer that redirects is not that of the file.
func TestLengthOfRedirect(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.noList, h.linked, h.cdn = true, true, "http://hub.test"
	opt := Options{Dir: held.TempDir(t), Endpoint: h.cdn, Attempts: 1}
	opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := inProcess{h}.RoundTrip(r)
		if res.StatusCode == http.StatusFound {
			res.Header.Del("X-Linked-Size")
			res.ContentLength = 17
		}
		return res, err
	})
	files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	files, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.NoError(t, err)
	assert.False(t, files[0].Fetched, "its SHA-256 is enough")
}

// TestCutOff: bytes that arrived before the server gave up are kept, and the error says so.
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
	assert.NotContains(t, err.Error(), "keeps what has arrived", "nothing has arrived")
}

// TestConcurrentPulls: concurrent pulls of one file succeed with the right file or report the other pull.
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
		assert.ErrorContains(t, err, filepath.Join("o", "n", "m.gguf")+": another pull", "the file, not its lock")
	}
	assert.Positive(t, done)
	files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.NoError(t, err)
	pulled(t, h, opt, files, "m.gguf")
	assert.Equal(t, 1, h.count("/resolve/"), "later pulls found it complete")
}

// TestDiskErrors: an error of the disk names the path and is not retried.
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
	t.Run("part in the way", func(t *testing.T) {
		part := filepath.Join(folder, "m.gguf.part")
		require.NoError(t, os.Mkdir(part, 0o755))
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, part)
		require.NoError(t, os.Remove(part))
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

func TestContentRange(t *testing.T) {
	first, total, err := parseContentRange("bytes 5-9/10")
	require.NoError(t, err)
	assert.EqualValues(t, 5, first)
	assert.EqualValues(t, 10, total)
	first, total, err = parseContentRange("bytes 5-9/*")
	require.NoError(t, err)
	assert.EqualValues(t, 5, first)
	assert.EqualValues(t, -1, total)
	for _, s := range []string{"", "bytes", "bytes */10", "bytes -5-9/10", "bytes 5-9", "bytes 5-9/x",
		"bytes 9223372036854775808-9/10"} {
		_, _, err := parseContentRange(s)
		assert.Error(t, err, s)
	}
}

// TestDiskFails: if the bytes of an earlier attempt cannot be dropped, an attempt ends with that error, and asks for
// nothing.
func TestDiskFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf.part")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := os.Open(path) // not for writing: it cannot be truncated
	require.NoError(t, err)
	defer f.Close()
	p := &puller{http: &http.Client{Transport: nowhere{t}}}
	u := &url.URL{Scheme: "http", Host: "hub.test"}
	err = p.attempt(t.Context(), u, &part{path: path, f: f, sum: sha256.New(), size: 3}, nil)
	assert.ErrorContains(t, err, "truncate "+path)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(kept))
}

// nowhere fails the test if there is a request.
type nowhere struct{ t *testing.T }

func (n nowhere) RoundTrip(*http.Request) (*http.Response, error) {
	n.t.Error("a request")
	return nil, io.EOF
}
