package hub

import (
	"io"
	"net/http"
	"net/http/httptest"
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

	got, err := p.listFiles(t.Context(), mustRef(t, "o/n"))
	require.NoError(t, err)
	assert.Equal(t, []remoteFile{{"a-q4_0.gguf", 3, ""}, {"b-q8_0.gguf", 7, strings.Repeat("ab", 32)}}, got)

	links = []string{`<https://hub.test/%zz>; rel="next"`,
		`<https://hub.test/first>; rel="prev", <https://hub.test/x/>; title="next"`, "", `<>; rel="last"`}
	got, err = p.listFiles(t.Context(), mustRef(t, "o/n"))
	require.NoError(t, err)
	assert.Len(t, got, 2, "the next page is one of several links, in several headers")
	links = nil

	for _, next = range []string{"https://evil.test", "http://hub.test", "https://hub.test:444"} {
		got, err = p.listFiles(t.Context(), mustRef(t, "o/n"))
		require.NoError(t, err)
		assert.Len(t, got, 1, "a next page at %s is not followed", next)
	}

	_, err = p.listFiles(t.Context(), mustRef(t, "x/y"))
	require.ErrorContains(t, err,
		"the answer is not a list of files as the hub gives it (")
}
