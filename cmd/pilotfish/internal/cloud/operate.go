package cloud

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto/admin"
	"github.com/pilotfish-ai/pilotfish/netproto/metrics"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// operateFlags has the flags for operating a gateway.
type operateFlags struct {
	config  string // file
	check   bool
	admin   string // address, or off
	tickets string // file
	level   string // of the log

	set     *pflag.FlagSet
	given   map[string][]string // on the command line
	strange []string            // environment variables that match no flag
}

// adminDefault is the default address of the admin pages.
const adminDefault = "127.0.0.1:9433"

func (o *operateFlags) registerFlags(p *pflag.FlagSet) {
	o.set = p
	cli.Add(p, "config", &o.config, "")
	cli.Add(p, "check-config", &o.check, false)
	cli.Add(p, "admin", &o.admin, adminDefault)
	cli.Add(p, "ticket-key-file", &o.tickets, "")
	cli.Add(p, "log-level", &o.level, "info")
}

// adminAddress returns the address of the admin pages. An address without a host is on loopback. "" means no pages.
func adminAddress(flag string) (string, error) {
	if flag == "off" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(flag)
	if err != nil {
		return "", cli.Usagef("--admin %q: give HOST:PORT, such as %s, or off", flag, adminDefault)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// adminServer has the pages and metrics of a running gateway. It exists before the model is loaded.
type adminServer struct {
	log     *slog.Logger
	metrics *prometheus.Registry
	events  *metrics.Events
	pages   *admin.Server // nil: none
	at      net.Addr      // of the pages
	taken   error         // why the default address could not be used
	health  atomic.Pointer[func() error]
}

func (o *operateFlags) startAdmin(log *slog.Logger) (*adminServer, error) {
	op := &adminServer{log: log, metrics: prometheus.NewRegistry()}
	alive := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	op.metrics.MustRegister(cli.BuildMetric(),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(alive)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.Health("ready", "Whether questions can be answered, as /readyz says.", op.readyError))
	op.events = metrics.NewEvents(op.metrics)
	address, err := adminAddress(o.admin)
	if err != nil || address == "" {
		return op, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil && o.set.Changed("admin") {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	if err != nil {
		op.taken = err
		return op, nil
	}
	op.at = listener.Addr()
	local := op.at.(*net.TCPAddr).IP.IsLoopback()
	op.pages = admin.Serve(listener, admin.Handler(admin.Options{
		Metrics: op.metrics, Ready: op.readyError, Profile: local, Log: log}), log)
	return op, nil
}

// readyError returns why no questions can be answered, or nil. It does not block.
func (op *adminServer) readyError() error {
	if health := op.health.Load(); health != nil {
		return (*health)()
	}
	return errors.New("the gateway is starting")
}

func (op *adminServer) addGateway(g *engine.Gateway, model group.CloudModel) {
	metrics.State(op.metrics, g.Stats)
	op.metrics.MustRegister(model.Metrics()...)
	op.metrics.MustRegister(metrics.Health("upstream_up", "Whether the large model is available.", model.Ready))
	health := func() error {
		if g.Stats().Serving == 0 {
			return errors.New("the gateway accepts no clients: it is starting or stopping")
		}
		return model.Ready()
	}
	op.health.Store(&health)
}

func (op *adminServer) teeEvents(log func(engine.GatewayEvent)) func(engine.GatewayEvent) {
	return func(e engine.GatewayEvent) {
		log(e)
		op.events.Event(e)
	}
}

func (op *adminServer) logAddress() {
	switch {
	case op.taken != nil:
		op.log.Warn("there are no pages for operators: give an address with --admin", "error", op.taken)
	case op.at != nil:
		op.log.Info("pages for operators", "address", op.at.String())
	}
}

func (op *adminServer) closePages() {
	if op.pages != nil {
		op.pages.Close()
	}
}
