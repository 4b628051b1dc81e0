package openai

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// refusals limits the log lines of requests that are refused before they are processed: a few at once, then one per
// second.
type refusals struct {
	limit *rate.Limiter
	left  atomic.Int64 // lines left out since the last one
}

func newRefusals() *refusals {
	const burst = 20
	return &refusals{limit: rate.NewLimiter(rate.Every(time.Second), burst)}
}

// reject answers with an error before a request is processed. The refusal is counted and logged, without the query and
// the headers, which may contain secrets; if a header is invalid, that one is logged.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, e *request.Error) {
	s.o.Events(Event{Status: e.Status, Code: e.Code})
	s.refusals.log(s.o.Log, r, e)
	write(w, e.Status, e.Body(r, w.Header().Get("X-Request-Id")))
}

// log writes a line, unless there were too many recently: the next line has the number of those left out.
func (l *refusals) log(to *slog.Logger, r *http.Request, e *request.Error) {
	if !l.limit.Allow() {
		l.left.Add(1)
		return
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr // the connection is not TCP
	}
	args := []any{"status", e.Status, "code", e.Code, "method", request.Shown(r.Method),
		"path", request.Shown(r.URL.Path), "from", from}
	switch e.Code {
	case codeHost:
		args = append(args, "host", request.Shown(r.Host))
	case codeOrigin:
		args = append(args, "origin", request.Shown(r.Header.Get("Origin")))
	}
	if n := l.left.Swap(0); n > 0 {
		args = append(args, "left_out", n)
	}
	to.Warn("refused", args...)
}
