package admin_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/admin"
)

// registry returns a registry with one counter.
func registry(v float64) *prometheus.Registry {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "fish_total", Help: "Fish."})
	c.Add(v)
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	return r
}

// get requests a page.
func get(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// TestPages: the pages report that the process is alive, whether it is ready or why not, and metrics that Prometheus'
// parser reads.
func TestPages(t *testing.T) {
	var ready error
	o := admin.Options{Metrics: registry(7), Ready: func() error { return ready }, Log: slog.New(slog.DiscardHandler)}
	h := admin.Handler(o)
	page := func(path string, code int, want string) {
		t.Helper()
		have, body := get(h, "GET", path)
		assert.Equal(t, code, have, path)
		assert.Equal(t, want, body, path)
	}
	page("/healthz", 200, "alive\n")
	page("/readyz", 200, "ready\n")
	ready = errors.New("about to end")
	page("/healthz", 200, "alive\n")
	page("/readyz", 503, "not ready: about to end\n")
	page("/", 404, "404 page not found\n")
	_, body := get(h, "GET", "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	assert.Equal(t, 7., families["fish_total"].GetMetric()[0].GetCounter().GetValue())
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		code, _ := get(h, "POST", path)
		assert.Equal(t, http.StatusMethodNotAllowed, code, "the pages are read-only")
	}
	for _, path := range []string{
		"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/cmdline",
	} {
		code, _ := get(h, "GET", path)
		assert.Equal(t, 404, code, "profiles are off")
	}
	o.Profile = true
	h = admin.Handler(o)
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile",
		"/debug/pprof/symbol": "num_symbols"} {
		code, body := get(h, "GET", path)
		assert.Equal(t, 200, code, path)
		assert.Contains(t, body, want)
	}
}

// TestBrokenMetrics: a failing collector does not hide the others, and is logged.
func TestBrokenMetrics(t *testing.T) {
	broken := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, _ := registry(5).Gather()
		return all, errors.New("one of them is broken")
	})
	var log bytes.Buffer
	h := admin.Handler(admin.Options{Metrics: broken, Ready: func() error { return nil },
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	code, body := get(h, "GET", "/metrics")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, "\nfish_total 5\n")
	assert.Contains(t, log.String(), "level=ERROR")
	assert.Contains(t, log.String(), "one of them is broken")
}

// TestClose: Close ends the server: at once if no request is served, and also with a client that does not read.
func TestClose(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	started, never := make(chan struct{}), make(chan struct{})
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(started)
			select {
			case <-r.Context().Done():
			case <-never:
			}
		}
		w.WriteHeader(200)
	})
	var log bytes.Buffer
	s := admin.Serve(listener, pages, slog.New(slog.NewTextHandler(&log, nil)))
	at := "http://" + listener.Addr().String()
	response, err := http.Get(at)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	failed := make(chan error)
	go func() {
		response, err := http.Get(at + "/slow")
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		failed <- err
	}()
	<-started
	s.Close()
	assert.Empty(t, log.String(), "closing is no error")
	require.Error(t, <-failed)
	_, err = net.DialTimeout("tcp", listener.Addr().String(), time.Second)
	require.Error(t, err)
}

// pipes is a listener with in-process connections, which work in virtual time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSlowHeaders: a connection without a request, or with endless headers, is closed after five seconds.
func TestSlowHeaders(t *testing.T) {
	for _, said := range []string{"", "GET / HTTP/1.1\r\nA: "} {
		bubble.Test(t, func(t *testing.T) {
			listener := make(pipes)
			s := admin.Serve(listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
			conn, theirs := net.Pipe()
			listener <- theirs
			began := time.Now()
			_, err := conn.Write([]byte(said))
			require.NoError(t, err)
			_, err = io.ReadAll(conn) // returns when the server closes it
			require.NoError(t, err)
			assert.Equal(t, 5*time.Second, time.Since(began))
			s.Close()
		})
	}
}

// fails is a listener that fails by itself.
type fails struct{ pipes }

func (fails) Accept() (net.Conn, error) { return nil, io.ErrUnexpectedEOF }

// slowly is a writer that takes a while.
type slowly time.Duration

func (d slowly) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(d))
	return len(b), nil
}

// TestCloseWaits: nothing of the server, not even a line of its log, comes after Close.
func TestCloseWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		log := slog.New(slog.NewTextHandler(slowly(time.Second), nil))
		s := admin.Serve(fails{make(pipes)}, http.NotFoundHandler(), log)
		synctest.Wait() // its log is being written
		s.Close()
		assert.Equal(t, time.Second, time.Since(began))
	})
}
