package hub

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/internal/retry"
)

// flaky fails the first requests and then forwards to a hub.
type flaky struct {
	next     http.RoundTripper
	failures int
	fail     func(*http.Request) (*http.Response, error)
	asked    []time.Time
}

// RoundTrip implements http.RoundTripper.
func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked = append(f.asked, time.Now())
	if f.failures > 0 {
		f.failures--
		return f.fail(r)
	}
	return f.next.RoundTrip(r)
}

func answer(code int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		for i := 0; i < len(header); i += 2 {
			rec.Header().Set(header[i], header[i+1])
		}
		rec.WriteHeader(code)
		res := rec.Result()
		res.Request = r
		return res, nil
	}
}

func broken(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// TestRetry: transient failures are retried with growing pauses, others are not. In virtual time.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name     string
		failures int
		fail     func(*http.Request) (*http.Response, error)
		min, max time.Duration // until Pull returns
		want     string        // in the error; "" means success
	}{
		{"500 once", 1, answer(500), time.Second / 2, 2 * time.Second, ""},
		{"408 once", 1, answer(408), time.Second / 2, 2 * time.Second, ""},
		{"503 four times", 4, answer(503), 7 * time.Second, 23 * time.Second, ""},
		{"reset", 2, broken(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), time.Second,
			5 * time.Second, ""},
		{"429 with a wish", 1, answer(429, "Retry-After", "20"), 20 * time.Second, 20 * time.Second, ""},
		{"429 with too great a wish", 1, answer(429, "Retry-After", "99999"), 60 * time.Second, 60 * time.Second, ""},
		{"500 for ever", 1 << 30, answer(500), 15 * time.Second, 47 * time.Second,
			"gave up after 6 tries: http://hub.test/api/models/o/n/tree/main answers 500"},
		{"429 for ever", 1 << 30, answer(429), 15 * time.Second, 47 * time.Second,
			"answers 429 Too Many Requests: wait a while, or give a token in HF_TOKEN"},
		{"silence", 1, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
			30 * time.Second, 32 * time.Second, ""},
		{"silence for ever", 1 << 30,
			func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
			195 * time.Second, 230 * time.Second, "gone silent"},
		{"no such host", 1 << 30, broken(&net.DNSError{Name: "hub.test", IsNotFound: true}), 0, 0, "hub.test"},
		{"name server busy", 1, broken(&net.DNSError{Name: "hub.test", IsTimeout: true}), time.Second / 2,
			2 * time.Second, ""},
		{"forbidden", 1 << 30, answer(403), 0, 0, "answers 403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := newFakeHub("m.gguf")
				f := &flaky{next: inProcess{h}, failures: c.failures, fail: c.fail}
				opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: returned(t, f)}
				begin := time.Now()
				files, err := Pull(context.WithoutCancel(t.Context()), mustRef(t, "o/n"), opt)
				took := time.Since(begin)
				assert.True(t, c.min <= took && took <= c.max, "%v", took)
				if c.want != "" {
					require.ErrorContains(t, err, c.want)
					return
				}
				require.NoError(t, err)
				pulled(t, h, opt, files, "m.gguf")
			})
		})
	}
}

// TestRetryBody: an interrupted body is continued as long as megabytes arrive in between.
func TestRetryBody(t *testing.T) {
	racing.Spare(t)
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub()
		h.files["m.gguf"] = content(1, 12<<20+5)
		for range 12 {
			h.cuts = append(h.cuts, 1<<20)
		}
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: inProcess{h}, Attempts: 2}
		pulls(t, h, opt, "o/n", "m.gguf")
		assert.Equal(t, 12<<20+5, h.bytesSent())
	})
}

// TestRetryShortBody: retries end if only a few bytes arrive in each.
func TestRetryShortBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		h.cuts = []int{10, 10, 10, 10}
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: inProcess{h}, Attempts: 3}
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, "gave up after 3 tries: m.gguf broke off after 30 bytes: unexpected EOF")
	})
}

// TestRetryLaterBody: what arrived in an earlier attempt does not count for a later one.
func TestRetryLaterBody(t *testing.T) {
	racing.Spare(t)
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub()
		h.files["m.gguf"], h.cuts = content(1, 3<<20), []int{2 << 20, 10}
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: inProcess{h}, Attempts: 2}
		_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.ErrorContains(t, err, "gave up after 2 tries: m.gguf broke off after 2097162 bytes")
	})
}

// TestRetryEndedBody: a listing that is interrupted, and a file that ends early without an error, are continued.
func TestRetryEndedBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		breaks := []error{io.ErrUnexpectedEOF, nil, io.EOF}
		early := roundTrip(func(r *http.Request) (*http.Response, error) {
			res, err := inProcess{h}.RoundTrip(r)
			if len(breaks) > 0 {
				if breaks[0] != nil {
					res.Body = io.NopCloser(io.MultiReader(io.LimitReader(res.Body, 100), failing{breaks[0]}))
				}
				breaks = breaks[1:]
			}
			return res, err
		})
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: early, Attempts: 2}
		pulls(t, h, opt, "o/n", "m.gguf")
		assert.Empty(t, breaks)
	})
}

// TestStalledBody: a silent body counts as broken.
func TestStalledBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		stalled := false
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test"}
		opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			res, err := inProcess{h}.RoundTrip(r)
			if strings.Contains(r.URL.Path, "/resolve/") && !stalled {
				stalled = true
				res.Body = io.NopCloser(io.MultiReader(io.LimitReader(res.Body, 100), silent{r.Context()}))
			}
			return res, err
		})
		begin := time.Now()
		files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.NoError(t, err)
		assert.InDelta(t, 31, time.Since(begin).Seconds(), 1)
		pulled(t, h, opt, files, "m.gguf")
		assert.Equal(t, 1, h.count(`range="bytes=100-"`))
	})
}

// TestSlowBody: a body that arrives in pieces takes as long as it takes, if no pause between two pieces is too long.
func TestSlowBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newFakeHub("m.gguf")
		opt := Options{Dir: held.TempDir(t), Endpoint: "http://hub.test"}
		opt.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			res, err := inProcess{h}.RoundTrip(r)
			res.Body = slow{res.Body, r.Context()}
			return res, err
		})
		begin := time.Now()
		files, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
		require.NoError(t, err)
		assert.Greater(t, time.Since(begin), 100*time.Second)
		pulled(t, h, opt, files, "m.gguf")
		assert.Zero(t, h.count(`range="bytes=`))
	})
}

// slow is a body that sends a piece every 25 seconds.
type slow struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements io.Reader.
func (s slow) Read(b []byte) (int, error) {
	if err := retry.Wait(s.ctx, 25*time.Second); err != nil {
		return 0, err
	}
	return s.ReadCloser.Read(b[:min(len(b), 60_000)])
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent is a connection without data until it is cancelled.
type silent struct{ ctx context.Context }

// Read implements io.Reader.
func (s silent) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// TestCancelWhileWaiting: Ctrl-C at once ends the pause between two attempts.
func TestCancelWhileWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		f := &flaky{failures: 1 << 30, fail: answer(500)}
		_, err := Pull(ctx, mustRef(t, "o/n"), Options{Dir: held.TempDir(t), Endpoint: "http://hub.test", Transport: f})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, f.asked, 1)
	})
}

// TestTokenStaysHome: the token is sent to the endpoint and no other host, and is in no error or notice.
func TestTokenStaysHome(t *testing.T) {
	const token = "hf_verysecret"
	h, cdn := newFakeHub("m.gguf"), newFakeHub("m.gguf")
	elsewhere := httptest.NewServer(cdn)
	defer elsewhere.Close()
	h.cdn = elsewhere.URL
	opt := h.serve(t)
	opt.Token = token + "\n" // as in a file or from a shell
	var said strings.Builder
	opt.Notice = func(s string) { said.WriteString(s) }

	files := pulls(t, h, opt, "o/n", "m.gguf")
	assert.Equal(t, h.count(""), h.count(`auth="Bearer `+token+`"`), "the endpoint gets it each time")
	assert.Equal(t, 1, cdn.count(`auth=""`))
	assert.Equal(t, 1, cdn.count(""))

	require.NoError(t, os.Remove(files[0].Path))
	cdn.status = map[string]int{"/cdn/": 500}
	opt.Attempts = 1
	_, err := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.ErrorContains(t, err, elsewhere.URL+"/cdn/m.gguf answers 500")
	cdn.status = map[string]int{"/cdn/": 403}
	_, err = Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.ErrorContains(t, err, elsewhere.URL+"/cdn/m.gguf answers 403")
	assert.NotContains(t, err.Error(), "HF_TOKEN", "advice about the hub is for its own answers")
	elsewhere.Close()
	_, err2 := Pull(t.Context(), mustRef(t, "o/n:m.gguf"), opt)
	require.Error(t, err2)
	for _, text := range []string{err.Error(), err2.Error(), said.String()} {
		assert.NotContains(t, text, token)
		assert.NotContains(t, text, "Signature", "a signed address is a secret, too")
	}
	assert.Zero(t, cdn.count(token))

	opt.Token = "hf_bad\x01token"
	_, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hf_bad")
}

// TestRedirectLoop: a server that redirects endlessly is asked once, and named.
func TestRedirectLoop(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}))
	defer s.Close()
	opt := Options{Dir: held.TempDir(t), Endpoint: s.URL, Attempts: 5}
	_, err := Pull(t.Context(), mustRef(t, "o/n"), opt)
	require.ErrorContains(t, err,
		s.URL+"/api/models/o/n/tree/main: the server redirects again and again: check HF_ENDPOINT")
	assert.Equal(t, 10, requests)
}

// TestRedirectChain: a chain of redirects that has come to https stays there.
func TestRedirectChain(t *testing.T) {
	for chain, want := range map[string]error{
		"http http": nil, "https https": nil, "http https": nil, "http https https": nil, "https http": errUnsafe,
		"http https http": errUnsafe, "http ftp": errUnsafe, "https file": errUnsafe,
	} {
		var all []*http.Request
		for scheme := range strings.FieldsSeq(chain) {
			all = append(all, &http.Request{URL: &url.URL{Scheme: scheme, Host: "hub.test"}})
		}
		last := len(all) - 1
		assert.Equal(t, want, checkRedirect(all[last], all[:last]), chain)
	}
}

// TestUntrusted: a server with a certificate that is not trusted is asked once, and gets no token.
func TestUntrusted(t *testing.T) {
	h := newFakeHub("m.gguf")
	s := httptest.NewTLSServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer s.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := Pull(t.Context(), mustRef(t, "o/n"), Options{Dir: held.TempDir(t), Endpoint: s.URL, Token: "t",
		Attempts: 5, Transport: transport, Notice: func(text string) { t.Error(text) }})
	require.ErrorContains(t, err, s.URL+"/api/models/o/n/tree/main: tls: failed to verify certificate")
	assert.Zero(t, h.count(""))
}

// TestTokenNeedsScheme: the host and port of the endpoint without encryption count as another server.
func TestTokenNeedsScheme(t *testing.T) {
	var sent []string
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("Authorization"))
		return answer(200)(r)
	})
	endpoint, err := url.Parse("https://hub.test")
	require.NoError(t, err)
	transport := &tokenTransport{next: next, endpoint: endpoint, token: "t"}
	for _, at := range []string{
		"https://hub.test/x", "http://hub.test/x", "https://hub.test:444/x", "https://a.hub.test/",
	} {
		r, err := http.NewRequest(http.MethodGet, at, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer of a redirect")
		res, err := transport.RoundTrip(r)
		require.NoError(t, err)
		res.Body.Close()
	}
	assert.Equal(t, []string{"Bearer t", "", "", ""}, sent)
}

// TestForeignText: nothing that a server sends can control a terminal.
func TestForeignText(t *testing.T) {
	for text, want := range map[string]string{
		"no \x1b[2Jentry\a\r\n\x7f": "no [2Jentry", "a\u009b2J\u0085b\u202ec": "a2Jbc", "Größe 🐟": "Größe 🐟",
		strings.Repeat("a", 199) + "é": strings.Repeat("a", 199), strings.Repeat("é", 100): strings.Repeat("é", 100),
		strings.Repeat("é", 101): strings.Repeat("é", 100),
	} {
		assert.Equal(t, want, sanitizeServerText(text))
	}
	name := "m\x1b[2J\u009b2J-q2_k.gguf"
	listed := []remoteFile{{name: name, size: 1}, {name: "other.gguf", size: 1}}
	r := Ref{Owner: "o", Name: "n", Revision: "main"}
	for _, ask := range []func() error{
		func() error { _, err := chooseModel(r, listed); return err },
		func() error {
			_, err := findNamedFile(Ref{Owner: "o", Name: "n", Revision: "main", File: "\x1bc.gguf"}, listed)
			return err
		},
	} {
		err := ask()
		require.ErrorContains(t, err, "m\\x1b[2J\\u009b2J-q2_k.gguf")
		assert.NotContains(t, err.Error(), "\x1b")
		assert.NotContains(t, err.Error(), "\u009b")
	}
}

// TestListingBounds: the numbers of files and pages in a listing and of bytes in its pages are limited.
func TestListingBounds(t *testing.T) {
	list := func(page string) (unread int, err error) {
		body := strings.NewReader(page)
		opt := Options{Dir: held.TempDir(t), Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Request: r}, nil
		})}
		_, err = Pull(t.Context(), mustRef(t, "o/n"), opt)
		return body.Len(), err
	}
	_, err := list("[" + strings.Repeat(`{"path":"a.gguf"},`, maxFiles) + `{"path":"a.gguf"}]`)
	require.ErrorContains(t, err, "more than 20000 GGUF files")
	_, err = list("[" + strings.Repeat(`{"path":"a.gguf"},`, maxFiles-1) + `{"path":"a.gguf"}]`)
	assert.NoError(t, err, "as many as possible")
	_, err = list("[" + strings.Repeat(" ", maxPage-2) + "]")
	require.ErrorContains(t, err, "holds no GGUF model", "a page as large as possible")
	pages, last := 0, false
	endless := roundTrip(func(r *http.Request) (*http.Response, error) {
		if pages++; pages > maxPages {
			return answer(http.StatusGone)(r)
		}
		if pages == maxPages && last {
			return &http.Response{StatusCode: http.StatusOK, Request: r,
				Body: io.NopCloser(strings.NewReader("[]"))}, nil
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("[]")), Request: r,
			Header: http.Header{"Link": {`<?page=` + strconv.Itoa(pages) + `>; rel="next"`}}}, nil
	})
	_, err = Pull(t.Context(), mustRef(t, "o/n"), Options{Dir: held.TempDir(t), Attempts: 1, Transport: endless})
	require.ErrorContains(t, err, "list files: more than 200 pages")
	pages, last = 0, true
	_, err = Pull(t.Context(), mustRef(t, "o/n"), Options{Dir: held.TempDir(t), Attempts: 1, Transport: endless})
	require.ErrorContains(t, err, "holds no GGUF model", "as many pages as possible")
	unread, err := list("[" + strings.Repeat(" ", 2*maxPage) + "]")
	require.ErrorContains(t, err, "a page of more than")
	assert.Greater(t, unread, maxPage/2)
}

// TestAddresses: every element of an address is escaped: a revision with a slash stays one element.
func TestAddresses(t *testing.T) {
	p, err := newPuller(Options{Dir: "d", Endpoint: "https://mirror.test/hf%2Fx/"})
	require.NoError(t, err)
	u := p.resolveURL(mustRef(t, "o/n@refs/pr/1"), "sub dir/a?b#c.gguf")
	assert.Equal(t, "https://mirror.test/hf%2Fx/o/n/resolve/refs%2Fpr%2F1/sub%20dir/a%3Fb%23c.gguf", u.String())
	again, err := url.Parse(u.String())
	require.NoError(t, err)
	assert.Equal(t, u.Path, again.Path)
	again.User, again.RawQuery, again.Fragment = url.UserPassword("me", "secret"), "Signature=secret", "secret"
	assert.Equal(t, u.String(), redactURL(again), "as it is shown")
	again.Path, again.RawPath = strings.Repeat("a", 5000), ""
	assert.Less(t, len(redactURL(again)), 1000)
}
