package group

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// UpstreamFlags has the flags for the inference engines that serve the large model.
type UpstreamFlags struct {
	O         engine.UpstreamOptions
	Key       string
	Tokenizer string
	set       *cli.OptionsFlag
}

// enginePatience is the time to wait for the first engine at the start: loading a large model takes minutes.
const enginePatience = 10 * time.Minute

// Register adds the flags of a gateway with engines.
func (u *UpstreamFlags) Register(f *pflag.FlagSet) {
	u.RegisterAll(f)
	u.O.Patience = enginePatience
}

// RegisterAll adds the flags that name the engines.
func (u *UpstreamFlags) RegisterAll(f *pflag.FlagSet) {
	cli.Add(f, "upstream", &u.O.URLs, nil)
	u.RegisterEngine(f)
}

// RegisterEngine adds the flags that are needed for one engine.
func (u *UpstreamFlags) RegisterEngine(f *pflag.FlagSet) {
	cli.Add(f, "tokenizer", &u.Tokenizer, "")
	u.set = cli.AddOptions(f, "engine")
	cli.Add(u.set.FlagSet, "engine.model", &u.O.Model, "")
	cli.Add(u.set.FlagSet, "engine.key-file", &u.Key, "")
}

// Check checks the flags that do not depend on the answers of the engines, and reads the key.
func (u *UpstreamFlags) Check(set *pflag.FlagSet) error {
	if !set.Changed("upstream") {
		for _, name := range []string{"tokenizer", "engine"} {
			if set.Changed(name) {
				return cli.Usagef("--%s is for engines: it needs --upstream URL", name)
			}
		}
		return nil
	}
	return u.CheckEngine()
}

// CheckEngine checks the flags that are needed for one engine, and reads the key.
func (u *UpstreamFlags) CheckEngine() error {
	if u.Tokenizer == "" {
		return cli.Usagef("an engine needs --tokenizer FILE: a GGUF file with the vocabulary of the devices' model")
	}
	if u.Key == "" {
		return nil
	}
	b, err := cli.ReadSmall(u.Key, cli.MaxSecrets)
	if err != nil {
		return fmt.Errorf("--engine key-file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return fmt.Errorf("--engine key-file=%s: there must be one line with the key, and nothing else", u.Key)
	}
	u.O.Key = netproto.Secret(key)
	return nil
}

// Open connects to the engines and asks for their capabilities.
func (u *UpstreamFlags) Open(ctx context.Context, log *slog.Logger) (CloudModel, error) {
	u.O.Log = log
	up, err := engine.OpenUpstream(ctx, u.Tokenizer, u.O)
	if err != nil {
		return nil, err
	}
	return &upstreamModel{up, log}, nil
}

// upstreamModel is a model that engines serve.
type upstreamModel struct {
	u   *engine.Upstream
	log *slog.Logger
}

func (m *upstreamModel) Gateway(o engine.GatewayOptions) (*engine.Gateway, error) {
	return m.u.Gateway(o)
}

func (m *upstreamModel) About() (lines []string) {
	for _, e := range m.u.Stats().Engines {
		name := e.URL
		if at, err := url.Parse(e.URL); err == nil {
			name = at.Host
		}
		if !e.In {
			lines = append(lines, fmt.Sprintf("engine %s is not there yet: %v", name, e.Why))
			continue
		}
		lines = append(lines, fmt.Sprintf("engine %s: %s %s serves %s, with contexts of %s tokens, %d probabilities, "+
			"audits: %s",
			name, e.Facts.Dialect, e.Facts.Version, e.Facts.Model, formatContextLimit(e.Facts.MaxContext),
			e.Facts.Choices, e.Facts.Audit))
	}
	return lines
}

func formatContextLimit(n int) string {
	if n == 0 {
		return "an unknown number of"
	}
	return fmt.Sprint(n)
}

func (m *upstreamModel) Attend() (stop func()) { return func() {} }

func (m *upstreamModel) Metrics() []prometheus.Collector { return NewUpstreamMetrics(m.u.Stats) }

func (m *upstreamModel) Ready() error { return m.u.Ready() }

// Close logs the statistics of the engines.
func (m *upstreamModel) Close() {
	m.u.Close()
	logEngineStats(m.log, m.u.Stats())
}

func logEngineStats(log *slog.Logger, s engine.UpstreamStats) {
	for _, e := range s.Engines {
		log.Info("asked", "engine", e.URL, "answered", e.Answered, "failed", e.Failed, "cancelled", e.Cancelled,
			"outages", e.Outages, "cached_tokens", e.Cached, "of_tokens", e.Context)
	}
	log.Info("repeated", "questions", s.Repeats, "differing_answers", s.Differing)
}

// CloudModel is the large model of a gateway.
type CloudModel interface {
	Gateway(engine.GatewayOptions) (*engine.Gateway, error)
	About() []string       // lines for the operator
	Attend() (stop func()) // starts background work while the gateway serves

	Metrics() []prometheus.Collector
	Ready() error // why no question can be answered, or nil; it does not block

	Close() // called at the end
}
