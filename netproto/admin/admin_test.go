package admin_test

import (
	"bufio"
	"bytes"
	"context"
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
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		assert.Equal(t, code, w.Code, path)
		assert.Equal(t, want, w.Body.String(), path)
		assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), path)
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
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
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"profile", "trace"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "/debug/pprof/"+name, nil))
		assert.Contains(t, w.Header().Get("Content-Disposition"), name)
	}
	code, _ := get(h, "GET", "/debug/pprof/cmdline")
	assert.Equal(t, 404, code, "arguments may be secret")
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

// TestHosts: on a loopback address, pages are for names that no web page can have.
func TestHosts(t *testing.T) {
	for address, named := range map[string]int{"127.0.0.1:0": http.StatusForbidden, "0.0.0.0:0": http.StatusOK} {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		s := admin.Serve(listener, pages, slog.New(slog.DiscardHandler))
		_, port, err := net.SplitHostPort(listener.Addr().String())
		require.NoError(t, err)
		for host, want := range map[string]int{
			"127.0.0.1": 200, "127.0.0.1:" + port: 200, "localhost:" + port: 200, "LOCALHOST.": 200, "[::1]:9": 200,
			"example.org": named, "localhost.example.org": named, "127.0.0.1.example.org": named,
		} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+port, nil)
			require.NoError(t, err)
			r.Host = host
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, want, response.StatusCode, "%s at %s", host, address)
		}
		s.Close()
	}
}

// serve serves pages to one client, and returns the client's side of the connection.
func serve(t *testing.T, pages http.Handler) (*admin.Server, net.Conn) {
	t.Helper()
	listener := bubble.NewListener()
	s := admin.Serve(listener, pages, slog.New(slog.DiscardHandler))
	conn, err := listener.Dial()
	require.NoError(t, err)
	return s, conn
}

// TestSlowClients: a connection without a request, or with endless headers, is closed after five seconds, one with half
// a request after ten, an idle one after a minute.
func TestSlowClients(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want time.Duration
	}{
		"no request":      {"", 5 * time.Second},
		"endless headers": {"GET / HTTP/1.1\r\nA: ", 5 * time.Second},
		"half a request":  {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf", 10 * time.Second},
		"idle":            {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s, conn := serve(t, http.NotFoundHandler())
				began := time.Now()
				_, err := conn.Write([]byte(c.said))
				require.NoError(t, err)
				_, err = io.ReadAll(conn) // returns when the server closes it
				require.NoError(t, err)
				assert.Equal(t, c.want, time.Since(began))
				s.Close()
			})
		})
	}
}

// TestLongHeaders: long headers are refused.
func TestLongHeaders(t *testing.T) {
	for length, want := range map[int]int{12 << 10: http.StatusNotFound, 24 << 10: 431} {
		bubble.Test(t, func(t *testing.T) {
			s, conn := serve(t, http.NotFoundHandler())
			go func() {
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("x", length) + "\r\n\r\n"))
			}()
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			assert.Equal(t, want, r.StatusCode, length)
			require.NoError(t, conn.Close())
			s.Close()
		})
	}
}

// TestServerLog: an error of the HTTP server is logged.
func TestServerLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		listener := bubble.NewListener()
		var log bytes.Buffer
		s := admin.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken page") }),
			slog.New(slog.NewTextHandler(&log, nil)))
		conn, err := listener.Dial()
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err)
		s.Close()
		assert.Contains(t, log.String(), "level=WARN")
		assert.Contains(t, log.String(), "broken page")
	})
}

// TestSlowReaders: a client that reads nothing is cut off after two minutes, which is enough for a profile of a minute.
func TestSlowReaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		s, conn := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					took = time.Since(began)
					return
				}
			}
		}))
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 2*time.Minute, took)
		s.Close()
	})
	profile := admin.Handler(admin.Options{Metrics: registry(1), Profile: true, Log: slog.New(slog.DiscardHandler)})
	bubble.Test(t, func(t *testing.T) {
		s, conn := serve(t, profile)
		_, err := conn.Write([]byte("GET /debug/pprof/goroutine?seconds=60 HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, r.StatusCode)
		require.NoError(t, conn.Close())
		s.Close()
	})
}

// TestClosePatience: Close allows a second for the responses under way, and then cuts them off.
func TestClosePatience(t *testing.T) {
	for takes, whole := range map[time.Duration]bool{900 * time.Millisecond: true, time.Hour: false} {
		t.Run(takes.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s, conn := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(takes):
					case <-r.Context().Done():
					}
				}))
				_, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
				require.NoError(t, err)
				answer := make(chan string, 1)
				go func() {
					b, _ := io.ReadAll(conn)
					answer <- string(b)
				}()
				synctest.Wait()
				began := time.Now()
				s.Close()
				assert.LessOrEqual(t, time.Since(began), 1100*time.Millisecond)
				assert.Equal(t, whole, strings.HasPrefix(<-answer, "HTTP/1.1 200 OK"))
			})
		})
	}
}

// fails is a listener that fails by itself.
type fails struct{ *bubble.Listener }

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
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(io.MultiWriter(slowly(time.Second), &said), nil))
		s := admin.Serve(fails{bubble.NewListener()}, http.NotFoundHandler(), log)
		synctest.Wait() // its log is being written
		s.Close()
		assert.Equal(t, time.Second, time.Since(began))
		assert.Contains(t, said.String(), `level=ERROR msg="the admin pages have ended" error="unexpected EOF"`)
	})
}
