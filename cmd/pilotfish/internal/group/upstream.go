package group

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// UpstreamFlags has the flags for the inference engines that serve the large model.
type UpstreamFlags struct {
	O         engine.UpstreamOptions
	kind      string
	Key       string
	Tokenizer string
	set       *cli.OptionsFlag
}

// Register adds the flags of a gateway with engines.
func (u *UpstreamFlags) Register(f *pflag.FlagSet) {
	u.RegisterAll(f)
	cli.Add(u.set.FlagSet, "engine.wait", &u.O.Patience, 2*time.Minute)
	cli.Add(u.set.FlagSet, "engine.hedge", &u.O.Hedge, 0)
	cli.Add(u.set.FlagSet, "engine.parallel", &u.O.Parallel, 0)
	cli.Add(u.set.FlagSet, "engine.audit-every", &u.O.AuditEvery, 8)
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
	cli.Add(u.set.FlagSet, "engine.kind", &u.kind, "auto")
	cli.Add(u.set.FlagSet, "engine.model", &u.O.Model, "")
	cli.Add(u.set.FlagSet, "engine.key-file", &u.Key, "")
	cli.Add(u.set.FlagSet, "engine.trust-vocabulary", &u.O.TrustVocabulary, false)
}

func kindNames() string {
	var names []string
	for _, k := range engine.UpstreamKinds() {
		names = append(names, string(k))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Check checks the flags that do not depend on the answers of the engines, and reads the key.
func (u *UpstreamFlags) Check(set *pflag.FlagSet) error {
	given := u.set.Changed
	if !set.Changed("upstream") {
		for _, name := range []string{"tokenizer", "engine"} {
			if set.Changed(name) {
				return cli.Usagef("--%s is for engines: it needs --upstream URL", name)
			}
		}
		return nil
	}
	switch {
	case u.O.Patience < 0 || given("hedge") && u.O.Hedge <= 0:
		return cli.Usagef("--engine wait and --engine hedge must be above 0")
	case given("parallel") && (u.O.Parallel < 1 || u.O.Parallel > 4096):
		return cli.Usagef("--engine parallel=%d is out of range: give 1 to 4096", u.O.Parallel)
	case given("audit-every") && u.O.AuditEvery < 1:
		return cli.Usagef("--engine audit-every=%d: give 1 or more", u.O.AuditEvery)
	case u.O.Hedge > 0 && len(u.O.URLs) < 2:
		return cli.Usagef("--engine hedge needs a second --upstream to ask")
	}
	return u.CheckEngine()
}

// CheckEngine checks the flags that are needed for one engine, and reads the key.
func (u *UpstreamFlags) CheckEngine() error {
	switch {
	case u.Tokenizer == "":
		return cli.Usagef("an engine needs --tokenizer FILE: a GGUF file with the vocabulary of the devices' model")
	case !slices.Contains(engine.UpstreamKinds(), engine.UpstreamKind(u.kind)):
		return cli.Usagef("--engine kind=%.40q is not known: choose %s", u.kind, kindNames())
	}
	u.O.Kind = engine.UpstreamKind(u.kind)
	return u.readKey()
}

func (u *UpstreamFlags) readKey() error {
	if !u.set.Changed("key-file") {
		return nil
	}
	if u.Key == "" {
		return cli.Usagef("--engine key-file= names no file")
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
	return &upstreamModel{up, u.Tokenizer, log}, nil
}

// upstreamModel is a model that engines serve.
type upstreamModel struct {
	u         *engine.Upstream
	tokenizer string // file
	log       *slog.Logger
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
			name, e.Facts.Dialect, e.Facts.Version, e.Facts.Model, orUnknown(e.Facts.MaxContext), e.Facts.Choices,
			e.Facts.Audit))
		for _, note := range e.Facts.Notes {
			lines = append(lines, "  "+note)
		}
	}
	return lines
}

func orUnknown(n int) string {
	if n == 0 {
		return "an unknown number of"
	}
	return fmt.Sprint(n)
}

func (m *upstreamModel) Attend() (stop func()) { return func() {} }

func (m *upstreamModel) Metrics() prometheus.Collector { return NewUpstreamMetrics(m.u.Stats) }

func (m *upstreamModel) Ready() error { return m.u.Ready() }

func (m *upstreamModel) Text() (func([]int32) string, error) {
	t, err := engine.ReadTokenizer(m.tokenizer)
	if err != nil {
		return nil, err
	}
	return t.Decode, nil
}

// Close logs the statistics of the engines.
func (m *upstreamModel) Close() {
	m.u.Close()
	logEngines(m.log, m.u.Stats())
}

func logEngines(log *slog.Logger, s engine.UpstreamStats) {
	for _, e := range s.Engines {
		log.Info("asked", "engine", e.URL, "questions", e.Asks, "answered", e.Answered, "failed", e.Failed,
			"cancelled", e.Cancelled, "outages", e.Outages, "cached_tokens", e.Cached, "of_tokens", e.Context,
			"audited", e.Audited, "audit_tokens", e.AuditExtra, "evicted_sessions", e.Evicted)
	}
	log.Info("repeated", "questions", s.Repeats, "differing_answers", s.Differing)
}

// CloudModel is the large model of a gateway.
type CloudModel interface {
	Gateway(engine.GatewayOptions) (*engine.Gateway, error)
	About() []string       // lines for the operator
	Attend() (stop func()) // starts background work while the gateway serves

	Metrics() prometheus.Collector
	Ready() error                            // why no question can be answered, or nil; it does not block
	Text() (func(ids []int32) string, error) // converts tokens to text for people

	Close() // called at the end
}
