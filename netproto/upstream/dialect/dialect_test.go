package dialect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// says is an engine that gives one reply to everything.
type says struct {
	status int
	header http.Header
	body   io.Reader
	asked  *http.Request
	closed int
}

// Close counts how often the body is closed.
func (s *says) Close() error { s.closed++; return nil }

func (s *says) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = r
	body := struct {
		io.Reader
		io.Closer
	}{s.body, s}
	return &http.Response{StatusCode: s.status, Header: s.header, Body: body, Request: r}, nil
}

func client(t *testing.T, secret netproto.Secret, to http.RoundTripper) *Client {
	t.Helper()
	u, err := ParseURL("http://engine/below/")
	require.NoError(t, err)
	return NewClient(u, secret, to)
}

// TestRequest: the sent request: the path after that of the URL, the key, and the header that allows net/http to repeat
// it.
func TestRequest(t *testing.T) {
	s := &says{status: 200, body: bytes.NewReader([]byte(`{"a":3}`))}
	var into struct{ A int }
	require.NoError(t, client(t, "sesame", s).Post(t.Context(), "/x", map[string]int{"b": 4}, &into))
	assert.Equal(t, 3, into.A)
	assert.Equal(t, "http://engine/below/x", s.asked.URL.String())
	assert.Equal(t, "Bearer sesame", s.asked.Header.Get("Authorization"))
	assert.Equal(t, "application/json", s.asked.Header.Get("Content-Type"))
	again, ok := s.asked.Header["Idempotency-Key"]
	assert.True(t, ok && len(again) == 0, "net/http may repeat it, and does not send the header")
	b, err := io.ReadAll(s.asked.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"b":4}`, string(b))
	assert.Equal(t, 1, s.closed, "the connection can be used again")

	s = &says{status: 200, body: strings.NewReader(`{"a":"secret"}`)}
	err = client(t, "", s).Get(t.Context(), "/y", &into)
	assert.EqualError(t, err, "GET /y: the engine's reply is invalid: field A has a value of another type")

	cut := errors.New("cut off")
	err = client(t, "", &says{status: 200, body: iotest.ErrReader(cut)}).Get(t.Context(), "/y", &into)
	assert.EqualError(t, err, "GET /y: cut off")
	assert.ErrorIs(t, err, cut)

	s = &says{status: 200, body: bytes.NewReader(nil)}
	require.NoError(t, client(t, "", s).Get(t.Context(), "/y", nil))
	assert.NotContains(t, s.asked.Header, "Authorization")
	assert.NotContains(t, s.asked.Header, "Content-Type")

	s = &says{status: 302, header: http.Header{"Location": {"http://elsewhere/"}}, body: bytes.NewReader(nil)}
	assert.Equal(t, 302, Status(client(t, "sesame", s).Get(t.Context(), "/y", nil)))
	assert.Equal(t, "engine", s.asked.URL.Host, "a redirect would send the key elsewhere")
}

// TestLongReply: the length of a reply is limited.
func TestLongReply(t *testing.T) {
	racing.Spare(t)
	blanks := func(n int64) io.Reader { return io.LimitReader(blank{}, n) }
	for _, c := range []struct {
		name string
		body io.Reader
		ok   bool
	}{
		{"the longest", io.MultiReader(blanks(maxReply-2), bytes.NewReader([]byte("{}"))), true},
		{"one byte more", io.MultiReader(blanks(maxReply-1), bytes.NewReader([]byte("{}"))), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := client(t, "", &says{status: 200, body: c.body}).Get(t.Context(), "/", &struct{}{})
			assert.Equal(t, c.ok, err == nil, "%v", err)
			if !c.ok {
				assert.ErrorIs(t, err, ErrReply)
				assert.ErrorContains(t, err, "GET /: ")
			}
		})
	}
}

type blank struct{}

func (blank) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestStatusError: the known formats of errors, and the part that may be shown.
func TestStatusError(t *testing.T) {
	for body, want := range map[string]string{ // what is shown of the reply of an engine
		`{"error":{"message":"no","type":"bad_thing"}}`:    "no",
		`{"error":"Unauthorized"}`:                         "Unauthorized",
		`{"object":"error","message":"full","type":"503"}`: "full",
		`{"detail":"Not Found"}`:                           "Not Found",
		`{"detail":[{"loc":1}]}`:                           `{"detail":[{"loc":1}]}`,
		`{"error":{"message":"","type":"Bad"}}`:            `{"error":{"message":"","type":"Bad"}}`,
		`{"detail":"more","message":"no"}`:                 "no",
		strings.Repeat("x", 301):                           strings.Repeat("x", 300),
		strings.Repeat("x", 299) + "é":                     strings.Repeat("x", 299), // no part of a character
		`nginx`:                                            "nginx",
		``:                                                 "",
	} {
		s := &says{status: 503, header: http.Header{"Retry-After": {"2"}}, body: bytes.NewReader([]byte(body))}
		err := client(t, "", s).Get(t.Context(), "/x", nil)
		var e *StatusError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, StatusError{Request: "GET /x", Status: 503, Said: want, RetryAfter: 2 * time.Second}, *e)
		assert.ErrorIs(t, err, netproto.Busy)
		assert.Equal(t, 503, Status(err))
		text := "GET /x: 503 Service Unavailable"
		assert.EqualError(t, err, text)
		if want != "" {
			text += fmt.Sprintf(": %q", want)
		}
		assert.Equal(t, text, Said(err))
	}
	assert.Zero(t, Status(errors.New("another")))
	assert.Equal(t, "another", Said(errors.New("another")))
}

// TestChosenModel: the named model of a list, or its first.
func TestChosenModel(t *testing.T) {
	to := answering(`{"data":[{"id":"a","max_model_len":1},{"id":"b","max_model_len":2}]}`)
	for name, want := range map[string]int{"": 1, "a": 1, "b": 2, "c": 0} {
		m, err := findModel(t.Context(), client(t, "", to), name)
		assert.Equal(t, want == 0, err != nil, name)
		assert.Equal(t, want, m.MaxLength, name)
	}
}

// codeOf returns the code that the client of a gateway gets for an error.
func codeOf(err error) netproto.Code {
	code, _ := errors.AsType[netproto.Code](err)
	return code
}

// TestCodes: the code of the gateway for each status.
func TestCodes(t *testing.T) {
	for status, code := range map[int]netproto.Code{
		400: netproto.Failed, 401: netproto.Failed, 413: netproto.TooLarge, 429: netproto.TooFast, 500: netproto.Failed,
		503: netproto.Busy,
	} {
		assert.ErrorIs(t, &StatusError{Status: status}, code, status)
	}
	for text, want := range map[string]time.Duration{
		"3": 3 * time.Second, "0.25": time.Second / 4, "": 0, "-1": 0, "1e9": time.Hour, "1e999": 0, "NaN": 0,
		"soon": 0,
	} {
		assert.Equal(t, want, parseRetryAfter(text), text)
	}
	for status, want := range map[int]bool{400: false, 401: false, 403: false, 404: true, 405: true, 422: false,
		500: false, 501: true, 503: false} {
		assert.Equal(t, want, errors.Is(wrapAbsent(&StatusError{Status: status}), ErrAbsent), status)
	}
	assert.NoError(t, wrapAbsent(nil))
}

// TestTop: candidates are sorted, equal ones by ascending id; invalid ones give nothing.
func TestTop(t *testing.T) {
	inf := float32(math.Inf(-1))
	c := func(id int32, p float32) terms.Candidate { return terms.Candidate{ID: id, LogProb: p} }
	type list = []terms.Candidate
	for _, x := range []struct {
		name     string
		in, want list
	}{
		{"one is impossible", list{c(3, -2), c(1, -1), c(2, -2), c(9, inf)}, list{c(1, -1), c(2, -2), c(3, -2)}},
		{"twice", list{c(1, -1), c(1, -1)}, nil},
		{"above 1", list{c(1, 0.5)}, nil},
		{"no number", list{c(1, float32(math.NaN()))}, nil},
		{"1 as rounded", list{c(1, 1e-4)}, list{c(1, 1e-4)}},
		{"too many", list{c(4, -4), c(3, -3), c(2, -2), c(1, -1)}, list{c(1, -1), c(2, -2), c(3, -3)}},
		{"none", nil, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			assert.Equal(t, x.want, Top(x.in, 3))
		})
	}
	for text, want := range map[string]int32{"token_id:0": 0, "token_id:42": 42, "token_id:-1": -1, "42": -1,
		"token_id:":            -1,
		"token_id:99999999999": -1, "token_id:1x": -1} {
		id, err := parseTokenID(text)
		assert.Equal(t, want < 0, err != nil, text)
		assert.Equal(t, max(want, 0), id, text)
	}
	_, ok := newRow(list{c(1, inf)}, 1, inf)
	assert.False(t, ok, "every token is impossible")
	_, err := singleToken(nil)
	assert.ErrorIs(t, err, ErrReply)
	_, err = singleToken([]int32{1, 2})
	assert.ErrorIs(t, err, ErrReply)
	assert.Equal(t, inf, parseLogProb(nil))
}

// TestParseURL: addresses of engines.
func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://a:1/": "http://a:1", "https://a/b/": "https://a/b", "a:1": "", "http://": "", "http://u:p@a": "",
		"http://a?b": "",
		"http://a#b": "", "http://a:b": "", "http://[": "",
		"file:///x": "", "ftp://a": "", "http://[::1]:8000": "http://[::1]:8000",
	} {
		u, err := ParseURL(text)
		assert.Equal(t, want == "", err != nil, text)
		if err == nil {
			assert.Equal(t, want, u.String())
		}
	}
}

// TestTransport: idle connections are kept for a minute, one for each concurrent request. Replies are not compressed,
// the operator's proxy is used, and an engine that does not speak TLS is an error.
func TestTransport(t *testing.T) {
	const parallel = 150
	bubble.Test(t, func(t *testing.T) {
		served := bubble.NewListener()
		var dialled, open atomic.Int32
		server := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				assert.Empty(t, r.Header.Get("Accept-Encoding"))
				_, _ = io.WriteString(w, "{}")
			}),
			ConnState: func(_ net.Conn, to http.ConnState) {
				switch to {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			},
		}
		var serving sync.WaitGroup
		serving.Go(func() { assert.ErrorIs(t, server.Serve(served), http.ErrServerClosed) })
		transport := NewTransport(parallel)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			dialled.Add(1)
			return served.Dial()
		}
		c := client(t, "", transport)
		for range 3 {
			var all sync.WaitGroup
			for range parallel {
				all.Go(func() { assert.NoError(t, c.Get(t.Context(), "/x", new(struct{}))) })
			}
			all.Wait()
			time.Sleep(50 * time.Second)
		}
		time.Sleep(9 * time.Second)
		assert.EqualValues(t, parallel, dialled.Load())
		assert.EqualValues(t, parallel, open.Load())
		time.Sleep(2 * time.Second)
		assert.Zero(t, open.Load())
		require.NoError(t, server.Close())
		serving.Wait()
	})
	bubble.Test(t, func(t *testing.T) {
		transport := NewTransport(1)
		here, there := net.Pipe()
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return here, nil }
		go func() { _, _ = io.Copy(io.Discard, there) }()
		began := time.Now()
		u, err := ParseURL("https://engine")
		require.NoError(t, err)
		err = NewClient(u, "", transport).Get(t.Context(), "/x", new(struct{}))
		assert.ErrorContains(t, err, "TLS handshake timeout")
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
	from := func(proxy any) uintptr { return reflect.ValueOf(proxy).Pointer() }
	assert.Equal(t, from(http.ProxyFromEnvironment), from(NewTransport(1).Proxy))
}
