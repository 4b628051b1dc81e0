package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// Options configure a server. The zero value works.
type Options struct {
	Names []string // of the model, the first one is the default; none: the name in its file
	// Fingerprint is of the model and its software: equal ones, with equal seeds, give equal answers; "": of its file.
	Fingerprint string
	// Route says how answers use a large model, as in [pilotfish.Session.Generate]; nil: none.
	Route *pilotfish.Route

	Temperature float64 // of requests that give none; 0 is greedy

	Keys    []string // a request must have one of them; none: all requests are accepted
	Origins []string // web pages that may use the API, such as "https://example.org"; "*": any
	Hosts   []string // names and addresses of the server in requests, without ports; none: not checked
	Page    bool     // serve a chat page at /, which may use the API

	// Cloud describes the large model that is asked, as it is now, for /v1/models; nil: it is not described.
	Cloud func() Cloud

	Parallel int // concurrent answers; 0 means 4
	Queue    int // waiting requests; 0 means 16 times Parallel, negative none
	// Sessions is the number of sessions kept; 0 means twice Parallel. Those beyond Parallel may wait for slow readers.
	Sessions  int
	Folder    *Folder       // for texts that lose their session; nil: they are dropped
	MaxBody   int64         // maximum size of a request in bytes; 0 means 4 MiB
	Kept      int           // bytes of stored answers of /v1/responses; 0 means 64 MiB
	Read      time.Duration // limit for a client to send its request; 0 means 30 s
	Timeout   time.Duration // limit for a request, from when it was read; 0 means 10 minutes
	Stall     time.Duration // how long a reader may block an answer in total; 0 means 10 s
	KeepAlive time.Duration // interval of comments in a stream without data; 0 means 15 s

	Metrics http.Handler  // of /metrics; nil: none
	Random  func() uint64 // for ids, and for seeds of requests without one; nil: [rand.Uint64]
	Events  func(Event)   // called after each request; nil: none
	Log     *slog.Logger  // has a line for each request, without texts; nil: none
}

func (o Options) withDefaults() Options {
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Queue = max(cmp.Or(o.Queue, 16*o.Parallel), 0)
	o.Sessions = max(cmp.Or(o.Sessions, 2*o.Parallel), o.Parallel)
	o.MaxBody = cmp.Or(o.MaxBody, 4<<20)
	o.Kept = cmp.Or(o.Kept, 64<<20)
	o.Read, o.Timeout = cmp.Or(o.Read, 30*time.Second), cmp.Or(o.Timeout, 10*time.Minute)
	o.Stall, o.KeepAlive = cmp.Or(o.Stall, 10*time.Second), cmp.Or(o.KeepAlive, 15*time.Second)
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server handles requests. It is an [http.Handler].
type Server struct {
	o        Options
	model    model
	keys     keys
	defaults request.Defaults
	limiter  *requestLimiter
	// tokenizers limits the requests that are rendered and tokenized at once, like limiter those that are answered.
	tokenizers *requestLimiter
	compiling  *compileLimiter
	pool       *sessionPool
	kept       *responseStore
	mux        *http.ServeMux
	begun      time.Time

	refusals  *limitedLog
	fields    ignoredFields
	locals    localMessages
	pins      pins
	abilities func() *modelAbilities

	closing context.Context // ends when running answers must end
	end     context.CancelCauseFunc
	refuse  atomic.Bool // refuse new requests

	mu   sync.Mutex
	runs sync.WaitGroup // requests under way; Add under mu
}

// New returns a server for a model, which must stay open until [Server.Close]. The server is an [http.Handler] for the
// paths of the package comment: http.Handle("/v1/", serve.New(model, serve.Options{})) serves those below /v1, to
// everyone who can reach the address, as there are no Keys.
func New(m *pilotfish.Model, o Options) *Server {
	if len(o.Names) == 0 {
		o.Names = []string{cmp.Or(m.Name(), request.OwnName)}
	}
	if o.Fingerprint == "" {
		file, _ := m.Fingerprint() // an error: the model is closed, and nothing is answered
		o.Fingerprint = fmt.Sprintf("fp_%.12s", file)
	}
	routed := routedModel{Model: m}
	if o.Route != nil {
		routed.options = []pilotfish.Option{*o.Route}
	}
	return newServer(routed, o)
}

func newServer(m model, o Options) *Server {
	o = o.withDefaults()
	s := &Server{o: o, model: m, keys: newKeys(o.Keys),
		limiter:    newRequestLimiter(o.Parallel, o.Queue, max(o.Sessions-o.Parallel, 1)),
		tokenizers: newRequestLimiter(o.Parallel, o.Queue, 0),
		compiling:  newCompileLimiter(o.Parallel + o.Queue),
		pool:       newSessionPool(m, o.Sessions, o.Folder, o.Log),
		kept:       newResponseStore(o.Kept), mux: http.NewServeMux(), begun: time.Now(),
		refusals: newLimitedLog(), fields: newIgnoredFields(),
		locals: newLocalMessages(), pins: newPins()}
	s.defaults = request.Defaults{Temperature: o.Temperature, Thinks: s.mayThink(nil)}
	s.closing, s.end = context.WithCancelCause(context.Background())
	s.abilities = sync.OnceValue(s.detectAbilities)
	s.addRoutes()
	o.Folder.indexTexts(m)
	return s
}

func (s *Server) addRoutes() {
	for path, then := range map[string]http.HandlerFunc{
		"/health": s.handleHealth, "/v1/models": s.listModels, "/v1/models/{id...}": s.getModel,
	} {
		s.mux.HandleFunc(path, s.allowMethods("GET", then))
	}
	for path, then := range map[string]http.HandlerFunc{
		"/v1/chat/completions": s.handlePost("chat", s.chatHandler(s.parseChat)),
		"/v1/completions":      s.handlePost("completions", s.handleCompletion),
		"/v1/responses":        s.handlePost("responses", s.chatHandler(s.parseResponses)),
		"/v1/responses/input_tokens": s.handlePost("input_tokens",
			s.countHandler(s.parseResponses, "response.input_tokens")),
		"/v1/messages":              s.handlePost("messages", s.chatHandler(s.parseMessages)),
		"/v1/messages/count_tokens": s.handlePost("count_tokens", s.countHandler(s.parseMessages, "")),
		"/infill":                   s.handlePost("infill", s.handleInfill),
	} {
		s.mux.HandleFunc(path, s.allowMethods("POST", then))
	}
	s.mux.HandleFunc("/v1/responses/{id}", s.allowMethods("GET, DELETE", s.getOrDeleteResponse))
	if s.o.Metrics != nil {
		s.mux.HandleFunc("/metrics", s.allowMethods("GET", s.o.Metrics.ServeHTTP))
	}
	if s.o.Page {
		s.mux.HandleFunc("/{$}", s.allowMethods("GET", pageHandler()))
	}
	s.mux.HandleFunc("/", s.rejectUnknownURL)
}

func (s *Server) rejectUnknownURL(w http.ResponseWriter, r *http.Request) {
	s.rejectRequest(w, r, request.Refuse(http.StatusNotFound, "unknown_url", "there is nothing at %s: the API is at "+
		"/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages and /v1/models", request.Shown(r.URL.Path)))
}

// ServeHTTP implements [http.Handler].
//
// A request that needs no model has Options.Read to arrive and then Options.Stall for its response to be read: net/http
// waits for the body of a request before it sends a response, even if the handler does not read the body. Longer
// requests remove these deadlines.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc, now := http.NewResponseController(w), time.Now()
	_ = rc.SetReadDeadline(now.Add(s.o.Read)) // fails only if the connection has no deadlines
	_ = rc.SetWriteDeadline(now.Add(s.o.Read + s.o.Stall))
	if !s.allowRequest(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

// allowMethods refuses methods that are not in a list. A list with GET also allows HEAD.
func (s *Server) allowMethods(methods string, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == "HEAD" {
			method = "GET"
		}
		if !slices.Contains(strings.Split(methods, ", "), method) {
			w.Header().Set("Allow", methods)
			s.rejectRequest(w, r, request.Refuse(http.StatusMethodNotAllowed, "method_not_allowed",
				"%s takes %s, not %s", request.Shown(r.URL.Path), methods, request.Shown(r.Method)))
			return
		}
		then(w, r)
	}
}

// registerRequest fails if the server no longer accepts requests. The caller calls done.
func (s *Server) registerRequest() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse.Load() {
		return nil, request.ErrDrained
	}
	s.runs.Add(1)
	return s.runs.Done, nil
}

// Drain refuses new requests and waits for those under way. When ctx ends first, it ends them with an error and returns
// the cause.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.refuse.Store(true)
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.runs.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.end(request.ErrDrained)
	<-done
	return context.Cause(ctx)
}

// Close ends the requests under way and releases the server's resources. The model stays open.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Drain(ctx) // the cause is already known
	s.end(request.ErrDrained)
	s.pool.saveAndCloseIdle()
	return nil
}

// requestContext returns a context of a request that also ends after a time, and when the server stops.
func (s *Server) requestContext(r *http.Request) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.o.Timeout, request.ErrTimeout)
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { end(request.ErrDrained) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// Load is the current load of a server.
type Load struct {
	Active   int // requests being answered
	Waiting  int // waiting requests
	Stalled  int // in addition, requests that wait for their readers
	Sessions int // sessions kept, including those in use
	Draining bool
}

// Load returns the current load.
func (s *Server) Load() Load {
	l := Load{Sessions: s.pool.sessionCount(), Draining: s.refuse.Load()}
	l.Active, l.Waiting, l.Stalled = s.limiter.currentLoad()
	return l
}

func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) {
	l := s.Load()
	status, say := http.StatusOK, "ok"
	if l.Draining {
		status, say = http.StatusServiceUnavailable, "draining"
	}
	writeJSON(w, status, request.Encode(map[string]any{
		"status": say, "active": l.Active, "waiting": l.Waiting, "stalled": l.Stalled,
	}))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
}
