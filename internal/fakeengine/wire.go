package fakeengine

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// Wire carries requests to engines in this process, by host, without a network. It works in virtual time.
type Wire struct {
	mu      sync.Mutex
	engines map[string]http.Handler // nil: no engine at the host
}

// RoundTrip implements http.RoundTripper.
func (w *Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	h := w.engines[r.URL.Host]
	w.mu.Unlock()
	if h == nil {
		return nil, io.ErrUnexpectedEOF
	}
	done := make(chan *http.Response, 1)
	go func() {
		defer func() {
			if recover() != nil { // the handler aborted the connection
				close(done)
			}
		}()
		answer := newRecorder()
		h.ServeHTTP(answer, r)
		done <- answer.reply(r)
	}()
	select {
	case answer, ok := <-done:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		return answer, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// Set sets the engine at a host; nil removes it.
func (w *Wire) Set(host string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines[host] = h
}

// NewWire returns a wire to engines.
func NewWire(engines map[string]http.Handler) *Wire { return &Wire{engines: engines} }

// recorder records a handler's response.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{status: http.StatusOK, header: http.Header{}} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *recorder) reply(to *http.Request) *http.Response {
	return &http.Response{
		StatusCode: r.status, Status: http.StatusText(r.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: io.NopCloser(&r.body), ContentLength: int64(r.body.Len()), Request: to,
	}
}
