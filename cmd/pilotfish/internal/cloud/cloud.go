// Package cloud implements pilotfish cloud: the gateway.
package cloud

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// cloudCommandFlags has the flags of `pilotfish cloud`.
type cloudCommandFlags struct {
	model     group.ModelFlags
	upstream  group.UpstreamFlags
	limits    limitFlags
	access    accessFlags
	listen    string
	cert, key string
	slots     int
	log       string
	router    string
	operate   operateFlags
}

// cloudHelp is the help text of the command.
const cloudHelp = `Serve a large model to devices that ask for single tokens, over QUIC with TLS.

The model is either a GGUF file that this program runs (-m), or is served by an inference engine over HTTP
(--upstream): SGLang, vLLM, llama-server, or anything with OpenAI's /v1/completions that accepts token ids. The
engine's vocabulary is compared with that of a GGUF file of the same model family (--tokenizer; a file with a
vocabulary alone is enough). Several engines that serve the same model share the load. To test an engine: pilotfish
cloud check URL --tokenizer FILE

The first start creates a self-signed certificate. Its fingerprint is printed to stdout at each start; devices need it
for --pin. To use your own certificate, give --cert and --key.

Devices need an access token. The first start creates one and prints the command to paste on the device; the token is
stored next to the certificate. To use your own tokens, list them in a file (--token-file), one per line as NAME:SECRET.
A secret has at least 16 bytes. Limits may follow it:

  lab:6f1c02d9a8b7e354   rate=200 devices=1000 private

A single token for all devices can be given in the environment variable PILOTFISH_TOKEN. Any number of devices may use
the same token. Tokens get equal shares of the capacity, or shares by their weight=N, and devices equal shares of that
of their token. No token is needed on a loopback address, or with --open.

If texts of several devices of one token have the same beginning, for example a system prompt, this part is computed and
stored once. As a consequence, such a device that tries out texts token by token can learn from response times whether
another one has recently asked about the same text. The word private after a token isolates each of its devices;
tokens with the word share are one in this respect. Answers are the same in all cases.

Every flag can also be set in a YAML file (--config), under its name, or in an environment variable such as
PILOTFISH_CLOUD_LISTEN. The command line overrides the environment, which overrides the file.

SIGHUP reloads tokens, certificate, ticket keys and --log-level; changes that need a restart are logged. SIGTERM and
Ctrl-C let open questions finish. The log goes to stderr; /metrics and other pages for operators are at --admin.`

// NewCommand returns the command that serves the large model.
func NewCommand(a *cli.App) *cobra.Command {
	c, _ := newCloudCommand(a)
	return c
}

func newCloudCommand(a *cli.App) (*cobra.Command, *cloudCommandFlags) {
	f := new(cloudCommandFlags)
	c := &cobra.Command{
		Use:   "cloud {-m FILE | --upstream URL --tokenizer FILE} [flags]",
		Short: "Run the gateway: serve a large model to devices, token by token",
		Long:  cloudHelp,
		Example: `  pilotfish cloud -m big.gguf
  pilotfish cloud -m big.gguf --listen 10.0.0.7:4433 --token-file tokens.txt --slots 200000
  pilotfish cloud --upstream http://10.0.0.8:8000 --upstream http://10.0.0.9:8000 --tokenizer small.gguf`,
		Args:    cli.NoArgs,
		PreRunE: func(c *cobra.Command, _ []string) error { return f.loadSettings(c.Flags()) },
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.checkModelFlags(c.Flags(), a.Stderr); err != nil {
				return err
			}
			return f.serveGateway(c.Context(), a)
		},
	}
	f.registerFlags(c)
	c.AddCommand(newCloudCheckCommand(a), newCloudReadyCommand(a))
	return c, f
}

func (f *cloudCommandFlags) registerFlags(c *cobra.Command) {
	f.model.RegisterOptional(c) // the alternative is --upstream
	p := c.Flags()
	f.upstream.Register(p)
	cli.Add(p, "listen", &f.listen, ":4433")
	cli.Add(p, "cert", &f.cert, "")
	cli.Add(p, "key", &f.key, "")
	cli.Add(p, "cloud.token-file", &f.access.file, "")
	cli.Add(p, "open", &f.access.open, false)
	cli.Add(p, "router", &f.router, "")
	cli.Add(p, "log", &f.log, "text")
	f.limits.registerFlags(p)
	cli.Add(p, "slots", &f.slots, 0)
	f.operate.registerFlags(p)
}

func (f *cloudCommandFlags) serveGateway(ctx context.Context, a *cli.App) (err error) {
	if _, err := adminAddress(f.operate.admin); err != nil { // even with --check-config
		return err
	}
	o := f.limits.o
	log, level := a.NewLog(f.log, f.operate.level)
	if f.operate.check {
		return f.checkConfig(a)
	}
	hangups, ignore := notifyHangup()
	defer ignore()
	socket, err := net.ListenPacket("udp", f.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	defer socket.Close()
	who, err := f.setCredentials(&o, socket.LocalAddr())
	unkept := (*notStoredError)(nil)
	if err != nil && !errors.As(err, &unkept) {
		return err
	}
	op, err := f.operate.startAdmin(log)
	if err != nil {
		return err
	}
	defer op.closePages()
	model, err := f.openModel(ctx, log)
	if err != nil {
		return err
	}
	defer model.Close()
	events := engine.NewGatewayLog(log)
	defer events.Close()
	o.Events = op.teeEvents(events.Event)
	g, err := model.Gateway(o)
	if err != nil {
		return err
	}
	op.addGateway(g, model)
	defer model.Attend()()
	printGreeting(a, socket.LocalAddr(), g.Fingerprint(), who, model.About())
	op.logAddress()
	f.logWarnings(log, unkept)
	r := reloader{f: f, g: g, listen: socket.LocalAddr(), open: len(o.Tokens) == 0, log: log, level: level}
	defer r.watchSettings(hangups)()
	return g.Serve(ctx, socket)
}

func (f *cloudCommandFlags) openModel(ctx context.Context, log *slog.Logger) (group.CloudModel, error) {
	if len(f.upstream.O.URLs) > 0 {
		return f.upstream.Open(ctx, log)
	}
	e, err := f.model.Open()
	if err != nil {
		return nil, err
	}
	o, err := f.serviceOptions()
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	s, err := e.Serve(o)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &builtInModel{e, s, log}, nil
}

func (f *cloudCommandFlags) serviceOptions() (o engine.ServeOptions, err error) {
	o = engine.ServeOptions{Slots: f.slots}
	if f.router == "" {
		return o, nil
	}
	file, err := engine.ReadRouter(f.router)
	if err == nil && file.Judge == nil {
		err = errors.New("it has no judge, which is what a gateway uses of it")
	}
	if err != nil {
		return o, fmt.Errorf("--router %s: %w", f.router, err)
	}
	o.Judge = file.Judge
	return o, nil
}

// builtInModel is a model that this program runs.
type builtInModel struct {
	e   *engine.Engine
	s   *engine.Service
	log *slog.Logger
}

func (m *builtInModel) Gateway(o engine.GatewayOptions) (*engine.Gateway, error) {
	return m.s.Gateway(o)
}

func (m *builtInModel) About() []string {
	s := m.s
	return []string{
		fmt.Sprintf("memory for %d tokens of all devices together, that is for %d devices with a full context of %d "+
			"tokens: up to %s",
			s.Slots(), s.Slots()/s.Context(), s.Context(), humanize.IBytes(uint64(s.KVBytes()))),
		fmt.Sprintf("a question waits for others by steps of at most %d new tokens", s.Rows()),
	}
}

func (m *builtInModel) Attend() (stop func()) {
	undo := tuneCollector(m.s.KVBytes(), func() uint64 { return m.s.Stats().Steps })
	before := runtime.GOMAXPROCS(m.e.Threads() + 2) // the network needs threads while all threads of the model compute
	return func() {
		runtime.GOMAXPROCS(before)
		undo()
	}
}

func (m *builtInModel) Metrics() []prometheus.Collector {
	return []prometheus.Collector{group.NewServiceMetrics(m.s.Stats)}
}

func (m *builtInModel) Ready() error { return nil }

func (m *builtInModel) Close() {
	m.s.Close()
	s := m.s.Stats() // after Close, so that it covers all work
	m.log.Info("computed", "tokens", s.Computed, "passes", s.Steps,
		"lookup_proposed", s.Guessed, "lookup_accepted", s.Accepted, "shared", s.Shared)
	m.e.Close() // only unmaps a file
}

func (f *cloudCommandFlags) setCredentials(o *engine.GatewayOptions, listen net.Addr) (who accessPolicy, err error) {
	token := ""
	dir, noDir := os.UserConfigDir()
	if noDir == nil {
		dir = filepath.Join(dir, "pilotfish")
		token = filepath.Join(dir, "cloud.token")
	} else if f.cert == "" {
		return who, fmt.Errorf("the certificate cannot be stored: %w; give one with --cert and --key", noDir)
	}
	if o.Certificate, err = f.loadCertificate(dir); err != nil {
		return who, err
	}
	if who, err = f.access.decideAccess(listen, token); err != nil {
		return who, err
	}
	o.Tokens = who.tokens
	o.TicketKeys, err = f.loadTicketKeys(time.Now())
	return who, err
}

func printGreeting(a *cli.App, at net.Addr, pin netproto.Digest, who accessPolicy, about []string) {
	fmt.Fprintf(a.Stderr, "listening on %s, %s\n", at, who.say)
	for _, line := range about { // an engine reports a part of it
		fmt.Fprintln(a.Stderr, cli.Harmless(line))
	}
	if who.made {
		fmt.Fprintf(a.Stderr,
			"on the device, paste this with the name of this machine for HOST and a small model's file for "+
				"SMALL.gguf:\n  "+
				"PILOTFISH_TOKEN=%s pilotfish run -m SMALL.gguf --cloud HOST:%d --pin %s \"What does a pilot fish "+
				"do?\"\n",
			string(who.tokens[0].Secret), at.(*net.UDPAddr).Port, pin)
	}
	fmt.Fprintf(a.Stdout, "%s\n", pin)
}

// runInBackground calls ticked after every period, and signalled after each signal. The result stops it, and waits.
func runInBackground(period time.Duration, ticked func(time.Time), signals <-chan os.Signal,
	signalled func()) (stop func()) {
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-signals:
				signalled()
			case now := <-tick.C:
				ticked(now)
			}
		}
	})
	return func() { close(end); done.Wait() }
}

// loadCertificate reads the certificate. If none was given, it reads the gateway's own, which it creates on the first
// start.
func (f *cloudCommandFlags) loadCertificate(dir string) (tls.Certificate, error) {
	if f.cert != "" {
		c, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			err = fmt.Errorf("--cert %s, --key %s: %w", f.cert, f.key, err)
		}
		return c, err
	}
	cert, key := filepath.Join(dir, "cloud.crt"), filepath.Join(dir, "cloud.key")
	c, err := tls.LoadX509KeyPair(cert, key)
	if !errors.Is(err, os.ErrNotExist) {
		return c, err
	}
	if f.access.dry {
		return c, nil
	}
	certPEM, keyPEM, err := engine.NewCertificate()
	if err != nil {
		return c, err
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(key, keyPEM, 0o600)
	}
	if err == nil {
		err = os.WriteFile(cert, certPEM, 0o644)
	}
	if err != nil {
		return c, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// checkModelFlags returns an error if the command line names no model or two. It names flags without effect.
func (f *cloudCommandFlags) checkModelFlags(set *pflag.FlagSet, stderr io.Writer) error {
	upstream := set.Changed("upstream")
	switch {
	case !upstream && !set.Changed("model"):
		return cli.Usagef("there is no model: name a file with -m, or an engine with --upstream URL")
	case upstream && set.Changed("model"):
		return cli.Usagef("-m runs a model here, --upstream asks an engine for it: leave one of them out")
	}
	here := []string{"threads", "ctx", "kv", "backend", "exact", "huge-pages", "slots", "router"}
	here = slices.DeleteFunc(here, func(name string) bool { return !set.Changed(name) })
	if upstream && len(here) > 0 {
		fmt.Fprintf(stderr, "--upstream runs the model elsewhere: no effect has --%s\n", strings.Join(here, ", --"))
	}
	return f.upstream.Check(set)
}
