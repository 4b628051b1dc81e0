package fakeengine

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		done <- answer.Result()
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
