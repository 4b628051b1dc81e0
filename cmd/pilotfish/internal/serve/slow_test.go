package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// clients are connections of clients in this process to a server.
type clients struct {
	*bubble.Listener
	log bytes.Buffer // of the server
}

// send opens a connection and writes a part of a request.
func (c *clients) send(t *testing.T, text string) net.Conn {
	conn, err := c.Dial()
	require.NoError(t, err)
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// endless is a server whose answers do not end before it drains.
type endless struct {
	metrics http.Handler
	ended   chan struct{}
	active  atomic.Int32
}

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
	case "/metrics":
		e.metrics.ServeHTTP(w, r)
	default:
		e.active.Add(1)
		defer e.active.Add(-1)
		_ = http.NewResponseController(w).Flush()
		<-e.ended
	}
}

func (e *endless) Load() serve.Load { return serve.Load{Active: int(e.active.Load())} }
func (e *endless) Close() error     { return nil }

func (e *endless) Drain(ctx context.Context) error {
	defer close(e.ended)
	if e.active.Load() == 0 {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func newEndless(o serve.Options) answeringServer {
	return &endless{metrics: o.Metrics, ended: make(chan struct{})}
}

// inServer runs a test in virtual time with a server of endless answers. stop ends the server and returns how long that
// took.
func inServer(t *testing.T, test func(t *testing.T, c *clients, stop func() time.Duration)) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, ended := &clients{Listener: bubble.NewListener()}, make(chan error)
		s := &listeningServer{listener: c, log: slog.New(slog.NewTextHandler(&c.log, nil))}
		go func() {
			ended <- s.serveRequests(ctx, newEndless, serve.Options{Log: s.log})
		}()
		test(t, c, func() time.Duration {
			began := time.Now()
			cancel()
			assert.NoError(t, <-ended)
			return time.Since(began)
		})
	})
}

// TestServeSilentClients: a client that does not finish its header, or sends no other request, loses its connection.
func TestServeSilentClients(t *testing.T) {
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		began := time.Now()
		_, err := io.ReadAll(c.send(t, "GET /health HTTP/1.1\r\nHost: x\r\n"))
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(began))

		client := c.send(t, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		read := bufio.NewReader(client)
		r, err := http.ReadResponse(read, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, errors.Join(err, r.Body.Close()))
		assert.Equal(t, http.StatusOK, r.StatusCode)
		began = time.Now()
		_, err = read.ReadByte()
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		assert.Zero(t, stop())
	})
}

// TestServeLongHeader: a header of more than 64 KB is refused before it is read to its end.
func TestServeLongHeader(t *testing.T) {
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		client := c.send(t, "GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ")
		go func() { _, _ = io.WriteString(client, strings.Repeat("x", 80<<10)) }() // until the server closes it
		r, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
		require.NoError(t, errors.Join(r.Body.Close(), client.Close()))
		stop()
	})
}

// TestServeDrainTime: an answer that does not end is cut off after the time for draining, and not later.
func TestServeDrainTime(t *testing.T) {
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		const body = `{"prompt":"x","stream":true}`
		client := c.send(t, fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		go func() { _, _ = io.Copy(io.Discard, client) }() // until the server closes it
		synctest.Wait()
		took := stop()
		assert.GreaterOrEqual(t, took, 30*time.Second)
		assert.LessOrEqual(t, took, 32*time.Second)
		assert.Contains(t, c.log.String(), "msg=draining active=1 waiting=0\n")
		assert.Contains(t, c.log.String(), "answers were cut off")
	})
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		stop()
		assert.Contains(t, c.log.String(), "msg=draining active=0 waiting=0\n")
		assert.NotContains(t, c.log.String(), "cut off")
	})
}

// TestServeEndsConnections: a client that has not sent its request when the server ends has a second, and then loses
// its connection: it cannot hold the server up.
func TestServeEndsConnections(t *testing.T) {
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		client := c.send(t, "GET /health HTTP/1.1\r\nHost")
		synctest.Wait()
		assert.Equal(t, time.Second, stop())
		ended := time.Now()
		rest, err := io.ReadAll(client)
		require.NoError(t, err)
		assert.Empty(t, rest)
		assert.Zero(t, time.Since(ended), "not only at the limit for headers")
	})
	assert.NoError(t, ignoreServerClosed(http.ErrServerClosed))
	assert.ErrorIs(t, ignoreServerClosed(net.ErrClosed), net.ErrClosed)
}

// TestServeListenerFails: a server that can accept no more connections ends with the error.
func TestServeListenerFails(t *testing.T) {
	l := bubble.NewListener()
	require.NoError(t, l.Close())
	s := &listeningServer{listener: l, log: slog.New(slog.DiscardHandler)}
	assert.ErrorIs(t, s.serveRequests(t.Context(), newEndless, serve.Options{Log: s.log}), net.ErrClosed)
}

// TestServeMetricsBound: a few clients at once get the metrics, others are refused: readers that are slow take memory.
func TestServeMetricsBound(t *testing.T) {
	inServer(t, func(t *testing.T, c *clients, stop func() time.Duration) {
		const request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
		var slow []net.Conn
		for range 8 {
			slow = append(slow, c.send(t, request)) // does not read the answer
		}
		synctest.Wait()
		r, err := http.ReadResponse(bufio.NewReader(c.send(t, request)), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		for _, c := range slow {
			require.NoError(t, c.Close())
		}
		stop()
	})
}
