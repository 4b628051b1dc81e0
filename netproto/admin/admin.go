// Package admin is the HTTP server for the operator of a gateway. Its pages show whether the gateway is alive and
// ready, its metrics, and profiles. They show neither a user's text nor a secret, and no page waits for a model.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options configure the pages. All of them are required.
type Options struct {
	Metrics prometheus.Gatherer
	Ready   func() error // nil when questions can be answered, else the reason. It must not block
	Profile bool         // serve /debug/pprof
	Log     *slog.Logger // logs errors that occur while a page is served
}

// Handler returns the pages:
//
//	/healthz      200 while the process lives
//	/readyz       200 when questions can be answered, else 503 and why not
//	/metrics      all metrics, as Prometheus reads them
//	/debug/pprof  profiles, if wanted
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeTextLine(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			writeTextLine(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		writeTextLine(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 8,
	}))
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func writeTextLine(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintln(w, line) // an error means that the client has gone
}

// Server serves pages until it is closed.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve serves the pages on a listener, which it closes at the end. Slow requests are cut off. On a loopback address
// requests for other names than localhost are refused: the owner of a web page can make its name resolve to that
// address, and a browser on this machine would let the page read what is served (DNS rebinding).
func Serve(on net.Listener, pages http.Handler, log *slog.Logger) *Server {
	if a, err := netip.ParseAddrPort(on.Addr().String()); err == nil && a.Addr().IsLoopback() {
		pages = onlyLocal(pages)
	}
	s := &Server{done: make(chan struct{}), http: &http.Server{
		Handler: pages, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout:   2 * time.Minute, // a profile of a minute
		MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the admin pages have ended", "error", err)
		}
	}()
	return s
}

// onlyLocal refuses requests for names, localhost apart. An address is no name, so that no page can be behind it.
func onlyLocal(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := url.URL{Host: r.Host}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if _, err := netip.ParseAddr(name); err != nil && name != "localhost" {
			writeTextLine(w, http.StatusForbidden, "these pages have no such name: use http://localhost with the port")
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// Close ends the server. It allows a second for the responses under way.
func (s *Server) Close() {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // cuts off slow clients
	}
	<-s.done
}
