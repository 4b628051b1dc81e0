package hub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
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
	for name, c := range map[string]struct {
		change func(*fakeHub)
		notice string
	}{
		"no ranges":      {func(h *fakeHub) { h.ignoreRange = true }, "the server does not go on"},
		"a shorter file": {func(h *fakeHub) { h.files["m.gguf"] = content(8, 90_000) }, ""},
		"no length":      {func(h *fakeHub) { h.noLength = true }, "the server does not go"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHub("m.gguf")
			h.cuts = []int{100_000}
			opt := h.serve(t)
			_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.ErrorContains(t, err, "broke off after 100000 bytes")
			assert.Contains(t, left(t, opt.Dir), "m.gguf.part")
			c.change(h)
			var notices []string
			opt.Notice = func(s string) { notices = append(notices, s) }
			pulls(t, h, opt, "o/n", "m.gguf")
			assert.Contains(t, strings.Join(notices, "\n"), c.notice)
		})
	}
}

// TestOtherRange: if the server answers a request for the rest with something else than the rest of the file, the file
// is fetched anew.
func TestOtherRange(t *testing.T) {
	for _, span := range []string{"bytes 0-199999/300000", "bytes", "", "bytes 100001-299999/300000",
		"bytes 100000-299999/300001", "bytes 100000-299998/300000", "416"} {
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
					if span == "416" {
						return answer(http.StatusRequestedRangeNotSatisfiable)(r)
					}
				}
				return res, err
			})
			pulls(t, h, opt, "o/n", "m.gguf")
			assert.Contains(t, strings.Join(said, "\n"), "the server does not have the rest of m.gguf: starting again")
		})
	}
}

// TestNoSum: without a SHA-256 only the length is checked, and a notice says so. Nothing is resumed, since later bytes
// could be of another file.
func TestNoSum(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		h.plainGit, h.cuts = true, []int{100_000, 90_000, 80_000}
		var notices []string
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Attempts: 2, Transport: inProcess{h}}
		opt.Notice = func(s string) { notices = append(notices, s) }
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, "broke off after 90000 bytes")
		for seed := range uint64(2) {
			h.files["m.gguf"] = content(5+seed, 300_000)
			files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
			require.NoError(t, err)
			assert.True(t, files[0].Fetched, "a file that cannot be checked is fetched again")
			pulled(t, h, opt, files, "m.gguf")
		}
		assert.Zero(t, h.count(`range="bytes=`))
		assert.Contains(t, strings.Join(notices, "\n"), "the hub states no SHA-256 for m.gguf")
	})
}

// TestWholePart: of a part with all bytes nothing is fetched again.
func TestWholePart(t *testing.T) {
	h := newFakeHub("m.gguf")
	opt := h.serve(t)
	part := filepath.Join(folder(t, "o/n/m.gguf.part"), "o", "n", "m.gguf.part")
	opt.Dir = filepath.Join(part, "..", "..", "..")
	require.NoError(t, os.WriteFile(part, h.files["m.gguf"], 0o644))
	pulls(t, h, opt, "o/n", "m.gguf")
	assert.Zero(t, h.count("/resolve/"))
}

// TestDamagedPart: the SHA-256 covers the whole file, also the earlier part: a file with other bytes is refused and
// removed, and the next pull fetches it anew.
func TestDamagedPart(t *testing.T) {
	for _, n := range []int{100_000, 300_000, 400_000} { // a part of the file, as much as it has, and more
		h := newFakeHub("m.gguf")
		opt := h.serve(t)
		part := filepath.Join(opt.Dir, "o", "n", "m.gguf.part")
		require.NoError(t, os.MkdirAll(filepath.Dir(part), 0o755))
		require.NoError(t, os.WriteFile(part, content(3, n), 0o644))
		files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		if n <= 300_000 {
			require.ErrorContains(t, err, "it was removed, try again")
			files, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
		}
		require.NoError(t, err)
		pulled(t, h, opt, files, "m.gguf")
	}
}

func TestWrongSum(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.wrongSum = true
	opt := h.serve(t)
	_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.ErrorContains(t, err, filepath.Join(opt.Dir, "o", "n", "m.gguf")+": what arrived has SHA-256 "+
		sumOf(h.files["m.gguf"])+", it should be ")
	assert.Empty(t, left(t, opt.Dir), "no file is left")
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
	pulls(t, h, opt, "o/n", "m.gguf")
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
	t.Run("full", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			return // only Linux has a device that is always full
		}
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(folder, "m.gguf.part")))
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, filepath.Join(folder, "m.gguf.part"))
	})
}
