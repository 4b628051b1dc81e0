package hub

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListing(t *testing.T) {
	const (
		page1 = `[{"type":"file","path":"a-q4_0.gguf","size":3},{"type":"file","path":"README.md","size":3}]`
		page2 = `[{"type":"file","path":"b-q8_0.gguf","size":130,` +
			`"lfs":{"oid":"ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB","size":7}}]`
	)
	next, links := "", []string(nil)
	serve := roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, "hub.test", r.URL.Host)
		assert.Equal(t, "true", r.URL.Query().Get("recursive"), "files in folders are listed, too")
		rec := httptest.NewRecorder()
		switch {
		case strings.Contains(r.URL.Path, "/x/"):
			io.WriteString(rec, `{"error":"no"}`)
		case r.URL.Query().Get("cursor") == "2":
			io.WriteString(rec, page2)
		default:
			rec.Header()["Link"] = links
			rec.Header().Add("Link", `<`+next+`/api/models/o/n/tree/main?recursive=true&cursor=2>; rel="next"`)
			io.WriteString(rec, page1)
		}
		res := rec.Result()
		res.Request = r
		return res, nil
	})
	p, err := newPuller(Options{Dir: "d", Endpoint: "https://hub.test", Transport: serve})
	require.NoError(t, err)

	got, err := p.list(t.Context(), mustRef(t, "o/n"))
	require.NoError(t, err)
	assert.Equal(t, []remote{{"a-q4_0.gguf", 3, ""}, {"b-q8_0.gguf", 7, strings.Repeat("ab", 32)}}, got)

	links = []string{`<https://hub.test/%zz>; rel="next"`,
		`<https://hub.test/first>; rel="prev", <https://hub.test/x/>; title="next"`, "", `<>; rel="last"`}
	got, err = p.list(t.Context(), mustRef(t, "o/n"))
	require.NoError(t, err)
	assert.Len(t, got, 2, "the next page is one of several links, in several headers")
	links = nil

	for _, next = range []string{"https://evil.test", "http://hub.test", "https://hub.test:444"} {
		got, err = p.list(t.Context(), mustRef(t, "o/n"))
		require.NoError(t, err)
		assert.Len(t, got, 1, "a next page at %s is not followed", next)
	}

	_, err = p.list(t.Context(), mustRef(t, "x/y"))
	require.ErrorContains(t, err,
		"the answer is not a list of files as the hub gives it (it is JSON of another form): check HF_ENDPOINT")
}

// TestDescribe: length and sum of a file are those in the headers of the hub, as far as it sends them.
func TestDescribe(t *testing.T) {
	b := newFakeHub("m.gguf").files["m.gguf"]
	n := int64(len(b))
	for _, c := range []struct {
		set        func(*fakeHub)
		size, want int64
		sum        string
	}{
		{func(h *fakeHub) {}, -1, n, ""}, {func(h *fakeHub) {}, 7, 7, ""},
		{func(h *fakeHub) { h.linked = true }, 7, n, sumOf(b)},
		{func(h *fakeHub) { h.linked, h.cdn = true, "http://hub.test" }, -1, n, sumOf(b)},
		{func(h *fakeHub) { h.cdn = "http://hub.test" }, -1, n, ""},
		{func(h *fakeHub) { h.status = map[string]int{"m.gguf": http.StatusMethodNotAllowed} }, -1, -1, ""},
		{func(h *fakeHub) { h.status = map[string]int{"m.gguf": http.StatusNotImplemented} }, 7, 7, ""},
	} {
		h := newFakeHub("m.gguf")
		c.set(h)
		for _, mark := range []string{"", "W/"} { // of a weak entity tag: it is the sum, too
			transport := roundTrip(func(r *http.Request) (*http.Response, error) {
				res, err := inProcess{h}.RoundTrip(r)
				if tag := res.Header.Get("X-Linked-Etag"); tag != "" {
					res.Header.Set("X-Linked-Etag", mark+tag)
				}
				return res, err
			})
			p, err := newPuller(Options{Dir: "d", Endpoint: "http://hub.test", Transport: transport})
			require.NoError(t, err)
			got, err := p.describe(t.Context(), mustRef(t, "o/n"), remote{"m.gguf", c.size, ""})
			require.NoError(t, err)
			assert.Equal(t, remote{"m.gguf", c.want, c.sum}, got)
		}
	}
}

// TestSumInHeaders: if the listing states no SHA-256, that in the headers of the file counts.
func TestSumInHeaders(t *testing.T) {
	h := newFakeHub("m.gguf")
	h.plainGit, h.linked = true, true
	opt := h.serve(t)
	opt.Notice = func(s string) { t.Error(s) }
	for _, fetched := range []bool{true, false} {
		files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.NoError(t, err)
		pulled(t, h, opt, files, "m.gguf")
		assert.Equal(t, fetched, files[0].Fetched)
	}
}

// TestNoListing: a file that is named is fetched without a listing only if the server has none.
func TestNoListing(t *testing.T) {
	for code, without := range map[int]bool{http.StatusNotFound: true, http.StatusMethodNotAllowed: true,
		http.StatusNotImplemented: true, http.StatusForbidden: false, http.StatusGone: false,
		http.StatusServiceUnavailable: false} {
		h := newFakeHub("m.gguf")
		h.linked, h.status = true, map[string]int{"/api/": code}
		opt := h.serve(t)
		files, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
		if without {
			require.NoError(t, err, code)
			pulled(t, h, opt, files, "m.gguf")
			continue
		}
		assert.ErrorContains(t, err, strconv.Itoa(code))
		assert.Zero(t, h.count("/resolve/"), code)
	}
}
