package serve

import (
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// limitedLog limits the log lines that clients can cause: a few at once, then one per second.
type limitedLog struct {
	limit *rate.Limiter
	left  atomic.Int64 // lines left out since the last one
}

func newLimitedLog() *limitedLog {
	const burst = 20
	return &limitedLog{limit: rate.NewLimiter(rate.Every(time.Second), burst)}
}

// rejectRequest answers with an error before a request is processed. The refusal is counted and logged, without the
// query and the headers, which may contain secrets; if a header is invalid, that one is logged.
func (s *Server) rejectRequest(w http.ResponseWriter, r *http.Request, e *request.Error) {
	s.o.Events(Event{Status: e.Status, Code: e.Code})
	args := []any{"status", e.Status, "code", e.Code, "method", request.Shown(r.Method),
		"path", request.Shown(r.URL.Path)}
	switch e.Code {
	case codeHost:
		args = append(args, "host", request.Shown(r.Host))
	case codeOrigin:
		args = append(args, "origin", request.Shown(r.Header.Get("Origin")))
	}
	s.refusals.writeLine(s.o.Log, slog.LevelWarn, r, "refused", args...)
	writeJSON(w, e.Status, e.Body(r, w.Header().Get("X-Request-Id")))
}

// writeLine writes a line with the address of the client. It returns false if there were too many recently: the next
// line has the number of those left out.
func (l *limitedLog) writeLine(to *slog.Logger, level slog.Level, r *http.Request, say string, args ...any) bool {
	if !l.limit.Allow() {
		l.left.Add(1)
		return false
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr // the connection is not TCP
	}
	args = append(args, "from", from)
	if n := l.left.Swap(0); n > 0 {
		args = append(args, "left_out", n)
	}
	to.Log(r.Context(), level, say, args...)
	return true
}
