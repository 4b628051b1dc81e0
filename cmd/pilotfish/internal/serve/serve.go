// Package serve implements pilotfish serve: the local HTTP server.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/serve"
)

// serveFlags has the flags of `pilotfish serve`.
type serveFlags struct {
	set    *pflag.FlagSet
	model  group.ModelFlags
	via    viaFlags
	access serveAccess
	limits serveLimits

	listen     string
	names      []string
	temp       float64
	log, level string
}

// NewCommand returns the command that serves a model over HTTP.
func NewCommand(a *cli.App) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve -m FILE [flags]",
		Short: "Serve a model over HTTP with OpenAI's and Anthropic's APIs",
		Long: `Serve a model over HTTP with OpenAI's API (/v1/chat/completions, /v1/completions, /v1/responses and
/v1/models) and Anthropic's (/v1/messages). OpenAI's clients use the address that is printed to stdout as their base
URL, Anthropic's the same without /v1, with any API key unless the server has one. /health says whether requests are
accepted; /metrics has counters for Prometheus. There are no embeddings. The address without a path is a chat page for
browsers, which also shows the tokens of the large model.

Answers can be streamed, call tools, and be restricted to JSON or to a JSON schema. A parameter without which the answer
would have another meaning, but that is not supported, is refused by name. Others are ignored and named in the header
X-Pilotfish-Ignored. If a request has no seed, one is drawn and reported in the field pilotfish of the answer. With
{"pilotfish": {"provenance": true}} in a request, the answer reports for each token which model chose it.

Models with marks for gaps fill in the middle (suffix, /infill). {"pilotfish": {"local": true}} in a request or a
message keeps it on this device, and --local everything; each answer reports what left.

With --cloud, the large model of a gateway chooses the tokens that the small model is unsure of, as with run. If its
answer is late or fails, the small model's token is used instead. With --large the model answers that this flag names,
and the small one (-m) drafts tokens of the same text where that saves time.

The model is loaded once. Texts stay in memory after their answer, so that only the new part of a continued chat is
computed; usage reports the rest as cached_tokens. A text with the same beginning as another, such as a system message,
reuses what was computed for it. With --kv-folder, texts that do not fit into memory are kept in files, and all texts
when the server ends, so that the next one need not compute them again.

Up to --parallel answers are generated at once, 16 times as many requests wait, and others get status 429. A client that
disconnects frees its place at once. A slow reader does not delay others: its answer is buffered, and is cut off once it
has kept the model waiting for 10 seconds in total.

On a loopback address, any program on this machine may send requests, to localhost or to the address itself: other
names in the header Host are refused, unless they are those of a --cors-origin. Other addresses need an API key, in a
file (--api-key-file, one per line) or in the environment variable PILOTFISH_API_KEY, or --open. Web pages may send
requests if their origin is given with --cors-origin. SIGTERM and Ctrl-C let answers finish, for at most 30
seconds. --limit changes such limits: docs/use/serving.md lists them.

The log on stderr has a line for each request, without texts.`,
		Example: `  pilotfish serve -m qwen2.5-0.5b-instruct-q8_0.gguf
  pilotfish serve -m small.gguf --cloud gpu.example.org:4433 --pin 9f86… --budget 0.1
  pilotfish serve -m small.gguf --listen 10.0.0.7:8080 --api-key-file keys.txt --cert host.crt --key host.key`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runServe(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *serveFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	f.set = p
	f.model.RegisterServed(c)
	f.model.RegisterLarge(p)
	cobra.CheckErr(c.MarkFlagRequired("model"))
	f.via.registerFlags(p)
	cli.Add(p, "listen", &f.listen, "127.0.0.1:8080")
	cli.Add(p, "alias", &f.names, nil)
	cli.Add(p, "temp", &f.temp, 1)
	cli.Add(p, "log", &f.log, "text")
	cli.Add(p, "log-level", &f.level, "info")
	f.access.registerFlags(p)
	f.limits.registerFlags(p)
}

// serveLimits has the limits on clients.
type serveLimits struct {
	parallel, sessions int
	folder             string // for texts that do not fit into memory
	folderBytes        int64
	request            time.Duration
	set                *cli.OptionsFlag
}

func (l *serveLimits) registerFlags(p *pflag.FlagSet) {
	cli.Add(p, "parallel", &l.parallel, 4)
	cli.Add(p, "kv-folder", &l.folder, "")
	l.set = cli.AddOptions(p, "limit")
	cli.Add(l.set.FlagSet, "limit.sessions", &l.sessions, 0)
	l.set.Lookup("sessions").DefValue = "twice --parallel"
	cli.Add(l.set.FlagSet, "limit.kv-folder-bytes", &l.folderBytes, 4<<30)
	cli.Add(l.set.FlagSet, "limit.request-timeout", &l.request, 10*time.Minute)
}

func (f *serveFlags) serverOptions() (o serve.Options, err error) {
	l := &f.limits
	if l.sessions > 0 && l.sessions < l.parallel {
		return o, cli.Usagef("--limit sessions=%d is too few: each of the %d answers at once (--parallel) needs one",
			l.sessions, l.parallel)
	}
	return serve.Options{Temperature: f.temp, Parallel: l.parallel, Sessions: l.sessions, Timeout: l.request,
		Page: true}, nil
}

func (f *serveFlags) runServe(ctx context.Context, a *cli.App) error {
	o, err := f.serverOptions()
	if err != nil {
		return err
	}
	o.Log, _ = a.NewLog(f.log, f.level)
	f.model.Sessions = cmp.Or(f.limits.sessions, 2*f.limits.parallel)
	settings, err := f.model.Public()
	if err != nil {
		return err
	}
	dial, err := f.via.parseDialOptions(a)
	if err != nil {
		return err
	}
	where, who, err := f.openListener(&o)
	if err != nil {
		return err
	}
	defer where.listener.Close()
	if l := &f.limits; l.folder != "" {
		if o.Folder, err = serve.OpenFolder(l.folder, l.folderBytes, o.Log); err != nil {
			return fmt.Errorf("--kv-folder: %w", err)
		}
		defer o.Folder.Close()
	}
	m, err := pilotfish.Open(f.model.Answers(), settings)
	if err != nil {
		return err
	}
	defer m.Close()
	route, hangUp, err := f.via.connectGateway(ctx, m, dial, o.Log)
	if err != nil {
		return err
	}
	defer hangUp()
	o.Route, o.Cloud, o.Names = route, f.via.describeCloud(route), f.modelNames()
	if o.Fingerprint, err = f.systemFingerprint(m); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "serving %s, %s\n", strings.Join(o.Names, ", "), who)
	fmt.Fprintf(a.Stderr, "context: %s\n", f.contextText(m))
	if o.Cloud != nil {
		c := o.Cloud()
		fmt.Fprintf(a.Stderr, "large model: %s at %s, %s\n", cmp.Or(cli.Harmless(c.Model), "not connected yet"), c.To,
			extentText(c))
	}
	fmt.Fprintf(a.Stderr, "chat page: %s\n", strings.TrimSuffix(where.baseURL(), "v1"))
	fmt.Fprintln(a.Stdout, where.baseURL())
	return where.serveRequests(ctx, func(o serve.Options) answeringServer { return serve.New(m, o) }, o)
}

func (f *serveFlags) contextText(m *pilotfish.Model) string {
	switch n, limit := m.Context(), m.ContextLimit(); {
	case n == limit:
		return fmt.Sprintf("%d tokens, the model's limit", n)
	case f.set.Changed("ctx"):
		return fmt.Sprintf("%d tokens (-c) of the model's limit of %d", n, limit)
	default:
		return fmt.Sprintf("%d tokens of the model's limit of %d, so that %d texts fit into the free memory: "+
			"-c or a smaller --parallel allow more", n, limit, f.model.Sessions)
	}
}

func (f *serveFlags) openListener(o *serve.Options) (where *listeningServer, who string, err error) {
	if o.Keys, o.Origins, who, err = f.access.allowedClients(f.listen); err != nil {
		return nil, "", err
	}
	o.Hosts = f.access.allowedHosts(f.listen)
	if err := f.access.checkCertificate(); err != nil {
		return nil, "", err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return nil, "", fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	return &listeningServer{listener, f.access.cert, f.access.key, o.Log}, who, nil
}

// modelNames returns the names that requests may use for the model: the aliases, and the name of its file without the
// suffix of GGUF.
func (f *serveFlags) modelNames() []string {
	return append(append([]string{}, f.names...), strings.TrimSuffix(filepath.Base(f.model.Answers()), ".gguf"))
}

// systemFingerprint identifies everything that an answer with a fixed seed depends on: the model's file, the backend
// with the type of keys and values, and the program.
func (f *serveFlags) systemFingerprint(m *pilotfish.Model) (string, error) {
	file, err := m.Fingerprint()
	if err != nil {
		return "", err
	}
	version := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r == '.' {
			return r
		}
		return '-'
	}, cli.BuildVersion())
	backend := f.model.Backend
	if f.model.Kv != "auto" {
		backend += "-" + f.model.Kv
	}
	return fmt.Sprintf("fp_%.12s_%s_%.20s", file, backend, version), nil
}

// listeningServer is a server on its address.
type listeningServer struct {
	listener net.Listener
	cert     string // file; "": plain HTTP
	key      string // file
	log      *slog.Logger
}

func (s *listeningServer) baseURL() string {
	scheme := "http"
	if s.cert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String() + "/v1"
}

// answeringServer is what the listener needs of a [serve.Server].
type answeringServer interface {
	http.Handler
	Load() serve.Load
	Drain(ctx context.Context) error
	Close() error
}

func (s *listeningServer) serveRequests(
	ctx context.Context, newServer func(serve.Options) answeringServer, o serve.Options,
) error {
	registry := prometheus.NewRegistry()
	counts, warn := newServingMetrics(registry), sync.OnceFunc(func() { o.Log.Warn(group.UnlikeText) })
	o.Events = func(e serve.Event) {
		counts.countEvent(e)
		if e.Unlike {
			warn()
		}
	}
	o.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 8})
	server := newServer(o)
	defer server.Close()
	registerLoad(registry, server.Load)
	registry.MustRegister(collectors.NewGoCollector(), cli.BuildMetric(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	web := &http.Server{
		Handler: server, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() {
		listener := shallowListener{s.listener}
		if s.cert != "" {
			ended <- web.ServeTLS(listener, s.cert, s.key)
		} else {
			ended <- web.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	return errors.Join(s.drainAnswers(server, web), ignoreServerClosed(<-ended))
}

// shallowListener is a listener with small write buffers. A client that does not read is thus detected before megabytes
// have been generated for it.
type shallowListener struct{ net.Listener }

func (l shallowListener) Accept() (net.Conn, error) {
	const bytes = 64 << 10
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(bytes) // an error leaves the default of the system
	}
	return c, err
}

// drainTime is how long answers may take to finish after a signal.
const drainTime = 30 * time.Second

// drainAnswers ends the answers that take longer than drainTime.
func (s *listeningServer) drainAnswers(server answeringServer, web *http.Server) error {
	l := server.Load()
	s.log.Info("draining", "active", l.Active, "waiting", l.Waiting)
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := server.Drain(ctx); err != nil {
		s.log.Warn("answers were cut off", "after", drainTime)
	}
	const patience = time.Second // time to send finished answers
	last, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if web.Shutdown(last) != nil {
		return web.Close()
	}
	return nil
}

// ignoreServerClosed returns nil for the error of a server that was shut down normally.
func ignoreServerClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
